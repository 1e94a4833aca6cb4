//! One version after another: those that come together with other targets, and those that fail once they run.

use std::time::Duration;

use sluice_core::facts::{PluginKind, TargetFacts};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::support::*;
use crate::plugin::compiled::digest;
use crate::plugin::{BuiltinSettings, PluginState, Registry, StartError};
use crate::policy::Policy;

fn running(registry: &Registry) -> Vec<String> {
    registry.current().active().iter().map(|plugin| plugin.digest().to_string()).collect()
}

/// The second of two targets has this upstream.
fn second(upstream: &str) -> Vec<TargetFacts> {
    let mut targets = targets(2);
    targets[1].upstream = upstream.to_owned();
    targets
}

fn long(target: &str) -> Vec<u8> {
    format!("on_error: deny\nsettings: {{ over: 10, long: [{target}/m] }}\n").into_bytes()
}

/// No timer makes anything good here.
fn patient() -> Bench {
    let mut bench = Bench::with_folder();
    bench.settings.rescan = Duration::from_secs(3600);
    bench
}

#[tokio::test]
async fn a_plugin_and_the_targets_it_is_for_change_together_without_a_moment_in_which_none_runs() {
    let bench = patient();
    bench.put("a.wasm", &component("examples/plugins/long-prompt"));
    bench.put("a.yaml", &long("up1"));
    let registry = bench.start().await;
    // What comes first is refused for the targets of before, and what comes after it takes them away.
    bench.put("a.yaml", &long("new"));
    bench.recorder.wait_for("rejected a configure", 1).await;
    let set = registry.reconfigure(&bench.settings, second("new"), BuiltinSettings::default()).await.unwrap();
    assert_eq!((set.active().len(), set.denying().len()), (1, 0), "{:#?}", registry.status());
    assert!(set.active()[0].options().settings_json.contains("new/m"));
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::Active);
    assert_eq!(entry(&registry, "a.wasm").rejection, None);
}

#[tokio::test]
async fn what_was_refused_for_the_targets_of_before_is_tried_with_new_ones_though_the_old_version_takes_them()
{
    let bench = patient();
    bench.put("a.wasm", &component("examples/plugins/long-prompt"));
    bench.put("a.yaml", &long("up1"));
    let registry = bench.start().await;
    bench.put("a.yaml", &long("up2"));
    bench.recorder.wait_for("rejected a configure", 1).await;
    registry.reconfigure(&bench.settings, targets(3), BuiltinSettings::default()).await.unwrap();
    until_state(&registry, "a.wasm", PluginState::Active).await;
    assert!(registry.current().active()[0].options().settings_json.contains("up2/m"));
}

#[tokio::test]
async fn a_plugin_that_is_written_just_before_its_configuration_is_in_it_from_the_beginning() {
    let mut bench = patient();
    bench.settings.settle = Duration::from_millis(500);
    bench.put("a.wasm", &component("examples/plugins/long-prompt"));
    bench.put("a.yaml", &long("up1"));
    let registry = bench.start().await;
    bench.put("a.yaml", &long("new"));
    bench.put("b.wasm", &variant(PluginKind::Tagger, 1));
    let set = registry.reconfigure(&bench.settings, second("new"), BuiltinSettings::default()).await.unwrap();
    assert_eq!((set.active().len(), set.denying().len()), (2, 0), "{:#?}", registry.status());
    assert!(set.active()[0].options().settings_json.contains("new/m"));
}

#[tokio::test]
async fn a_configuration_that_waits_for_a_plugin_is_given_up_when_the_gateway_stops() {
    let mut bench = patient();
    bench.settings.settle = Duration::from_secs(3600);
    bench.put("a.wasm", &component("examples/plugins/long-prompt"));
    bench.put("a.yaml", &long("up1"));
    let registry = bench.start().await;
    bench.put("a.yaml", &long("new"));
    let reconfiguring = registry.reconfigure(&bench.settings, second("new"), BuiltinSettings::default());
    let stopping = async {
        bench.recorder.wait_for("rejected a configure", 1).await;
        bench.stop.cancel();
    };
    let (outcome, ()) = tokio::join!(reconfiguring, stopping);
    assert_eq!(outcome.err(), Some(StartError::Stopped));
}

#[tokio::test]
async fn what_a_plugin_was_rolled_back_to_comes_back_with_targets_that_it_takes() {
    let bench = patient();
    let good = component("examples/plugins/long-prompt");
    bench.put("a.wasm", &good);
    bench.put("a.yaml", &long("up1"));
    let registry = bench.start().await;
    bench.put("a.wasm", &faulty(1));
    bench.put("a.yaml", b"on_error: deny\n");
    bench.recorder.wait_for("loaded a", 2).await;
    fail(&registry, 5).await;
    bench.recorder.wait_for("rolled_back a", 1).await;
    for _ in 0..2 {
        let set =
            registry.reconfigure(&bench.settings, second("new"), BuiltinSettings::default()).await.unwrap();
        assert_eq!((set.active().len(), set.denying().len()), (0, 1), "{:#?}", registry.status());
        let set =
            registry.reconfigure(&bench.settings, targets(2), BuiltinSettings::default()).await.unwrap();
        assert_eq!((set.active().len(), set.denying().len()), (1, 0), "{:#?}", registry.status());
        assert_eq!(**set.active()[0].digest(), *digest(&good));
    }
    assert_eq!(bench.recorder.count("rolled_back a"), 1, "what failed ran again");
}

/// Asks what runs; the header makes a faulty router trap. True: the call is to be denied.
async fn ask(registry: &Registry, trap: bool) -> bool {
    let mut request = request();
    if trap {
        request.headers.push(("x-fault".into(), "trap".into()));
    }
    Policy::new(registry.current(), 1).rank(&request, moment(), &candidates(2)).await.denied
}

async fn fail(registry: &Registry, times: usize) {
    for _ in 0..times {
        ask(registry, true).await;
    }
}

#[tokio::test]
async fn a_failing_version_that_is_to_deny_is_rolled_back_and_never_set_aside() {
    let bench = patient();
    let one = variant(PluginKind::Router, 1);
    bench.put("a.wasm", &one);
    bench.put("a.yaml", b"on_error: deny\n");
    let registry = bench.start().await;
    bench.put("a.wasm", &faulty(1));
    bench.recorder.wait_for("loaded a", 2).await;
    until_state(&registry, "a.wasm", PluginState::Active).await;
    // Not in a row.
    fail(&registry, 4).await;
    assert!(!ask(&registry, false).await);
    fail(&registry, 4).await;
    assert!(ask(&registry, true).await, "each call is denied on its own");
    bench.recorder.wait_for("rolled_back a", 1).await;
    until_state(&registry, "a.wasm", PluginState::LastGood).await;
    assert_eq!(running(&registry), [digest(&one).to_string()]);
    assert!(!ask(&registry, true).await);
    assert_eq!(bench.recorder.count("called a router trap"), 9, "{:#?}", bench.recorder.lines());
    assert_eq!(
        (bench.recorder.count("set_aside"), bench.recorder.count("called a router set_aside")),
        (0, 0)
    );
    // Other targets do not make good what failed real calls.
    registry.reconfigure(&bench.settings, targets(3), BuiltinSettings::default()).await.unwrap();
    bench.put("b.wasm", &variant(PluginKind::Tagger, 1));
    bench.recorder.wait_for("loaded b", 1).await;
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::LastGood);
    assert_eq!(bench.recorder.count("loaded a"), 2);
}

/// Ends what runs, with all that it has to write, and starts anew.
async fn restart(bench: &mut Bench, registry: Registry, meanwhile: impl FnOnce(&Bench)) -> Registry {
    bench.stop.cancel();
    bench.tracker.close();
    tokio::time::timeout(PATIENCE, bench.tracker.wait()).await.unwrap();
    drop(registry);
    (bench.stop, bench.tracker) = (CancellationToken::new(), TaskTracker::new());
    meanwhile(bench);
    bench.start().await
}

#[tokio::test]
async fn what_failed_before_a_restart_is_not_run_after_it_and_what_was_good_is_not_lost_by_one() {
    let mut bench = patient();
    let one = variant(PluginKind::Router, 1);
    bench.put("a.wasm", &one);
    let good = [digest(&one).to_string()];
    let registry = bench.start().await;
    // The version is another one than what ran before the restart: that is what it gives way to.
    let registry = restart(&mut bench, registry, |bench| bench.put("a.wasm", &faulty(1))).await;
    assert_eq!(running(&registry), [digest(&faulty(1)).to_string()]);
    fail(&registry, 5).await;
    bench.recorder.wait_for("rolled_back a", 1).await;
    until_state(&registry, "a.wasm", PluginState::LastGood).await;
    assert_eq!(running(&registry), good);

    let registry = restart(&mut bench, registry, |_| {}).await;
    assert_eq!(running(&registry), good, "the failing version is back: {:#?}", bench.recorder.lines());
    let page = entry(&registry, "a.wasm");
    let rejection = page.rejection.unwrap();
    assert_eq!((page.state, rejection.digest), (PluginState::LastGood, Some(digest(&faulty(1)).to_string())));
    assert!(rejection.message.contains("failed real calls"), "{}", rejection.message);
    assert_eq!(bench.recorder.count("rejected a probe"), 1);

    // A restart within the probation of a version does not end it.
    bench.put("a.wasm", &faulty(2));
    let runs = digest(&faulty(2));
    until(&registry, "it does not run", |page| page[0].digest.as_deref() == Some(&*runs)).await;
    let registry = restart(&mut bench, registry, |_| {}).await;
    assert_eq!(running(&registry), [runs.to_string()]);
    fail(&registry, 5).await;
    bench.recorder.wait_for("rolled_back a", 2).await;
    until_state(&registry, "a.wasm", PluginState::LastGood).await;
    assert_eq!(running(&registry), good);
}
