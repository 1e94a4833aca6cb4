//! A released contract does not change, and what was built for it keeps running.

use std::collections::BTreeSet;
use std::fs;

use sha2::{Digest, Sha256};
use sluice::plugin::PluginState;
use sluice_core::facts::TagPhase;
use sluice_core::kind::FailureKind;

use crate::author_support::root;
use crate::plugins_support::*;

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `DIGEST  VERSION/FILE`, as `sha256sum` writes it.
#[test]
fn no_file_of_a_released_contract_changes() {
    let wit = root().join("wit");
    let recorded = fs::read_to_string(wit.join("0.1.0.sha256")).expect("the digests");
    let mut named = BTreeSet::new();
    for line in recorded.lines() {
        let (expected, file) = line.split_once("  ").expect("a digest and a file");
        let bytes = fs::read(wit.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(
            digest(&bytes),
            expected,
            "{file} is released: a change is a new version, see wit/README.md"
        );
        named.insert(file.to_owned());
    }
    let there: BTreeSet<String> = fs::read_dir(wit.join("0.1.0"))
        .expect("the contract")
        .map(|entry| format!("0.1.0/{}", entry.expect("an entry").file_name().to_string_lossy()))
        .collect();
    assert_eq!(named, there, "files of the released contract");
    // The record itself must not follow a change either.
    let all = "a23cb372";
    assert_eq!(&digest(recorded.as_bytes())[..8], all, "wit/0.1.0.sha256 is as old as the release");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_component_that_was_built_for_it_long_ago_still_answers_all_three_questions() {
    let stored = fs::read(root().join("tests/contract/all-kinds-0.1.0.wasm")).expect("the stored component");
    assert!(stored.len() < 150_000);
    assert_eq!(&digest(&stored)[..8], "5793242e", "it is never built again");
    let bench = Bench::new(&[]);
    bench.put("old.wasm", &stored);
    let registry = bench.start().await;
    let page = entry(&registry, "old.wasm");
    assert_eq!((page.state, page.contract), (PluginState::Active, Some("0.1.0")), "{:?}", page.rejection);
    let policy = policy(&registry);
    let ranked = policy.rank(&request(&[]), moment(), &candidates()).await.advice;
    assert_eq!(&*ranked.votes[0].0, "old");
    assert!(
        ranked.scores[2] > ranked.scores[1] && ranked.scores[1] > ranked.scores[0],
        "{:?}",
        ranked.scores
    );
    let judged = policy.judge(&request(&[]), moment(), &failure(409)).await.advice;
    assert_eq!((judged.by.as_deref(), judged.verdict.kind), (Some("old"), FailureKind::InvalidRequest));
    let tags = policy.tag(&request(&[]), moment(), &answer(TagPhase::Head)).await.advice;
    assert_eq!(
        tags.iter().map(|tag| (&*tag.name, &*tag.value)).collect::<Vec<_>>(),
        [("x-all-kinds", "yes")]
    );
}
