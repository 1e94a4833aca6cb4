//! Guests that misbehave in a call: each in its own way, told apart, and never felt by others.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use sluice::clock;
use sluice::plugin::{PluginState, Registry};

use crate::guests::FAULTS;
use crate::plugins_support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_has_its_own_result_and_the_bundled_router_answers() {
    let bench = Bench::new(&[("h.wasm", "hostile-router")]);
    let registry = bench.start().await;
    let policy = policy(&registry);
    for (header, result) in FAULTS {
        let before = bench.recorder.count(&format!("called h router {result}"));
        let ranked = policy.rank(&request(&[header]), moment(), &candidates()).await;
        let counted = bench.recorder.count(&format!("called h router {result}"));
        assert_eq!(counted, before + 1, "{header}: {:#?}", bench.recorder.lines());
        assert_eq!(&*ranked.advice.votes[0].0, "weighted-router", "{header}");
        assert!(ranked.advice.scores[0] > ranked.advice.scores[2], "{header}: the configured order");
        // A good call in between, so that it is not set aside, and so that the next one meets a new instance.
        let good = policy.rank(&request(&[]), moment(), &candidates()).await;
        assert_eq!(&*good.advice.votes[0].0, "h", "{header} must not hurt the next call");
    }
    let failures = entry(&registry, "h.wasm").failures;
    assert_eq!(failures["invalid"], 3);
    assert_eq!(failures.values().sum::<u64>(), FAULTS.len() as u64);
    assert!(bench.recorder.count("log h Stderr") >= 1, "the text of a panic is in the log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_lines_and_a_huge_reason_are_cut() {
    let bench = Bench::new(&[("h.wasm", "hostile-router")]);
    let registry = bench.start().await;
    let policy = policy(&registry);
    let before = bench.recorder.count("log h");
    policy.rank(&request(&["x-flood"]), moment(), &candidates()).await;
    // The lines it may write, what it wrote too much, and, when the flood took too long, how it ended.
    let lines = bench.recorder.count("log h") - before;
    assert!((1..=34).contains(&lines), "{lines} lines");
    policy.rank(&request(&[]), moment(), &candidates()).await;
    let ranked = policy.rank(&request(&["x-wordy"]), moment(), &candidates()).await;
    let (by, votes) = &ranked.advice.votes[0];
    assert_eq!(&**by, "h", "ten kilobytes of reason are no fault: {:#?}", bench.recorder.lines());
    let lengths: Vec<_> = votes.iter().map(|vote| vote.reason.as_ref().map(String::len)).collect();
    assert_eq!(lengths, [Some(256); 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_keeps_failing_is_set_aside_and_comes_back_by_one_good_trial() {
    let bench = Bench::new(&[("h.wasm", "hostile-router")]);
    let registry = bench.start().await;
    let policy = policy(&registry);
    for _ in 0..5 {
        policy.rank(&request(&["x-trap"]), moment(), &candidates()).await;
    }
    assert_eq!(entry(&registry, "h.wasm").state, PluginState::SetAside);
    assert_eq!(bench.recorder.count("set_aside h 1s"), 1);
    let ranked = policy.rank(&request(&["x-trap"]), moment(), &candidates()).await;
    assert_eq!(ranked.by.len(), 1, "it is not asked: {:?}", ranked.by);
    assert_eq!(bench.recorder.count("called h router trap"), 5);
    assert_eq!(bench.recorder.count("called h router set_aside"), 1);
    let recovered = async {
        while entry(&registry, "h.wasm").state != PluginState::Active {
            policy.rank(&request(&[]), moment(), &candidates()).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, recovered).await.expect("one good trial lets it back");
    let ranked = policy.rank(&request(&[]), moment(), &candidates()).await;
    assert_eq!(&*ranked.advice.votes[0].0, "h");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_fails_in_its_first_minutes_gives_way_to_the_one_before() {
    let bench = Bench::new(&[("r.wasm", "reverse-router")]);
    let registry = bench.start().await;
    let good = entry(&registry, "r.wasm").digest;
    bench.put("r.wasm", &guest("hostile-router"));
    bench.recorder.wait_for("loaded r", 2).await;
    until_state(&registry, "r.wasm", PluginState::Active).await;
    for _ in 0..5 {
        policy(&registry).rank(&request(&["x-trap"]), moment(), &candidates()).await;
    }
    bench.recorder.wait_for("rolled_back r", 1).await;
    until_state(&registry, "r.wasm", PluginState::LastGood).await;
    assert_eq!(entry(&registry, "r.wasm").digest, good);
    let ranked = policy(&registry).rank(&request(&["x-trap"]), moment(), &candidates()).await;
    assert_eq!(&*ranked.advice.votes[0].0, "r");
    assert!(ranked.advice.scores[2] > ranked.advice.scores[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looping_calls_end_and_others_go_on_meanwhile() {
    let mut bench = Bench::new(&[("l.wasm", "looping-router")]);
    bench.settings.deadline = Duration::from_millis(20);
    let registry = bench.start().await;
    let policy = policy(&registry);
    let began = clock::now();
    let looping: Vec<_> = (0..64)
        .map(|_| {
            let policy = policy.clone();
            bench
                .tracker
                .spawn(async move { policy.rank(&request(&["x-loop"]), moment(), &candidates()).await })
        })
        .collect();
    // Another plugin, asked while guests loop on both threads.
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let asked = clock::now();
        policy.judge(&request(&[]), moment(), &failure(500)).await;
        slowest = slowest.max(clock::now().duration_since(asked));
    }
    for call in looping {
        let ranked = call.await.expect("no panic");
        assert_eq!(&*ranked.advice.votes[0].0, "weighted-router");
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(
        clock::now().duration_since(began) < Duration::from_secs(20),
        "{:?}",
        clock::now().duration_since(began)
    );
    let timeouts = bench.recorder.count("called l router timeout");
    assert!((3..=64).contains(&timeouts), "{timeouts}");
    let ended = ["timeout", "saturated", "set_aside"]
        .map(|result| bench.recorder.count(&format!("called l router {result}")));
    assert_eq!(ended.iter().sum::<usize>(), 64, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_dropped_takes_its_instance_with_it_and_is_no_failure() {
    let mut bench = Bench::new(&[("l.wasm", "looping-router")]);
    bench.settings.deadline = Duration::from_secs(30);
    let registry = bench.start().await;
    let policy = policy(&registry);
    let dropped = async {
        let request = request(&["x-loop"]);
        let candidates = candidates();
        tokio::select! {
            biased;
            _ = policy.rank(&request, moment(), &candidates) => false,
            () = bench.recorder.wait_for("log l Log about to spin", 1) => true,
        }
    };
    assert!(dropped.await, "it returned");
    assert_eq!(entry(&registry, "l.wasm").live, 0);
    let ranked = policy.rank(&request(&[]), moment(), &candidates()).await;
    assert_eq!(&*ranked.advice.votes[0].0, "l");
    let status = entry(&registry, "l.wasm");
    assert_eq!((status.live, status.failures.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_makes_a_plugin_fail_is_rolled_back_like_new_bytes() {
    let bench = Bench::new(&[("h.wasm", "hostile-router")]);
    bench.put("h.yaml", b"weight: 2\n");
    let registry = bench.start().await;
    let weight = |registry: &Registry| registry.current().active()[0].options().weight;
    bench.put("h.yaml", b"weight: 3\n");
    bench.recorder.wait_for("loaded h", 2).await;
    assert!(weight(&registry) > 2.5);
    for _ in 0..5 {
        policy(&registry).rank(&request(&["x-trap"]), moment(), &candidates()).await;
    }
    bench.recorder.wait_for("rolled_back h", 1).await;
    until_state(&registry, "h.wasm", PluginState::LastGood).await;
    assert!(weight(&registry) < 2.5, "the sidecar before it is in force again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_guest_may_call_keeps_it_waiting() {
    let bench = Bench::new(&[("w.wasm", "waiting-router")]);
    let registry = bench.start().await;
    let ranked = policy(&registry).rank(&request(&["x-wait"]), moment(), &candidates()).await;
    assert_eq!(&*ranked.advice.votes[0].0, "w", "{:#?}", bench.recorder.lines());
    assert_eq!(bench.recorder.count("log w Stdout read"), 1);
}
