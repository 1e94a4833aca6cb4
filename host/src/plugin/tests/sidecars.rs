use std::fs;
use std::time::Duration;

use sluice_core::facts::PluginKind;

use super::support::*;
use crate::plugin::compiled::digest;
use crate::plugin::{Instances, OnError, PluginState, Reason, Registry};
use crate::policy::Policy;

fn weight(registry: &Registry) -> Option<f64> {
    registry.current().active().first().map(|plugin| plugin.options().weight)
}

async fn until_weight(registry: &Registry, wanted: f64) {
    until(registry, &format!("weight {wanted}"), |_| {
        weight(registry).is_some_and(|weight| (weight - wanted).abs() < 1e-9)
    })
    .await;
}

fn rejection(registry: &Registry, file: &str) -> (Reason, String) {
    let rejection = entry(registry, file).rejection.unwrap();
    (rejection.reason, rejection.message)
}

#[tokio::test]
async fn a_change_of_a_sidecar_alone_takes_effect_and_a_bad_one_keeps_what_ran() {
    let bench = Bench::with_folder();
    let one = variant(PluginKind::Router, 1);
    bench.put("a.wasm", &one);
    let registry = bench.start().await;
    assert_eq!(weight(&registry), Some(1.0));

    let all = "weight: 2\nsettings: { mode: weighted }\ninstances: fresh\nlimits: { deadline: 70ms, memory: 8MiB, concurrency: 3, calls: 5, age: 1m }\n";
    bench.put("a.yaml", all.as_bytes());
    until_weight(&registry, 2.0).await;
    let plugin = registry.current().active()[0].clone();
    let options = plugin.options();
    assert_eq!(
        (options.deadline, options.memory, options.concurrency, options.calls, options.age),
        (Duration::from_millis(70), 8 << 20, 3, 5, Duration::from_secs(60))
    );
    assert_eq!((options.instances, &*options.settings_json), (Instances::Fresh, r#"{"mode":"weighted"}"#));
    assert_eq!(*plugin.digest(), digest(&one), "the same bytes");
    bench.recorder.wait_for("loaded a", 2).await;

    bench.put("a.yaml", b"weight: 3\non_eror: deny\nlimits: { deadline: 0s }\n");
    bench.recorder.wait_for("rejected a sidecar", 1).await;
    let (reason, message) = rejection(&registry, "a.wasm");
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!((reason, lines.len()), (Reason::Sidecar, 2), "{message}");
    let path = bench.path("a.yaml");
    assert!(
        lines[0].starts_with(&format!("{}:2:1: (file): unknown key \"on_eror\"", path.display())),
        "{message}"
    );
    bench.put("a.yaml", b"settings: { mode: sideways }\n");
    bench.recorder.wait_for("rejected a configure", 1).await;
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::LastGood);
    assert_eq!(weight(&registry), Some(2.0));

    bench.put("a.yaml", format!("# what runs\n{all}").as_bytes());
    until_state(&registry, "a.wasm", PluginState::Active).await;
    assert_eq!(bench.recorder.count("loaded a"), 2, "what runs was not loaded again");
    fs::remove_file(path).unwrap();
    until_weight(&registry, 1.0).await;
}

#[tokio::test]
async fn a_pin_lets_only_its_bytes_in() {
    let bench = Bench::with_folder();
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2));
    bench.put("a.yaml", format!("sha256: {}\n", digest(&one).to_uppercase()).as_bytes());
    bench.put("a.wasm", &one);
    let registry = bench.start().await;
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::Active);
    bench.put("a.wasm", &two);
    bench.recorder.wait_for("rejected a digest", 1).await;
    assert_eq!(*registry.current().active()[0].digest(), digest(&one));
    bench.put("a.yaml", format!("sha256: {}\n", digest(&two)).as_bytes());
    until_state(&registry, "a.wasm", PluginState::Active).await;
    assert_eq!(*registry.current().active()[0].digest(), digest(&two));
    bench.put("a.yaml", format!("sha256: {}\n", digest(&one)).as_bytes());
    bench.recorder.wait_for("rejected a digest", 2).await;
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::LastGood, "what ran is kept");
}

#[tokio::test]
async fn a_plugin_that_is_switched_off_is_not_even_read_and_comes_back() {
    let bench = Bench::with_folder();
    bench.put("off.wasm", b"no plugin at all");
    bench.put("off.yaml", b"enabled: false\non_error: deny\n");
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    let registry = bench.start().await;
    let off = entry(&registry, "off.wasm");
    assert_eq!((off.state, off.rejection, off.on_error), (PluginState::Disabled, None, "deny"));
    assert!(registry.current().denying().is_empty());

    let note = bench.root.path().join("state/plugins/a.json");
    until(&registry, "nothing was kept", |_| note.exists()).await;
    bench.put("a.yaml", b"enabled: false\n");
    until_state(&registry, "a.wasm", PluginState::Disabled).await;
    assert!(registry.current().active().is_empty());
    bench.recorder.wait_for("removed a", 1).await;
    until(&registry, "what was switched off is kept for a restart", |_| !note.exists()).await;
    bench.put("a.yaml", b"enabled: true\n");
    until_state(&registry, "a.wasm", PluginState::Active).await;
    bench.recorder.wait_for("loaded a", 2).await;
}

#[tokio::test]
async fn a_sidecar_without_its_plugin_is_reported_and_counts_once_it_comes() {
    let bench = Bench::with_folder();
    let registry = bench.start().await;
    bench.put("a.yaml", b"weight: 4\non_error: deny\n");
    bench.recorder.wait_for("rejected a sidecar", 1).await;
    let (reason, message) = rejection(&registry, "a.yaml");
    assert!(reason == Reason::Sidecar && message.contains("`a.wasm` beside it"), "{message}");
    assert!(registry.current().denying().is_empty(), "it denies nothing by itself");
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    until_weight(&registry, 4.0).await;
    until(&registry, "the lone sidecar is still there", |page| {
        page.iter().filter(|entry| entry.name == "a").count() == 1
    })
    .await;
    let note = bench.root.path().join("state/plugins/a.json");
    until(&registry, "nothing was kept", |_| note.exists()).await;
    // The one that the note belongs to stays, whatever goes beside it.
    bench.put("a.yml", b"{}");
    bench.recorder.wait_for("rejected a sidecar", 2).await;
    fs::remove_file(bench.path("a.yml")).unwrap();
    until(&registry, "the other is still there", |page| {
        page.iter().filter(|entry| entry.name == "a").count() == 1
    })
    .await;
    bench.put("b.wasm", &variant(PluginKind::Tagger, 1));
    let second = bench.root.path().join("state/plugins/b.json");
    until(&registry, "nothing was kept", |_| second.exists()).await;
    assert!(note.exists(), "what a last ran was forgotten with a file that never was a plugin");
}

#[tokio::test]
async fn a_link_to_no_sidecar_is_not_as_if_there_were_none() {
    let bench = Bench::with_folder();
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    std::os::unix::fs::symlink("nowhere.yaml", bench.path("a.yaml")).unwrap();
    let registry = bench.start().await;
    assert_eq!(rejection(&registry, "a.wasm").0, Reason::Sidecar);
    fs::write(bench.path("nowhere.yaml"), "weight: 6\n").unwrap();
    until_weight(&registry, 6.0).await;
}

#[tokio::test]
async fn a_restart_runs_what_last_ran_as_it_last_ran() {
    let bench = Bench::with_folder();
    let one = variant(PluginKind::Router, 1);
    bench.put("a.wasm", &one);
    bench.put("a.yaml", b"weight: 5\nlimits: { calls: 7 }\n");
    let registry = bench.start().await;
    let note = bench.root.path().join("state/plugins/a.json");
    until(&registry, "nothing was kept", |_| note.exists()).await;
    drop(registry);
    let spoilt: [(&str, &[u8], Reason); 3] = [
        ("a.wasm", b"junk", Reason::Magic),
        ("a.yaml", b"weight: six\n", Reason::Sidecar),
        ("a.yaml", b"weight: 6\nsettings: { mode: sideways }\n", Reason::Configure),
    ];
    for (file, bytes, reason) in spoilt {
        bench.put("a.wasm", &one);
        bench.put(file, bytes);
        let registry = bench.start().await;
        assert_eq!(weight(&registry), Some(5.0), "{reason:?}: {:#?}", registry.status());
        assert_eq!(registry.current().active()[0].options().calls, 7);
        assert_eq!(entry(&registry, "a.wasm").state, PluginState::LastGood);
        assert_eq!(rejection(&registry, "a.wasm").0, reason);
    }
}

#[tokio::test]
async fn only_a_plugin_that_calls_rely_on_denies_when_nothing_of_it_runs() {
    let bench = Bench::with_folder();
    bench.put("first.wasm", b"junk");
    bench.put("first.yaml", b"on_error: deny\n");
    // What it is to do is not understood: then the stricter.
    bench.put("slip.wasm", &variant(PluginKind::Router, 1));
    bench.put("slip.yaml", b"on_error: denny\n");
    bench.put("soft.wasm", b"junk");
    let registry = bench.start().await;
    let denying = |registry: &Registry| {
        registry.current().denying().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(denying(&registry), ["first", "slip"]);
    bench.put("slip.yaml", b"on_error: deny\n");
    fs::remove_file(bench.path("first.wasm")).unwrap();
    until(&registry, "what is gone or runs still denies", |_| denying(&registry).is_empty()).await;
    // A new file that is no good changes nothing.
    bench.put("late.yaml", b"on_error: deny\n");
    bench.put("late.wasm", b"junk");
    bench.recorder.wait_for("rejected late magic", 1).await;
    assert_eq!(denying(&registry), Vec::<String>::new());
    // One that ran is kept, so there is nothing to deny.
    bench.put("slip.wasm", b"junk");
    bench.recorder.wait_for("rejected slip magic", 1).await;
    assert_eq!(entry(&registry, "slip.wasm").state, PluginState::LastGood);
    assert_eq!(denying(&registry), Vec::<String>::new());
}

#[tokio::test]
async fn a_plugin_that_denies_has_a_fresh_instance_for_each_call() {
    let bench = Bench::with_folder();
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    bench.put("a.yaml", b"on_error: deny\n");
    let registry = bench.start().await;
    let plugin = registry.current().active()[0].clone();
    assert_eq!((plugin.options().on_error, plugin.options().instances), (OnError::Deny, Instances::Fresh));
    let policy = Policy::new(registry.current(), 1);
    for _ in 0..3 {
        assert!(!policy.rank(&request(), moment(), &candidates(2)).await.denied);
        assert_eq!(plugin.pool().live(), 0, "none is left for the next call");
    }
}

#[tokio::test]
async fn limits_of_its_own_outlast_a_change_of_the_configuration() {
    let mut bench = Bench::with_folder();
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    bench.put("a.yaml", b"weight: 2\nlimits: { memory: 8MiB }\n");
    let registry = bench.start().await;
    bench.settings.memory = 32 << 20;
    bench.settings.concurrency = 9;
    let set = registry.reconfigure(&bench.settings, targets(3), Default::default()).await.unwrap();
    let options = set.active()[0].options();
    assert_eq!((options.memory, options.concurrency), (8 << 20, 9));
    assert!((options.weight - 2.0).abs() < 1e-9);
}

#[tokio::test]
async fn a_file_may_be_larger_than_others_where_its_sidecar_says_so() {
    let mut bench = Bench::with_folder();
    bench.settings.max_file = 16 << 10;
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    bench.put("a.yaml", b"limits: { file: 2MiB }\n");
    bench.put("b.wasm", &variant(PluginKind::Router, 2));
    let registry = bench.start().await;
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::Active);
    assert_eq!(rejection(&registry, "b.wasm").0, Reason::Size);
}
