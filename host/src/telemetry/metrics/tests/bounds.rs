//! No name makes more series than it should, and none is lost that should stay.

use super::*;

#[test]
fn names_of_strangers_make_no_series() {
    let metrics = metrics();
    let before = read(&metrics).series.len();
    for n in 0..1_000_u16 {
        let name = format!("made-up-{n}");
        metrics.request_ended(&ended(Some(&name), Some(&name), 1_000 + n, Outcome::InvalidRequest));
        metrics.attempt_ended(&AttemptSummary {
            target: &name,
            role: Role::Fallback,
            result: AttemptResult::Failed(FailureKind::RetryableUpstream),
            status: Some(1_000 + n),
            to_commit: None,
        });
        metrics.gate_refused(&name, GateRefusal::QueueFull);
        metrics.stream_interrupted(&name, Interruption::of_code(&name));
    }
    metrics.request_ended(&ended(None, None, 400, Outcome::InvalidRequest));
    let page = read(&metrics);
    let all = [("model", "other"), ("served_model", "other"), ("upstream", "other"), ("status", "other")];
    assert_eq!(page.sum("sluice_requests_total", &all), 1_000.0);
    let none = [("model", "none"), ("served_model", "none"), ("upstream", "none"), ("status", "400")];
    assert_eq!(page.sum("sluice_requests_total", &none), 1.0);
    assert_eq!(
        page.sum("sluice_attempt_failures_total", &[("target", "other"), ("status", "other")]),
        1_000.0
    );
    assert_eq!(
        page.sum("sluice_gate_refused_total", &[("gate", "other"), ("reason", "queue_full")]),
        1_000.0
    );
    assert_eq!(
        page.sum("sluice_streams_interrupted_total", &[("target", "other"), ("reason", "other")]),
        1_000.0
    );
    assert!(page.series.len() < before + 100, "{} series more", page.series.len() - before);
}

#[test]
fn rows_of_strangers_in_a_scrape_share_one_series() {
    let metrics = metrics();
    let gate = |gate: &str| GateGauges { gate: gate.into(), in_flight: 2, limit: 5, queue: 1 };
    let row =
        |target: &str, breaker| TargetGauges { target: target.into(), breaker, cooldown: Duration::ZERO };
    let scrape = Scrape {
        gates: vec![gate("upstream:x"), gate("upstream:y"), gate("upstream:idle")],
        targets: vec![row("x/1", BreakerState::Open), row("y/1", BreakerState::Closed)],
        ..Scrape::default()
    };
    let page = Exposition::parse(&metrics.render(&scrape).unwrap());
    assert_eq!(page.sum("sluice_gate_in_flight", &[("gate", "other")]), 4.0);
    assert_eq!(page.sum("sluice_gate_in_flight", &[("gate", "upstream:idle")]), 2.0);
    assert_eq!(page.sum("sluice_breaker_state", &[("target", "other")]), 2.0);
}

#[test]
fn plugins_are_bounded_in_number() {
    let metrics = metrics();
    for n in 0..1_000 {
        metrics.plugin_reloaded(&format!("p{n}"), PluginReload::Rejected(PluginFault::Magic));
    }
    let page = read(&metrics);
    assert_eq!(page.count("sluice_plugin_reloads_total"), MAX_PLUGINS + 1);
    assert_eq!(page.sum("sluice_plugin_reloads_total", &[("plugin", "other"), ("reason", "magic")]), 744.0);
}

#[test]
fn values_that_run_together_to_the_same_text_stay_apart() {
    let names = Names {
        routes: vec!["ab".into(), "a".into()],
        targets: vec![target("u", "c"), target("u", "bc")],
        ..Names::default()
    };
    let metrics = Metrics::new(&names).unwrap();
    metrics.request_ended(&ended(Some("ab"), Some("u/c"), 200, Outcome::Success));
    metrics.request_ended(&ended(Some("a"), Some("u/bc"), 200, Outcome::Success));
    let page = read(&metrics);
    assert_eq!(page.sum("sluice_requests_total", &[("model", "ab"), ("served_model", "c")]), 1.0);
    assert_eq!(page.sum("sluice_requests_total", &[("model", "a"), ("served_model", "bc")]), 1.0);
}

#[test]
fn names_of_any_text_are_escaped() {
    let odd = "a \"b\"\\\nc{d=\"e\"}, é";
    let names = Names { routes: vec![odd.into()], ..Names::default() };
    let metrics = Metrics::new(&names).unwrap();
    metrics.request_ended(&ended(Some(odd), None, 404, Outcome::InvalidRequest));
    assert_eq!(read(&metrics).sum("sluice_requests_total", &[("model", odd)]), 1.0);
}

#[test]
fn a_name_that_a_reload_takes_away_is_other_at_once_and_gone_after_the_next() {
    let metrics = metrics();
    let held = metrics.target("a/m1");
    metrics.request_ended(&ended(Some("solo"), Some("a/m1"), 200, Outcome::Success));
    let less = Names {
        routes: vec!["chat".into()],
        targets: vec![target("b", "m2")],
        upstreams: vec!["b".into()],
        ..Names::default()
    };
    metrics.set_names(&less);
    metrics.request_ended(&ended(Some("solo"), Some("a/m1"), 200, Outcome::Success));
    held.retries().inc();
    let page = read(&metrics);
    assert_eq!(
        page.sum("sluice_requests_total", &[("model", "solo"), ("upstream", "a")]),
        1.0,
        "its last value is still shown"
    );
    assert_eq!(page.sum("sluice_requests_total", &[("model", "other"), ("upstream", "other")]), 1.0);
    assert_eq!(
        page.sum("sluice_retries_total", &[("target", "a/m1")]),
        1.0,
        "a request that held it is counted"
    );
    metrics.request_ended(&ended(Some("chat"), Some("b/m2"), 200, Outcome::Success));
    metrics.set_names(&less);
    let page = read(&metrics);
    for (label, value) in [
        ("model", "solo"),
        ("target", "a/m1"),
        ("upstream", "a"),
        ("gate", "target:a/m1"),
        ("gate", "caller:team"),
    ] {
        assert!(
            !page.series.iter().any(|s| s.labels.get(label).is_some_and(|v| v == value)),
            "{label}={value}"
        );
    }
    assert_eq!(
        page.sum("sluice_requests_total", &[("model", "chat"), ("upstream", "b")]),
        1.0,
        "what stays goes on counting"
    );
    metrics.request_ended(&ended(Some("chat"), Some("b/m2"), 200, Outcome::Success));
    assert_eq!(read(&metrics).sum("sluice_requests_total", &[("model", "chat"), ("upstream", "b")]), 2.0);
}

#[test]
fn a_plugin_that_is_gone_keeps_its_series_until_the_next_change() {
    let metrics = metrics();
    let plugin = |name: &str| (Arc::from(name), vec![PluginKind::Router]);
    metrics.set_plugins(&[plugin("old"), plugin("stays")]);
    metrics.plugin_called("stays", PluginKind::Router, CallResult::Trap, None);
    metrics.set_plugins(&[plugin("stays")]);
    let calls = |name: &str| read(&metrics).series_with("sluice_plugin_calls_total", &[("plugin", name)]);
    assert_eq!(calls("old"), 9);
    metrics.set_plugins(&[plugin("stays")]);
    assert_eq!((calls("old"), calls("stays")), (0, 9));
    assert_eq!(
        read(&metrics).sum("sluice_plugin_calls_total", &[("plugin", "stays"), ("result", "trap")]),
        1.0
    );
}

#[test]
fn strange_statuses_are_one_key_of_the_look_up() {
    let keys: BTreeSet<_> = (0..=u16::MAX).map(|status| handles::status_key(Some(status))).collect();
    assert!(keys.len() < 100, "{}", keys.len());
    assert_eq!(handles::status_key(Some(503)), Some(503));
    assert_eq!(handles::status_key(None), None);
}
