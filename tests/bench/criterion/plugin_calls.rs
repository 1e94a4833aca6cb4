//! What a call of a plugin costs the request that makes it: the bundled plugins, asked as the proxy asks them, by the policy
//! of a generation with checkout of an instance, copying of the facts in and of the answer out, and checks.
//!
//! `cargo bench -p sluice-tests --bench plugin_calls`. The bars, on a machine of one's own: 8 candidates 3 µs, 128 candidates
//! 20 µs, the three calls of an ordinary request 8 µs.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a bench fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bench::{answer, candidates, failure, moment, request, targets};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sluice::clock;
use sluice::plugin::{BuiltinSettings, Quiet, Registry};
use sluice::policy::Policy;
use sluice_core::facts::{Candidate, TagPhase};
use tokio::runtime::Runtime;

#[allow(dead_code, unreachable_pub, reason = "it has what the tests need, too")]
#[path = "../../../host/src/plugin/tests/bench.rs"]
mod bench;

/// What the bench is over.
mod sut {
    pub use sluice::{config, plugin};
}

/// Candidates of a route.
const COUNTS: [u32; 4] = [2, 8, 32, 128];
const WEIGHTED: &str = r#"{"mode":"weighted"}"#;

/// The bundled plugins of a gateway that runs.
struct Bundled {
    bench: bench::Bench,
    _registry: Registry,
    policy: Policy,
}

impl Bundled {
    /// With these settings of the router. Not warm: as files of the folder, with a new instance for each call.
    async fn new(router_json: &str, warm: bool) -> Self {
        let bench = bench::Bench::with_folder();
        if !warm {
            for name in ["weighted-router", "standard-classifier", "standard-tagger"] {
                let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("plugins");
                let component = std::fs::read(plugins.join(name).join(format!("{name}.wasm"))).unwrap();
                let settings = if name == "weighted-router" { router_json } else { "{}" };
                bench.put(
                    &format!("{name}.yaml"),
                    format!("instances: fresh\nsettings: {settings}\n").as_bytes(),
                );
                bench.put(&format!("{name}.wasm"), &component);
            }
        }
        let builtin = BuiltinSettings { router_json: router_json.to_owned(), ..BuiltinSettings::default() };
        let state = bench.root.path().join("state");
        let registry = Registry::start(
            &bench.settings,
            &state,
            targets(128),
            builtin,
            Arc::new(Quiet),
            bench.tracker.clone(),
            bench.stop.clone(),
        );
        let registry = registry.await.unwrap();
        let policy = Policy::new(registry.current(), 1);
        assert_eq!(policy.set().active().len(), if warm { 0 } else { 3 }, "{:#?}", registry.status());
        Self { bench, _registry: registry, policy }
    }
}

impl Drop for Bundled {
    fn drop(&mut self) {
        self.bench.stop.cancel();
    }
}

/// As long as `count` of these take, one after the other, on one thread.
async fn timed(count: u64, mut call: impl AsyncFnMut()) -> Duration {
    let began = clock::now();
    for _ in 0..count {
        call().await;
    }
    clock::now().duration_since(began)
}

fn all_scored(scores: &[Option<f64>], candidates: &[Candidate]) {
    assert_eq!(scores.len(), candidates.len());
}

fn calls(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let (request, moment) = (request(), moment());
    for (settings, mode) in [("{}", "priority"), (WEIGHTED, "weighted")] {
        for (warm, life) in [(true, "warm"), (false, "fresh")] {
            let bundled = runtime.block_on(Bundled::new(settings, warm));
            let policy = &bundled.policy;
            let mut group = criterion.benchmark_group(format!("score/{mode}/{life}"));
            for count in COUNTS {
                let candidates = candidates(count);
                group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
                    bencher.iter_custom(|iterations| {
                        runtime.block_on(timed(iterations, async || {
                            let ranked = policy.rank(&request, moment, &candidates).await;
                            all_scored(&ranked.advice.scores, &candidates);
                        }))
                    });
                });
            }
            group.finish();
        }
    }
    for (warm, life) in [(true, "warm"), (false, "fresh")] {
        let bundled = runtime.block_on(Bundled::new("{}", warm));
        let policy = &bundled.policy;
        let (two, status) = (candidates(2), failure(503));
        let (head, record) = (answer(TagPhase::Head), answer(TagPhase::Record));
        let mut group = criterion.benchmark_group(format!("bundled/{life}"));
        group.bench_function("classify", |bencher| {
            bencher.iter_custom(|iterations| {
                runtime.block_on(timed(iterations, async || {
                    assert!(policy.judge(&request, moment, &status).await.advice.by.is_some());
                }))
            });
        });
        group.bench_function("tag", |bencher| {
            bencher.iter_custom(|iterations| {
                runtime.block_on(timed(iterations, async || {
                    assert!(!policy.tag(&request, moment, &head).await.advice.is_empty());
                }))
            });
        });
        group.bench_function("three calls of a request", |bencher| {
            bencher.iter_custom(|iterations| {
                runtime.block_on(timed(iterations, async || {
                    let ranked = policy.rank(&request, moment, &two).await;
                    all_scored(&ranked.advice.scores, &two);
                    assert!(policy.judge(&request, moment, &status).await.advice.by.is_some());
                    assert!(!policy.tag(&request, moment, &head).await.advice.is_empty());
                    if policy.wants_record_tags() {
                        policy.tag(&request, moment, &record).await;
                    }
                }))
            });
        });
        group.finish();
    }
}

criterion_group!(benches, calls);
criterion_main!(benches);
