//! Several plugins in one folder, and the bundled policy beside them.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_core::facts::{Sink, TagPhase};
use sluice_core::kind::FailureKind;
use sluice_core::verdict::Action;

use crate::plugins_support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_of_routers_are_added_and_an_exclusion_by_one_is_final() {
    let bench = Bench::new(&[("a.wasm", "exclude-router"), ("b.wasm", "reverse-router")]);
    let registry = bench.start().await;
    let policy = policy(&registry);
    let ranked = policy.rank(&request(&["x-exclude=up1/m"]), moment(), &candidates()).await.advice;
    assert_eq!(ranked.scores[1], None);
    assert!(ranked.scores[2] > ranked.scores[0], "{:?}", ranked.scores);
    assert_eq!(ranked.votes.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["a", "b"]);
    assert!(ranked.votes[1].1[0].reason.is_some());
    let none = policy.rank(&request(&[]), moment(), &candidates()).await.advice;
    assert_eq!(none.scores, [None, None, None]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_classifier_with_an_opinion_decides_and_the_bundled_one_is_last() {
    let bench = Bench::new(&[
        ("a.wasm", "soft-classifier"),
        ("b.wasm", "switch-classifier"),
        ("c.wasm", "all-kinds"),
    ]);
    let registry = bench.start().await;
    let policy = policy(&registry);
    let asked = policy.judge(&request(&[]), moment(), &failure(401)).await;
    assert_eq!((asked.advice.by.as_deref(), asked.advice.verdict.action), (Some("b"), Action::Switch));
    assert_eq!(asked.by.iter().map(|plugin| &*plugin.name).collect::<Vec<_>>(), ["a", "b"]);
    let asked = policy.judge(&request(&[]), moment(), &failure(409)).await;
    assert_eq!(asked.advice.by.as_deref(), Some("c"));
    let asked = policy.judge(&request(&["x-trap-classifier"]), moment(), &failure(500)).await;
    assert_eq!(asked.advice.by.as_deref(), Some("standard-classifier"));
    assert_eq!(asked.advice.verdict.kind, FailureKind::RetryableUpstream);
    let asked = policy.judge(&request(&["x-client-status=200"]), moment(), &failure(418)).await;
    assert_eq!(asked.advice.by.as_deref(), Some("standard-classifier"), "200 is no status of an error");
    assert_eq!(bench.recorder.count("called b classifier invalid"), 1);
    assert!(bench.recorder.count("called a classifier none") >= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_taggers_write_and_the_bundled_one_takes_the_place_of_one_that_fails() {
    let bench = Bench::new(&[("a.wasm", "all-kinds"), ("b.wasm", "note-tagger")]);
    let registry = bench.start().await;
    let policy = policy(&registry);
    assert!(policy.wants_record_tags());
    let names = |tags: &[sluice_core::facts::Tag], sink| {
        tags.iter().filter(|tag| tag.sink == sink).map(|tag| tag.name.clone()).collect::<Vec<_>>()
    };
    let head = policy.tag(&request(&[]), moment(), &answer(TagPhase::Head)).await.advice;
    assert_eq!(names(&head, Sink::Header), ["x-all-kinds", "x-note"]);
    let record = policy.tag(&request(&[]), moment(), &answer(TagPhase::Record)).await;
    assert_eq!(names(&record.advice, Sink::Record), ["note", "duration", "latency"]);
    assert_eq!(record.by.len(), 1, "the other one did not ask for the record");
    for header in ["x-trap-tagger", "x-bad-tags"] {
        let tags = policy.tag(&request(&[header]), moment(), &answer(TagPhase::Head)).await.advice;
        let names = names(&tags, Sink::Header);
        assert!(
            names.contains(&"x-all-kinds".into()) && names.contains(&"x-sluice-route".into()),
            "{header} {names:?}"
        );
        assert!(!names.iter().any(|name| name == "content-length" || name == "set-cookie"), "{names:?}");
    }
    assert_eq!(bench.recorder.count("called b tagger trap"), 1);
    assert_eq!(bench.recorder.count("called b tagger invalid"), 1);
}
