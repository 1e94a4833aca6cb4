//! What the policy does with a plugin that cannot answer, whatever the reason: here, a full house.

use std::sync::Arc;
use std::time::Duration;

use sluice_core::facts::{PluginKind, TagPhase};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::support::*;
use crate::plugin::admission::admit;
use crate::plugin::bundled::Bundled;
use crate::plugin::compiled::{Bounds, digest};
use crate::plugin::engine::Host;
use crate::plugin::loaded::{History, Parts};
use crate::plugin::{BuiltinSettings, OnError, Plugin, PluginOptions, PluginSet, PluginWatch};
use crate::policy::Policy;

async fn file(kind: PluginKind, on_error: OnError, watch: Arc<dyn PluginWatch>) -> Arc<Plugin> {
    let bytes = bundled(kind);
    let options = PluginOptions {
        on_error,
        concurrency: 1,
        deadline: Duration::from_millis(20),
        ..PluginOptions::defaults(&Bench::new().settings)
    };
    let bounds = Bounds { file: options.file, memory: options.memory };
    let parts = |compiled| Parts {
        name: "mine".into(),
        file: Some("mine.wasm".into()),
        compiled,
        options: Arc::new(options.clone()),
        targets: targets(2).into(),
        watch,
        history: History::new(),
        trouble: Arc::new(Notify::new()),
    };
    let digest = digest(&bytes);
    let tracker = TaskTracker::new();
    Arc::new(admit(Host::get().unwrap(), &tracker, bytes.into(), digest, None, bounds, parts).await.unwrap())
}

async fn set(active: Vec<Arc<Plugin>>, denying: Vec<Arc<str>>, recorder: &Arc<Recorder>) -> Arc<PluginSet> {
    let options = PluginOptions {
        concurrency: 1,
        deadline: Duration::from_millis(20),
        ..PluginOptions::defaults(&Bench::new().settings)
    };
    let (targets, watch) = (targets(2).into(), recorder.clone() as Arc<dyn PluginWatch>);
    let host = Host::get().unwrap();
    let builtin = BuiltinSettings::default();
    let bundled =
        Bundled::start(host, &TaskTracker::new(), &options, &targets, &builtin, &watch, None).await.unwrap();
    Arc::new(PluginSet::new(active, bundled, targets, denying, watch))
}

#[tokio::test]
async fn the_bundled_policy_answers_in_the_place_of_a_plugin_that_cannot() {
    let recorder = Arc::<Recorder>::default();
    let router = file(PluginKind::Router, OnError::Bundled, recorder.clone()).await;
    let _full = router.pool().place().await.unwrap();
    let policy = Policy::new(set(vec![router.clone()], Vec::new(), &recorder).await, 1);
    let ranked = policy.rank(&request(), moment(), &candidates(3)).await;
    assert!(!ranked.denied);
    assert_eq!(ranked.advice.votes.len(), 1);
    assert_eq!(&*ranked.advice.votes[0].0, "weighted-router");
    assert_eq!(ranked.by.iter().map(|plugin| &*plugin.name).collect::<Vec<_>>(), ["mine", "weighted-router"]);
    assert_eq!(recorder.count("called mine router saturated"), 1);
    for _ in 0..8 {
        policy.rank(&request(), moment(), &candidates(2)).await;
    }
    assert!(!router.is_set_aside(), "a full house is not the plugin's fault");
}

#[tokio::test]
async fn the_bundled_router_is_asked_once_and_counts_for_each_that_cannot_answer() {
    let recorder = Arc::<Recorder>::default();
    let routers = [
        file(PluginKind::Router, OnError::Bundled, recorder.clone()).await,
        file(PluginKind::Router, OnError::Bundled, recorder.clone()).await,
    ];
    let _full = [routers[0].pool().place().await.unwrap(), routers[1].pool().place().await.unwrap()];
    let policy = Policy::new(set(routers.to_vec(), Vec::new(), &recorder).await, 1);
    let ranked = policy.rank(&request(), moment(), &candidates(2)).await;
    assert_eq!(recorder.count("called weighted-router router ok"), 1);
    assert_eq!(ranked.advice.votes.len(), 2);
    assert_eq!(ranked.advice.votes[0], ranked.advice.votes[1]);
    let weight = routers[0].options().weight;
    let once = ranked.advice.votes[0].1.iter().map(|vote| vote.score.unwrap());
    let sums: Vec<_> = once.map(|score| Some(2.0 * weight * score)).collect();
    assert_eq!(ranked.advice.scores, sums);
}

#[tokio::test]
async fn a_plugin_that_is_to_deny_denies_and_nobody_answers_in_its_place() {
    let recorder = Arc::<Recorder>::default();
    for kind in PluginKind::ALL {
        let plugin = file(kind, OnError::Deny, recorder.clone()).await;
        let full = plugin.pool().place().await.unwrap();
        let policy = Policy::new(set(vec![plugin.clone()], Vec::new(), &recorder).await, 1);
        let outcome = match kind {
            PluginKind::Router => {
                let asked = policy.rank(&request(), moment(), &candidates(2)).await;
                (asked.denied, asked.by.len())
            }
            PluginKind::Classifier => {
                let asked = policy.judge(&request(), moment(), &failure(500)).await;
                (asked.denied, asked.by.len())
            }
            PluginKind::Tagger => {
                let asked = policy.tag(&request(), moment(), &answer(TagPhase::Head)).await;
                (asked.denied, asked.by.len())
            }
        };
        assert_eq!(outcome, (true, 1), "{kind:?}");
        drop(full);
    }
}

#[tokio::test]
async fn about_a_single_candidate_only_a_router_that_must_decide_is_asked() {
    for (on_error, asked) in [(OnError::Bundled, false), (OnError::Deny, true)] {
        let recorder = Arc::<Recorder>::default();
        let router = file(PluginKind::Router, on_error, recorder.clone()).await;
        let policy = Policy::new(set(vec![router], Vec::new(), &recorder).await, 1);
        assert_eq!(
            (policy.asks_routers(0), policy.asks_routers(1), policy.asks_routers(2)),
            (false, asked, true)
        );
        let ranked = policy.rank(&request(), moment(), &candidates(1)).await;
        assert_eq!((ranked.advice.scores.len(), ranked.by.len()), (1, usize::from(asked)));
        assert!(ranked.advice.scores[0].is_some());
    }
}

#[tokio::test]
async fn a_plugin_that_is_to_deny_and_never_ran_refuses_every_request() {
    let recorder = Arc::<Recorder>::default();
    let policy = Policy::new(set(Vec::new(), vec!["strict".into()], &recorder).await, 1);
    assert!(policy.rank(&request(), moment(), &candidates(2)).await.denied);
    assert!(policy.rank(&request(), moment(), &candidates(1)).await.denied);
    assert!(policy.denies());
    assert_eq!(recorder.count("called"), 0, "nobody is asked about a call that is refused");
    assert_eq!(policy.set().denying(), [Arc::<str>::from("strict")]);
}

#[tokio::test]
async fn the_hosts_last_resort_answers_and_is_counted_when_even_the_bundled_policy_cannot() {
    let recorder = Arc::<Recorder>::default();
    let set = set(Vec::new(), Vec::new(), &recorder).await;
    let mut full = Vec::new();
    for kind in PluginKind::ALL {
        let plugin = set.bundled(kind);
        for _ in 0..plugin.options().concurrency {
            full.push(plugin.pool().place().await.unwrap());
        }
    }
    let policy = Policy::new(set.clone(), 1);
    let ranked = policy.rank(&request(), moment(), &candidates(2)).await;
    assert_eq!(ranked.advice.scores, [Some(1.0), Some(0.5)], "the configured order");
    let judged = policy.judge(&request(), moment(), &failure(504)).await;
    assert_eq!((judged.advice.verdict.kind.as_str(), judged.advice.by), ("retryable_timeout", None));
    let tagged = policy.tag(&request(), moment(), &answer(TagPhase::Head)).await;
    assert_eq!((tagged.advice, tagged.denied), (Vec::new(), false));
    for kind in PluginKind::ALL {
        assert_eq!(recorder.count(&format!("last_resort {}", kind.as_str())), 1);
    }
}
