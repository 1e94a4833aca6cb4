//! Guests that must not get in, and what they leave running.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use sluice::clock;
use sluice::plugin::{PluginState, Reason};

use crate::plugins_support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_that_misbehave_before_the_first_request_are_refused_for_their_own_reason() {
    let cases = [
        ("loop-start", Reason::Instantiate, "longer than its deadline"),
        ("loop-configure", Reason::Configure, "longer than its deadline"),
        ("trap-configure", Reason::Configure, "trapped"),
        ("error-configure", Reason::Configure, "region"),
        ("trap-probe", Reason::Probe, "candidates"),
        ("big-memory", Reason::Resources, "initial memory"),
        ("clock-import", Reason::Import, "wasi:clocks/"),
        ("extra-import", Reason::Import, "wasi:"),
        ("wrong-shape", Reason::Contract, "0.1.0"),
        ("wrong-world", Reason::Contract, "exports nothing of sluice:policy"),
    ];
    let files: Vec<(String, &str)> = cases.iter().map(|(name, ..)| (format!("{name}.wasm"), *name)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(file, name)| (file.as_str(), *name)).collect();
    let bench = Bench::new(&files);
    let registry = bench.start().await;
    for (name, reason, words) in cases {
        let entry = entry(&registry, &format!("{name}.wasm"));
        let Some(rejection) = entry.rejection else { panic!("{name} runs") };
        assert_eq!(
            (entry.state, rejection.reason),
            (PluginState::Rejected, reason),
            "{name}: {}",
            rejection.message
        );
        assert!(rejection.message.contains(words), "{name}: {}", rejection.message);
        assert!(rejection.message.len() < 4096, "{name}: the words of a guest are bounded");
    }
    assert!(registry.current().active().is_empty());
    let ranked = policy(&registry).rank(&request(&[]), moment(), &candidates()).await;
    assert_eq!(&*ranked.advice.votes[0].0, "weighted-router");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_new_version_leaves_the_old_one_serving() {
    let bench = Bench::new(&[("r.wasm", "reverse-router")]);
    let registry = bench.start().await;
    let bad = ["loop-start", "trap-configure", "trap-probe", "wrong-shape", "extra-import"];
    for (at, name) in bad.into_iter().enumerate() {
        let began = clock::now();
        bench.put("r.wasm", &guest(name));
        bench.recorder.wait_for("rejected r", at + 1).await;
        // Generous: the promise is a second on a machine of its own.
        assert!(clock::now().duration_since(began) < Duration::from_secs(20), "{name}");
        until_state(&registry, "r.wasm", PluginState::LastGood).await;
        let ranked = policy(&registry).rank(&request(&[]), moment(), &candidates()).await;
        assert_eq!(&*ranked.advice.votes[0].0, "r");
        assert!(ranked.advice.scores[2] > ranked.advice.scores[0], "the old version prefers the last");
    }
    bench.put("r.wasm", &guest("all-kinds"));
    bench.recorder.wait_for("loaded r", 2).await;
    until_state(&registry, "r.wasm", PluginState::Active).await;
    assert_eq!(entry(&registry, "r.wasm").kinds, ["router", "classifier", "tagger"]);
}
