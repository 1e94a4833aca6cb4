#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use std::time::Duration;

use sluice_core::kind::FailureKind;

use super::*;
use crate::clock;

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) const GATE: config::Gate = config::Gate { max_in_flight: 4, queue: 8, queue_wait: SECOND };

pub(super) const BREAKER: config::Breaker = config::Breaker {
    consecutive: 3,
    rate: None,
    open: Duration::from_secs(30),
    open_max: Duration::from_secs(300),
    cooldown: config::Cooldown {
        rate_limit: SECOND,
        model: SECOND,
        quota: SECOND,
        auth: SECOND,
        max: SECOND,
    },
};

/// What was told to the watch, in order.
#[derive(Default)]
pub(super) struct Told(Mutex<Vec<String>>);

impl Told {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl StateWatch for Told {
    fn breaker_changed(&self, target: &Arc<str>, from: BreakerState, to: BreakerState) {
        lock(&self.0).push(format!("{target}: {} to {}", from.as_str(), to.as_str()));
    }
    fn gate_waited(&self, gate: &str, waited: Duration) {
        lock(&self.0).push(format!("{gate}: waited {} ms", waited.as_millis()));
    }
    fn gate_refused(&self, gate: &str, reason: GateRefusal) {
        lock(&self.0).push(format!("{gate}: {}", reason.as_str()));
    }
}

pub(super) fn upstream(name: &str, path: &str, keys: &[&str]) -> Arc<config::Upstream> {
    let credential = |key: &&str| config::Credential { key: (*key).into(), reference: format!("env:{key}") };
    Arc::new(config::Upstream {
        name: name.into(),
        base: config::BaseUrl {
            tls: false,
            authority: "127.0.0.1:1".parse().unwrap(),
            path: path.to_owned(),
            query: None,
        },
        credentials: keys.iter().map(credential).collect(),
        auth_header: http::header::AUTHORIZATION,
        gate: GATE,
        headers: Vec::new(),
        pool_idle: SECOND,
        ca_file: None,
        quota: None,
        probe: config::Probe::Passive,
        region: None,
    })
}

pub(super) fn target(upstream: &Arc<config::Upstream>, model: &str) -> Arc<config::Target> {
    Arc::new(config::Target {
        key: format!("{}/{model}", upstream.name).into(),
        upstream: upstream.clone(),
        model: model.into(),
        facts: config::Model::default(),
        max_in_flight: None,
    })
}

pub(super) fn configuration(targets: Vec<Arc<config::Target>>) -> Config {
    let upstreams = targets.iter().map(|target| (target.upstream.name.clone(), target.upstream.clone()));
    Config {
        file: None,
        shown: config::Shown::default(),
        listen: "127.0.0.1:0".parse().unwrap(),
        admin: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        traces: None,
        admin_tls: None,
        upstreams: upstreams.collect(),
        targets,
        routes: BTreeMap::new(),
        plugins_dir_named: false,
        plugins: config::Plugins {
            dir: "plugins.d".into(),
            headers: Vec::new(),
            deadline: SECOND,
            memory: 1,
            concurrency: 1,
            settle: SECOND,
            rescan: SECOND,
            probation: SECOND,
            max_file: 1,
        },
        state_dir: "state".into(),
        breaker: BREAKER,
        gates: GATE,
        retry_budget: config::RetryBudget { ratio: 0.0, min_per_second: 1, window: 10 * SECOND },
        callers: Vec::new(),
        cors: None,
        limits: config::Limits { body: 1, answer: 1, event: 1, error_body: 1, held_events: 1, held_bytes: 1 },
        drain: config::Drain { window: SECOND, limit: SECOND },
        readiness: config::Readiness::Targets,
        account_usage: false,
        forward_headers: Vec::new(),
        return_headers: Vec::new(),
        tags: config::Tags { in_body: false, expose_upstream: true, names: BTreeMap::new() },
        log: config::Log { level: "info".to_owned(), format: config::LogFormat::Json, records: true },
        records: None,
        decisions: 1,
    }
}

/// One target of one upstream without keys.
pub(super) fn solo(watch: Arc<dyn StateWatch>) -> Arc<TargetCell> {
    let config = configuration(vec![target(&upstream("a", "/v1", &[]), "m")]);
    State::new(watch).attach(&config, clock::now()).targets[0].clone()
}

#[test]
fn a_reload_keeps_what_is_known_and_moves_it_to_its_new_position() {
    let now = clock::now();
    let state = State::new(Arc::new(()));
    let (a, b) = (upstream("a", "/v1", &["k1"]), upstream("b", "/v1", &[]));
    let first = state.attach(&configuration(vec![target(&a, "m"), target(&b, "m")]), now);
    first.targets[0].admit(now).unwrap().open(now);
    first.targets[1].cool(now + SECOND, FailureKind::RetryableRateLimit);
    first.upstreams["a"].set_aside(0, now + SECOND, AsideState::Quota);
    assert!(first.retry_budget.take(now));

    let second = state.attach(&configuration(vec![target(&b, "m"), target(&a, "m")]), now);
    assert!(matches!(second.targets[0].able(now), Able::Cooling { .. }));
    assert_eq!(second.targets[1].able(now), Able::Open { until: Some(now + 30 * SECOND) });
    assert_eq!(second.targets[1].candidate_numbers(now).target, 1);
    assert_eq!(
        first.targets[0].candidate_numbers(now).target,
        0,
        "a request keeps the positions it began with"
    );
    assert!(second.upstreams["a"].all_aside(now).is_some());
    assert!(Arc::ptr_eq(&first.global, &second.global));
    let left = (0..100).filter(|_| second.retry_budget.take(now)).count();
    assert_eq!(left, 9);
}

#[test]
fn another_base_url_starts_fresh() {
    let now = clock::now();
    let state = State::new(Arc::new(()));
    let first = state.attach(&configuration(vec![target(&upstream("a", "/v1", &["k1"]), "m")]), now);
    first.targets[0].admit(now).unwrap().open(now);
    first.upstreams["a"].set_aside(0, now + SECOND, AsideState::Quota);
    let permit = first.upstreams["a"].gate().try_enter(Priority::Newcomer).unwrap();

    let second = state.attach(&configuration(vec![target(&upstream("a", "/v2", &["k1"]), "m")]), now);
    assert_eq!(second.targets[0].able(now), Able::Yes);
    assert_eq!(second.upstreams["a"].all_aside(now), None);
    assert_eq!(second.upstreams["a"].gate().snapshot().in_flight, 0);
    drop(permit);
    assert_eq!(first.upstreams["a"].gate().snapshot().in_flight, 0, "old calls end where they began");
}

#[test]
fn changed_limits_apply_in_place() {
    let now = clock::now();
    let state = State::new(Arc::new(()));
    let mut config = configuration(vec![target(&upstream("a", "/v1", &[]), "m")]);
    let first = state.attach(&config, now);
    let held: Vec<Permit> = (0..4).map(|_| first.global.try_enter(Priority::Newcomer).unwrap()).collect();
    config.gates.max_in_flight = 2;
    config.breaker.consecutive = 1;
    config.retry_budget.min_per_second = 0;
    let second = state.attach(&config, now);
    let page = second.global.snapshot();
    assert_eq!((page.in_flight, page.limit), (4, 2));
    drop(held);
    assert_eq!(second.global.snapshot().in_flight, 0);
    assert!(!first.retry_budget.take(now));
    first.targets[0].admit(now).unwrap().failure(now);
    assert_eq!(second.targets[0].page(now).breaker.state, BreakerState::Open);
}

#[test]
fn a_targets_own_gate_is_entered_first_and_kept_over_a_reload() {
    let now = clock::now();
    let state = State::new(Arc::new(()));
    let limited = |max_in_flight| {
        let target = target(&upstream("a", "/v1", &[]), "m");
        configuration(vec![Arc::new(config::Target { max_in_flight, ..(*target).clone() })])
    };
    let first = state.attach(&limited(Some(2)), now);
    let names: Vec<_> = first.targets[0].gates().map(|gate| gate.name().to_string()).collect();
    assert_eq!(names, ["target:a/m", "upstream:a"]);
    assert_eq!(first.targets[0].candidate_numbers(now).capacity, 2);
    let second = state.attach(&limited(Some(1)), now);
    assert_eq!(first.targets[0].candidate_numbers(now).capacity, 1, "in place");
    let third = state.attach(&limited(None), now);
    assert_eq!(third.targets[0].candidate_numbers(now).capacity, GATE.max_in_flight);
    drop(second);
    let fourth = state.attach(&limited(Some(3)), now);
    assert_eq!(fourth.targets[0].candidate_numbers(now).capacity, 3);
}

#[test]
fn what_no_configuration_names_is_let_go() {
    let now = clock::now();
    let state = State::new(Arc::new(()));
    let (a, b) = (upstream("a", "/v1", &["k1"]), upstream("b", "/v1", &[]));
    let first = state.attach(&configuration(vec![target(&a, "m"), target(&a, "n"), target(&b, "m")]), now);
    first.targets[0].admit(now).unwrap().open(now);
    drop(first);
    drop(state.attach(&configuration(vec![target(&b, "m")]), now));
    {
        let kept = lock(&state.kept);
        assert_eq!((kept.targets.len(), kept.upstreams.len(), kept.target_gates.len()), (1, 1, 0));
    }
    let back = state.attach(&configuration(vec![target(&a, "m")]), now);
    assert_eq!(back.targets[0].able(now), Able::Yes);
}

#[test]
fn a_new_configuration_gives_denied_credentials_another_chance() {
    let now = clock::now();
    let state = State::new(Arc::new(()));
    let with = |keys: &[&str]| configuration(vec![target(&upstream("a", "/v1", keys), "m")]);
    let first = state.attach(&with(&["k1", "k2", "k3"]), now);
    for (index, aside) in
        [AsideState::Denied, AsideState::Quota, AsideState::RateLimited].into_iter().enumerate()
    {
        first.upstreams["a"].set_aside(index, now + SECOND, aside);
    }
    let second = state.attach(&with(&["k3", "k4", "k1"]), now);
    let states: Vec<_> = second.upstreams["a"].page(now).iter().map(|c| c.aside.map(|a| a.state)).collect();
    assert_eq!(states, [Some(AsideState::RateLimited), None, None]);
}

#[test]
fn a_new_configuration_gives_a_target_that_was_refused_without_a_credential_another_chance() {
    let now = clock::now();
    let state = State::new(Arc::new(()));
    let with = |keys: &[&str]| configuration(vec![target(&upstream("a", "/v1", keys), "m")]);
    let first = state.attach(&with(&[]), now);
    first.targets[0].cool(now + SECOND, FailureKind::AuthDenied);
    assert!(matches!(first.targets[0].able(now), Able::Cooling { .. }));
    assert_eq!(state.attach(&with(&["k1"]), now).targets[0].able(now), Able::Yes);
    // What the provider asked for still holds.
    first.targets[0].cool(now + SECOND, FailureKind::RetryableRateLimit);
    assert!(matches!(state.attach(&with(&["k1"]), now).targets[0].able(now), Able::Cooling { .. }));
}
