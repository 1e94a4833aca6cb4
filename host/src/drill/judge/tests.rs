#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it fails")]

use std::path::Path;

use super::*;
use crate::config::{self, Config};

/// Ten calls whose first three failed at `a/m`, which opened its breaker; all were served by `b/m`.
struct World {
    config: Config,
    calls: Vec<Call>,
    told: BTreeMap<String, Told>,
    after: BTreeMap<String, u64>,
    seen: BTreeMap<Arc<str>, u64>,
    expect: Expect,
    left: u64,
}

const TRIED: &str = "sluice_attempts_total{target=\"a/m\"}";
const SERVED: &str = "sluice_attempts_total{target=\"b/m\"}";
const FAILED: &str = "sluice_attempt_failures_total{target=\"a/m\",kind=\"retryable_upstream\"}";
const FALLBACK: &str = "sluice_requests_total{outcome=\"fallback_success\"}";
const OPENED: &str = "sluice_breaker_transitions_total{target=\"a/m\",to=\"open\"}";
const DENIED: &str = "sluice_retry_budget_denied_total{target=\"a/m\"}";

impl World {
    fn new() -> Self {
        let text = "upstreams: { a: { base_url: 'http://h', models: { m: {} } }, b: { base_url: 'http://i', models: { m: {} } } }\n\
                    routes: { r: { targets: [ a/m, b/m ], budget: 2s } }\n";
        let config = config::parse(text, Path::new("c.yaml"), &|_| None).unwrap().config;
        let (a, b): (Arc<str>, Arc<str>) = ("a/m".into(), "b/m".into());
        let call = |n: usize| Call {
            id: format!("c{n}"),
            reading: Reading::Whole,
            tag: Some("fallback".to_owned()),
            head: Some(Duration::from_millis(10)),
            took: Some(Duration::from_millis(20)),
            first: None,
        };
        let told = |n: usize| {
            let failed = (a.clone(), Some(FailureKind::RetryableUpstream));
            let attempts = if n < 3 { vec![failed, (b.clone(), None)] } else { vec![(b.clone(), None)] };
            let lessons = if n < 3 { vec![(a.clone(), BreakerEffect::Count)] } else { Vec::new() };
            (format!("c{n}"), Told { outcome: Outcome::FallbackSuccess, fallback: true, attempts, lessons })
        };
        let counters = [(TRIED, 3), (SERVED, 10), (FAILED, 3), (FALLBACK, 10), (OPENED, 1)];
        Self {
            config,
            calls: (0..10).map(call).collect(),
            told: (0..10).map(told).collect(),
            after: counters.map(|(name, count)| (name.to_owned(), count)).into(),
            seen: BTreeMap::from([(a, 3), (b, 10)]),
            expect: Expect::Served,
            left: 0,
        }
    }

    fn count(&mut self, name: &str, count: u64) {
        self.after.insert(name.to_owned(), count);
    }

    /// The call ends with an error, as everybody tells it.
    fn refuse(&mut self, n: usize) {
        let id = format!("c{n}");
        self.calls[n].reading = Reading::Refused("retryable_upstream".to_owned());
        let told = self.told.get_mut(&id).unwrap();
        (told.outcome, told.fallback) = (Outcome::Exhausted, false);
        self.calls[n].tag = Some("primary".to_owned());
        told.attempts.pop();
        self.count(FALLBACK, 9);
        self.count(SERVED, 9);
        self.seen.insert("b/m".into(), 9);
        self.count("sluice_requests_total{outcome=\"exhausted\"}", 1);
    }

    fn judge(&self) -> Vec<Broken> {
        let page = |value: &dyn Fn(u64) -> u64| {
            Metrics(self.after.iter().map(|(name, count)| format!("{name} {}\n", value(*count))).collect())
        };
        judge(&Facts {
            form: Form::Plain,
            route: &self.config.routes["r"],
            breaker: &self.config.breaker,
            concurrency: 1,
            failing: "a/m".into(),
            expect: self.expect.clone(),
            warmed: 5,
            calls: &self.calls,
            told: &self.told,
            before: &page(&|_| 7),
            after: &page(&|count| count + 7),
            seen: &self.seen,
            left: self.left,
        })
    }

    fn promises(&self) -> Vec<&'static str> {
        let mut promises: Vec<_> = self.judge().iter().map(|broken| broken.promise).collect();
        promises.dedup();
        promises
    }
}

#[test]
fn nothing_is_broken_where_everybody_agrees() {
    assert_eq!(World::new().judge(), []);
}

#[test]
fn each_promise_is_broken_by_what_breaks_it_and_by_nothing_else() {
    type Break = fn(&mut World);
    let table: &[(&str, Break, &[&str])] = &[
        (
            "half an answer",
            |w| w.calls[4].reading = Reading::Broken("half".into()),
            &["answers", "fallbacks"],
        ),
        ("an error though another could serve", |w| w.refuse(0), &["served"]),
        ("late", |w| w.calls[4].took = Some(Duration::from_millis(2501)), &["budget"]),
        (
            "too many attempts",
            |w| {
                let more = (Arc::from("b/m"), None);
                w.told.get_mut("c9").unwrap().attempts = vec![more; 5];
                w.count(SERVED, 14);
                w.seen.insert("b/m".into(), 14);
            },
            &["attempts"],
        ),
        ("a tag that says otherwise", |w| w.calls[4].tag = Some("primary".into()), &["fallbacks"]),
        ("a fallback that is not counted", |w| w.count(FALLBACK, 9), &["fallbacks", "outcomes"]),
        (
            "no record",
            |w| {
                w.told.remove("c9");
            },
            &["fallbacks", "outcomes", "failures"],
        ),
        (
            "recorded as something else",
            |w| w.told.get_mut("c9").unwrap().outcome = Outcome::Interrupted,
            &["outcomes"],
        ),
        ("a failure that is not counted", |w| w.count(FAILED, 2), &["failures"]),
        (
            "a call that nobody counted",
            |w| {
                w.seen.insert("b/m".into(), 11);
            },
            &["failures"],
        ),
        ("it did not open", |w| w.count(OPENED, 0), &["breaker"]),
        (
            "the healthy one opened",
            |w| w.count("sluice_breaker_transitions_total{target=\"b/m\",to=\"open\"}", 1),
            &["breaker"],
        ),
        (
            "it was not spared",
            |w| {
                for n in 3..9 {
                    let told = w.told.get_mut(&format!("c{n}")).unwrap();
                    told.attempts.insert(0, ("a/m".into(), Some(FailureKind::RetryableUpstream)));
                    told.lessons.push(("a/m".into(), BreakerEffect::Count));
                }
                w.count(TRIED, 9);
                w.count(FAILED, 9);
                w.seen.insert("a/m".into(), 9);
            },
            &["breaker"],
        ),
        ("a place still taken", |w| w.left = 1, &["rest"]),
    ];
    for (name, break_it, want) in table {
        let mut world = World::new();
        break_it(&mut world);
        assert_eq!(world.promises(), *want, "{name}: {:?}", world.judge());
    }
}

#[test]
fn an_error_is_none_to_complain_of_where_it_was_to_be_expected_or_the_retry_budget_was_empty() {
    let mut world = World::new();
    world.refuse(0);
    world.expect = Expect::Clean("there is no other target".to_owned());
    assert_eq!(world.judge(), []);
    world.expect = Expect::Served;
    world.count(DENIED, 1);
    assert_eq!(world.judge(), []);
}

#[test]
fn what_is_broken_names_a_request_and_counts_the_others() {
    let mut world = World::new();
    world.refuse(0);
    let broken = world.judge().remove(0);
    assert_eq!(broken.request_id.as_deref(), Some("c0"));
    let want = "1 of 10 calls: an error (retryable_upstream) though another target could serve";
    assert_eq!(broken.text, want);
}
