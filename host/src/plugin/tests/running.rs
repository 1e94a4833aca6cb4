use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluice_core::facts::{PluginKind, PluginRef, Sink, TagPhase};
use sluice_core::kind::FailureKind;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::support::*;
use crate::plugin::admission::{admit, try_out};
use crate::plugin::compiled::{Bounds, digest};
use crate::plugin::engine::Host;
use crate::plugin::loaded::{History, Parts};
use crate::plugin::{
    Ask, BuiltinSettings, Instances, Plugin, PluginOptions, PluginState, Quiet, Rejection, StartError,
};
use crate::policy::{Policy, policy_line};

/// A plugin outside any registry.
async fn plugin(kind: PluginKind, options: PluginOptions) -> (Result<Plugin, Rejection>, Arc<AtomicUsize>) {
    let host = Host::get().unwrap();
    let bytes = bundled(kind);
    let history = History::new();
    let live = history.live.clone();
    let bounds = Bounds { file: options.file, memory: options.memory };
    let parts = |compiled| Parts {
        name: "sample".into(),
        file: Some("sample.wasm".into()),
        compiled,
        options: Arc::new(options.clone()),
        targets: targets(2).into(),
        watch: Arc::new(Quiet),
        history,
        trouble: Arc::new(Notify::new()),
    };
    let digest = digest(&bytes);
    let tracker = tokio_util::task::TaskTracker::new();
    let admitted =
        admit(host, &tracker, bytes.into(), digest, options.sha256.as_deref(), bounds, parts).await;
    (admitted, live)
}

fn options() -> PluginOptions {
    PluginOptions::defaults(&Bench::new().settings)
}

#[tokio::test]
async fn without_a_folder_the_bundled_policy_answers_every_question() {
    let bench = Bench::new();
    let registry = bench.start().await;
    let policy = Policy::new(registry.current(), 7);

    let ranked = policy.rank(&request(), moment(), &candidates(3)).await;
    let scores: Vec<f64> = ranked.advice.scores.iter().map(|score| score.unwrap()).collect();
    assert!(scores.is_sorted_by(|one, other| one > other), "the configured order: {scores:?}");

    let judged = policy.judge(&request(), moment(), &failure(503)).await;
    assert_eq!(judged.advice.verdict.kind, FailureKind::RetryableUpstream);
    assert_eq!(judged.advice.by.as_deref(), Some("standard-classifier"));

    let tagged = policy.tag(&request(), moment(), &answer(TagPhase::Head)).await;
    let header = |name: &str| tagged.advice.iter().find(|tag| tag.name == name && tag.sink == Sink::Header);
    assert_eq!(header("x-sluice-route").map(|tag| tag.value.as_str()), Some("fallback"));

    // Ready before the first request when only the routers were asked, and written when more were.
    let mut asked = ranked.by;
    assert_eq!(policy.line(&asked, true), written(&policy, &[&asked, &tagged.by]));
    assert_eq!(policy.line(&asked, false), written(&policy, &[&asked]), "it wants no record");
    assert_eq!(policy.line(&[], true), written(&policy, &[&tagged.by]));
    asked.extend(judged.by);
    assert_eq!(policy.line(&asked, true), written(&policy, &[&asked, &tagged.by]));
    asked.extend(tagged.by);
    let line = written(&policy, &[&asked]);
    let digests = PluginKind::ALL.map(|kind| digest(&bundled(kind))[..8].to_owned());
    assert_eq!(
        *line,
        *format!(
            "g7 router=weighted-router@{} classifier=standard-classifier@{} tagger=standard-tagger@{}",
            digests[0], digests[1], digests[2]
        )
    );
    assert!(registry.status().iter().all(|entry| entry.file.is_none() && entry.state == PluginState::Active));
    assert_eq!(registry.status().iter().map(|entry| entry.calls).sum::<u64>(), 3);
}

fn written(policy: &Policy, asked: &[&[PluginRef]]) -> Arc<str> {
    policy_line(policy.generation(), asked.concat().iter().map(Into::into)).into()
}

#[tokio::test]
async fn nobody_is_asked_when_there_is_nothing_to_choose() {
    let bench = Bench::new();
    let policy = Policy::new(bench.start().await.current(), 1);
    for count in [0, 1] {
        let ranked = policy.rank(&request(), moment(), &candidates(count)).await;
        assert_eq!((ranked.advice.scores.len(), ranked.by.len()), (count as usize, 0));
    }
    assert_eq!(bench.recorder.count("called"), 0);
}

#[tokio::test]
async fn a_bundled_plugin_that_refuses_its_settings_ends_the_start_with_its_own_words() {
    let bench = Bench::new();
    let builtin =
        BuiltinSettings { router_json: r#"{"mode":"sideways"}"#.into(), ..BuiltinSettings::default() };
    let Err(StartError::Bundled(error)) = bench.try_start(builtin).await else { panic!("it started") };
    assert_eq!(error.name, "weighted-router");
    assert!(matches!(&error.rejection, Rejection::Configure(words) if words.contains("mode")), "{error}");
}

#[tokio::test]
async fn a_warm_instance_is_used_again_and_retired_after_its_calls() {
    let (plugin, live) = plugin(PluginKind::Router, PluginOptions { calls: 3, ..options() }).await;
    let plugin = plugin.unwrap();
    let mut alive = Vec::new();
    for _ in 0..6 {
        plugin.ask(Ask::Score(&request(), moment(), &candidates(2))).await.unwrap();
        alive.push(live.load(Ordering::Relaxed));
    }
    assert_eq!(alive, [1, 1, 0, 1, 1, 0], "one instance serves three calls");
}

#[tokio::test]
async fn a_fresh_instance_serves_one_call() {
    let (plugin, live) =
        plugin(PluginKind::Router, PluginOptions { instances: Instances::Fresh, ..options() }).await;
    let plugin = plugin.unwrap();
    for _ in 0..3 {
        plugin.ask(Ask::Score(&request(), moment(), &candidates(2))).await.unwrap();
        assert_eq!(live.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test]
async fn many_calls_at_a_time_make_no_more_instances_than_may_run() {
    let bench = Bench::new();
    let (plugin, live) = plugin(PluginKind::Router, PluginOptions { concurrency: 3, ..options() }).await;
    let plugin = Arc::new(plugin.unwrap());
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let plugin = plugin.clone();
            bench
                .tracker
                .spawn(async move { plugin.ask(Ask::Score(&request(), moment(), &candidates(8))).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert!(live.load(Ordering::Relaxed) <= 3);
}

#[tokio::test]
async fn a_reconfiguration_keeps_history_and_changes_instances() {
    let bench = Bench::with_folder();
    bench.put("mine.wasm", &variant(PluginKind::Router, 1));
    let registry = bench.start().await;
    let before = registry.current();
    Policy::new(before.clone(), 1).rank(&request(), moment(), &candidates(2)).await;

    let set = registry.reconfigure(&bench.settings, targets(3), BuiltinSettings::default()).await.unwrap();
    assert_eq!((before.targets().len(), set.targets().len()), (2, 3));
    assert!(!Arc::ptr_eq(&before.active()[0], &set.active()[0]));
    assert_eq!(entry(&registry, "mine.wasm").calls, 1, "it is the same version");

    let bad = BuiltinSettings { tagger_json: "[]".into(), ..BuiltinSettings::default() };
    assert!(registry.reconfigure(&bench.settings, targets(1), bad).await.is_err());
    assert!(Arc::ptr_eq(&registry.current(), &set), "a refused configuration changes nothing");
}

#[tokio::test]
async fn a_thousand_new_instances_of_a_plugin_leave_none_behind() {
    let host = Host::get().unwrap();
    let (first, live) = plugin(PluginKind::Router, options()).await;
    let first = first.unwrap();
    let mut current = first;
    for _ in 0..1000 {
        let parts = Parts {
            name: current.name().clone(),
            file: current.file().cloned(),
            compiled: current.compiled().clone(),
            options: current.options().clone(),
            targets: targets(2).into(),
            watch: Arc::new(Quiet),
            history: current.history().clone(),
            trouble: Arc::new(Notify::new()),
        };
        current = try_out(host, parts).await.unwrap();
        assert!(live.load(Ordering::Relaxed) <= 2);
    }
    assert_eq!(live.load(Ordering::Relaxed), 1);
    let compiled = Arc::downgrade(current.compiled());
    let weak_before = compiled.strong_count();
    drop(current);
    assert_eq!(live.load(Ordering::Relaxed), 0);
    assert!(compiled.strong_count() < weak_before, "the plugin let go of its code");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_are_no_trouble_for_the_bundled_policy() {
    let mut bench = Bench::new();
    bench.settings.concurrency = 4;
    bench.settings.deadline = Duration::from_millis(10);
    let registry = bench.start().await;
    let policy = Arc::new(Policy::new(registry.current(), 1));
    let tasks = TaskTracker::new();
    // What else a busy gateway does, a millisecond at a time.
    for _ in 0..100 {
        tasks.spawn(async {
            for _ in 0..5 {
                let began = crate::clock::now();
                while crate::clock::now() - began < Duration::from_millis(1) {
                    std::hint::spin_loop();
                }
                tokio::task::yield_now().await;
            }
        });
    }
    for _ in 0..500 {
        let policy = policy.clone();
        tasks.spawn(async move {
            for _ in 0..2 {
                policy.rank(&request(), moment(), &candidates(128)).await;
                policy.judge(&request(), moment(), &failure(503)).await;
                policy.tag(&request(), moment(), &answer(TagPhase::Head)).await;
            }
        });
    }
    tasks.close();
    tasks.wait().await;
    let saturated = PluginKind::ALL.map(|kind| {
        let name = crate::plugin::bundled::source(kind).0;
        bench.recorder.count(&format!("called {name} {} saturated", kind.as_str()))
    });
    assert_eq!(saturated, [0, 0, 0], "a healthy plugin has a place for every call");
}

#[tokio::test(start_paused = true)]
async fn instances_that_no_call_takes_any_more_are_retired_by_age() {
    let bench = Bench::with_folder();
    bench.put("mine.wasm", &variant(PluginKind::Classifier, 1));
    let registry = bench.start().await;
    let set = registry.current();
    let plugins = [set.bundled(PluginKind::Router).clone(), set.active()[0].clone()];
    for plugin in &plugins {
        for _ in 0..3 {
            plugin.pool().warm().await.unwrap();
        }
        assert_eq!(plugin.pool().live(), 4, "as after a burst");
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(plugins.each_ref().map(|plugin| plugin.pool().live()), [4, 4], "their time is not over");
    tokio::time::sleep(Duration::from_secs(302)).await;
    assert_eq!(plugins.each_ref().map(|plugin| plugin.pool().live()), [0, 0]);
}
