//! A small storm. `cargo run --release -p sluice-tests --bin storm` makes a long one.

use harness::gateway::binary;
use harness::storm::Storm;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_storm_leaves_nothing_behind() {
    let seed = fastrand::u64(..);
    let storm = Storm { program: binary(), seconds: 6, concurrency: 24, seed };
    let report = Box::pin(storm.run()).await;
    assert!(report.wrong.is_empty(), "seed {seed}\n{report}");
}
