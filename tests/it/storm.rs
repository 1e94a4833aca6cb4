//! Short looks of the kinds that `cargo run --release -p sluice-tests --bin storm` takes long ones of.

use harness::gateway::binary;
use harness::storm::{Footprint, Reloads, Storm};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_storm_leaves_nothing_behind() {
    let seed = fastrand::u64(..);
    let storm = Storm { program: binary(), seconds: 6, concurrency: 24, seed };
    let report = Box::pin(storm.run()).await;
    assert!(report.wrong.is_empty(), "seed {seed}\n{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stream_is_lost_while_a_plugin_is_swapped_again_and_again() {
    let reloads = Reloads { program: binary(), count: 20, concurrency: 12, growth: 64 };
    let report = Box::pin(reloads.run()).await;
    assert!(report.wrong.is_empty(), "{report}");
    assert!(report.streams >= 12, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_plugins_load_and_decide_together() {
    let prints = Box::pin(Footprint { program: binary(), starts: 1, calls: 20 }.run()).await;
    let [bundled, ten] = prints.0.as_slice() else { panic!("two gateways: {prints}") };
    assert_eq!((bundled.plugins, ten.plugins), (3, 10), "{prints}");
    // The router, and the tagger for the head of the answer; there are no failures to classify.
    assert!(
        (bundled.asked - 2.0).abs() < 0.1 && ten.asked > 2.0 * bundled.asked,
        "ten are asked more: {prints}"
    );
    assert!(bundled.decisions > 0.0 && ten.decisions > 0.0, "{prints}");
}
