mod bounds;
mod parse;

use std::collections::BTreeSet;

use sluice_core::kind::FailureKind;

use super::*;
use crate::telemetry::events::PluginState;
use parse::Exposition;

/// Names, types and labels that dashboards rely on.
#[rustfmt::skip]
const REFERENCE: &[(&str, &str, &[&str])] = &[
    ("sluice_requests_total", "counter", &["model", "served_model", "upstream", "status", "outcome", "fallback"]),
    ("sluice_request_duration_seconds", "histogram", &["model", "outcome"]),
    ("sluice_time_to_first_token_seconds", "histogram", &["model", "fallback"]),
    ("sluice_gateway_overhead_seconds", "histogram", &["model"]),
    ("sluice_attempts_total", "counter", &["target", "role", "result"]),
    ("sluice_attempt_duration_seconds", "histogram", &["target", "role"]),
    ("sluice_attempt_failures_total", "counter", &["target", "kind", "status", "role"]),
    ("sluice_attempts_per_request", "histogram", &["model"]),
    ("sluice_retries_total", "counter", &["target"]),
    ("sluice_retry_budget_denied_total", "counter", &["target"]),
    ("sluice_budget_left_seconds", "histogram", &["model"]),
    ("sluice_provider_events_total", "counter", &["event", "target"]),
    ("sluice_streams_interrupted_total", "counter", &["target", "reason"]),
    ("sluice_malformed_events_total", "counter", &["target"]),
    ("sluice_breaker_state", "gauge", &["target"]),
    ("sluice_breaker_transitions_total", "counter", &["target", "to"]),
    ("sluice_target_cooldown_seconds", "gauge", &["target"]),
    ("sluice_gate_in_flight", "gauge", &["gate"]),
    ("sluice_gate_limit", "gauge", &["gate"]),
    ("sluice_gate_queue_depth", "gauge", &["gate"]),
    ("sluice_gate_wait_seconds", "histogram", &["gate"]),
    ("sluice_gate_refused_total", "counter", &["gate", "reason"]),
    ("sluice_tokens_total", "counter", &["model", "served_model", "direction", "source"]),
    ("sluice_plugin_calls_total", "counter", &["plugin", "kind", "result"]),
    ("sluice_plugin_call_duration_seconds", "histogram", &["plugin", "kind"]),
    ("sluice_plugin_state", "gauge", &["plugin", "state"]),
    ("sluice_plugin_info", "gauge", &["plugin", "kind", "digest", "version", "contract"]),
    ("sluice_plugin_reloads_total", "counter", &["plugin", "result", "reason"]),
    ("sluice_config_reloads_total", "counter", &["result", "reason"]),
    ("sluice_generation", "gauge", &[]),
    ("sluice_records_dropped_total", "counter", &[]),
    ("sluice_records_written_total", "counter", &["to"]),
    ("sluice_records_spooled", "gauge", &[]),
    ("sluice_spans_exported_total", "counter", &[]),
    ("sluice_spans_dropped_total", "counter", &[]),
    ("sluice_tls_certificate_expires_timestamp_seconds", "gauge", &["listener"]),
    ("sluice_build_info", "gauge", &["version", "commit", "contract"]),
];

fn target(upstream: &str, model: &str) -> TargetName {
    TargetName { key: format!("{upstream}/{model}").into(), upstream: upstream.into(), model: model.into() }
}

fn names() -> Names {
    Names {
        routes: vec!["chat".into(), "solo".into()],
        targets: vec![target("a", "m1"), target("b", "m2")],
        upstreams: vec!["a".into(), "b".into(), "idle".into()],
        callers: vec!["team".into()],
    }
}

fn metrics() -> Metrics {
    Metrics::new(&names()).unwrap()
}

fn read(metrics: &Metrics) -> Exposition {
    Exposition::parse(&metrics.render(&Scrape::default()).unwrap())
}

fn ended<'a>(
    model: Option<&'a str>,
    target: Option<&'a str>,
    status: u16,
    outcome: Outcome,
) -> RequestSummary<'a> {
    RequestSummary {
        model,
        target,
        stream: false,
        status,
        outcome,
        fallback: false,
        duration: Duration::from_millis(300),
        first_content: None,
        overhead: None,
        attempts: 1,
        usage: None,
    }
}

/// Everything that can happen, once.
fn busy(metrics: &Metrics) -> Scrape {
    metrics.set_plugins(&[("mine".into(), vec![PluginKind::Router])]);
    metrics.request_ended(&RequestSummary {
        stream: true,
        first_content: Some(Duration::from_millis(200)),
        overhead: Some(Duration::from_micros(300)),
        usage: Some(Usage { input: 5, output: 7, estimated: true }),
        ..ended(Some("chat"), Some("a/m1"), 200, Outcome::Success)
    });
    metrics.attempt_ended(&AttemptSummary {
        target: "a/m1",
        role: Role::Primary,
        result: AttemptResult::Failed(FailureKind::RetryableUpstream),
        status: Some(503),
        to_commit: Some(Duration::from_millis(100)),
    });
    metrics.switch("chat", Duration::from_secs(4));
    metrics.gate_waited("global", Duration::from_millis(2));
    metrics.plugin_called("mine", PluginKind::Router, CallResult::Ok, Some(Duration::from_micros(12)));
    metrics.plugin_reloaded("mine", PluginReload::Loaded);
    Scrape {
        targets: vec![TargetGauges {
            target: "a/m1".into(),
            breaker: BreakerState::Open,
            cooldown: Duration::from_millis(1_500),
        }],
        gates: vec![GateGauges { gate: "global".into(), in_flight: 3, limit: 1024, queue: 1 }],
        plugins: vec![PluginGauges {
            plugin: "mine".into(),
            state: PluginState::LastGood,
            running: Some(PluginVersion {
                kinds: vec![PluginKind::Router, PluginKind::Tagger],
                digest: "ab".into(),
                version: "1.0.0".into(),
                contract: "0.1.0".into(),
            }),
        }],
        generation: 4,
        records_spooled: 2,
        certificates: vec![("main", 1_900_000_000)],
    }
}

#[test]
fn the_exposition_has_the_names_types_and_labels_of_the_reference_and_no_others() {
    let metrics = metrics();
    let scrape = busy(&metrics);
    let page = Exposition::parse(&metrics.render(&scrape).unwrap());
    let expected: BTreeSet<_> =
        REFERENCE.iter().map(|(name, kind, _)| ((*name).to_owned(), (*kind).to_owned())).collect();
    let got: BTreeSet<_> = page.types.clone().into_iter().collect();
    assert_eq!(got, expected);
    for (name, _, labels) in REFERENCE {
        let wanted: BTreeSet<_> = labels.iter().map(|label| (*label).to_owned()).collect();
        assert_eq!(page.labels_of(name), wanted, "{name}");
    }
}

#[test]
fn names_are_announced_before_anything_has_happened() {
    let page = read(&Metrics::new(&Names::default()).unwrap());
    assert_eq!(page.types.len(), REFERENCE.len());
}

#[test]
fn gauges_say_what_the_snapshot_says() {
    let metrics = metrics();
    let scrape = busy(&metrics);
    let page = Exposition::parse(&metrics.render(&scrape).unwrap());
    for (name, labels, value) in [
        ("sluice_breaker_state", vec![("target", "a/m1")], 2.0),
        ("sluice_target_cooldown_seconds", vec![("target", "a/m1")], 1.5),
        ("sluice_gate_in_flight", vec![("gate", "global")], 3.0),
        ("sluice_gate_limit", vec![("gate", "global")], 1024.0),
        ("sluice_gate_queue_depth", vec![("gate", "global")], 1.0),
        ("sluice_plugin_state", vec![("plugin", "mine"), ("state", "last_good")], 1.0),
        ("sluice_plugin_state", vec![("plugin", "mine")], 1.0),
        (
            "sluice_plugin_info",
            vec![("kind", "tagger"), ("digest", "ab"), ("version", "1.0.0"), ("contract", "0.1.0")],
            1.0,
        ),
        ("sluice_generation", vec![], 4.0),
        ("sluice_records_spooled", vec![], 2.0),
        ("sluice_tls_certificate_expires_timestamp_seconds", vec![("listener", "main")], 1_900_000_000.0),
        ("sluice_build_info", vec![("version", env!("CARGO_PKG_VERSION")), ("contract", "0.1.0")], 1.0),
    ] {
        assert_eq!(page.sum(name, &labels), value, "{name} {labels:?}");
    }
    assert_eq!(page.count("sluice_plugin_state"), PluginState::ALL.len());
}

#[test]
fn every_outcome_is_counted_once_and_they_add_up() {
    let metrics = metrics();
    for (n, outcome) in Outcome::ALL.iter().enumerate() {
        for _ in 0..=n {
            metrics.request_ended(&ended(Some("chat"), None, 502, *outcome));
        }
    }
    let page = read(&metrics);
    let total = page.sum("sluice_requests_total", &[]);
    for (n, outcome) in (1_u8..).zip(Outcome::ALL) {
        let labels = [("outcome", outcome.as_str())];
        assert_eq!(page.sum("sluice_requests_total", &labels), f64::from(n));
        assert_eq!(page.sum("sluice_request_duration_seconds_count", &labels), f64::from(n));
    }
    assert_eq!(total, 55.0);
    assert_eq!(page.sum("sluice_attempts_per_request_count", &[]), total);
}

#[test]
fn labels_tell_who_was_asked_and_who_served() {
    let metrics = metrics();
    metrics.request_ended(&RequestSummary {
        fallback: true,
        ..ended(Some("chat"), Some("b/m2"), 200, Outcome::FallbackSuccess)
    });
    let labels = [
        ("model", "chat"),
        ("served_model", "m2"),
        ("upstream", "b"),
        ("status", "200"),
        ("outcome", "fallback_success"),
        ("fallback", "true"),
    ];
    assert_eq!(read(&metrics).sum("sluice_requests_total", &labels), 1.0);
}

#[test]
fn closed_sets_count_from_zero() {
    let page = read(&metrics());
    for (name, labels, series) in [
        ("sluice_attempts_total", vec![("target", "a/m1")], 22),
        ("sluice_provider_events_total", vec![("target", "a/m1")], 7),
        ("sluice_streams_interrupted_total", vec![("target", "a/m1")], 7),
        ("sluice_breaker_transitions_total", vec![("target", "b/m2")], 3),
        ("sluice_retries_total", vec![("target", "b/m2")], 1),
        ("sluice_retry_budget_denied_total", vec![("target", "b/m2")], 1),
        ("sluice_malformed_events_total", vec![("target", "b/m2")], 1),
        ("sluice_gate_refused_total", vec![("gate", "upstream:a")], 2),
        ("sluice_gate_refused_total", vec![("gate", "caller:team")], 2),
        ("sluice_config_reloads_total", vec![], 4),
        ("sluice_records_dropped_total", vec![], 1),
        ("sluice_records_written_total", vec![], 2),
    ] {
        assert_eq!(page.series_with(name, &labels), series, "{name}");
        assert_eq!(page.sum(name, &labels), 0.0, "{name}");
    }
}

#[test]
fn an_attempt_is_timed_to_its_commit_and_blamed_when_it_failed() {
    let metrics = metrics();
    let attempt = |result, status, to_commit| {
        metrics.attempt_ended(&AttemptSummary {
            target: "a/m1",
            role: Role::Primary,
            result,
            status,
            to_commit,
        });
    };
    attempt(AttemptResult::Ok, Some(200), Some(Duration::from_millis(150)));
    attempt(AttemptResult::Cancelled, None, None);
    attempt(AttemptResult::Failed(FailureKind::RetryableTimeout), None, None);
    attempt(AttemptResult::Failed(FailureKind::RetryableUpstream), Some(503), None);
    attempt(
        AttemptResult::Failed(FailureKind::RetryableUpstream),
        Some(777),
        Some(Duration::from_millis(50)),
    );
    let page = read(&metrics);
    let sum = |name: &str, labels: &[(&str, &str)]| page.sum(name, labels);
    assert_eq!(sum("sluice_attempts_total", &[("target", "a/m1"), ("role", "primary")]), 5.0);
    for (result, n) in
        [("ok", 1.0), ("cancelled", 1.0), ("retryable_timeout", 1.0), ("retryable_upstream", 2.0)]
    {
        assert_eq!(sum("sluice_attempts_total", &[("result", result)]), n, "{result}");
    }
    for (status, n) in [("none", 1.0), ("503", 1.0), ("other", 1.0)] {
        assert_eq!(sum("sluice_attempt_failures_total", &[("status", status)]), n, "{status}");
    }
    assert_eq!(sum("sluice_attempt_duration_seconds_count", &[("role", "primary")]), 2.0);
    assert!((sum("sluice_attempt_duration_seconds_sum", &[]) - 0.2).abs() < 1e-9);
    assert_eq!(sum("sluice_attempt_duration_seconds_bucket", &[("le", "0.1")]), 1.0);
    assert_eq!(sum("sluice_attempt_duration_seconds_bucket", &[("le", "0.2")]), 2.0);
}

#[test]
fn first_content_is_timed_for_streams_only() {
    let metrics = metrics();
    for (stream, first_content) in [(true, Some(120)), (true, None), (false, Some(120))] {
        let first_content = first_content.map(Duration::from_millis);
        metrics.request_ended(&RequestSummary {
            stream,
            first_content,
            ..ended(Some("chat"), Some("a/m1"), 200, Outcome::Success)
        });
    }
    assert_eq!(
        read(&metrics)
            .sum("sluice_time_to_first_token_seconds_count", &[("model", "chat"), ("fallback", "false")]),
        1.0
    );
}

#[test]
fn tokens_are_counted_by_direction_and_source() {
    let metrics = metrics();
    for (estimated, input, output) in [(false, 10, 20), (false, 1, 2), (true, 100, 0)] {
        let usage = Some(Usage { input, output, estimated });
        metrics.request_ended(&RequestSummary {
            usage,
            ..ended(Some("chat"), Some("a/m1"), 200, Outcome::Success)
        });
    }
    let page = read(&metrics);
    for (direction, source, n) in [
        ("input", "upstream", 11.0),
        ("output", "upstream", 22.0),
        ("input", "estimated", 100.0),
        ("output", "estimated", 0.0),
    ] {
        let labels =
            [("model", "chat"), ("served_model", "m1"), ("direction", direction), ("source", source)];
        assert_eq!(page.sum("sluice_tokens_total", &labels), n);
    }
}

#[test]
fn closed_sets_are_spelled_as_in_the_reference() {
    let results: Vec<_> = CallResult::ALL.iter().map(|r| r.as_str()).collect();
    assert_eq!(
        results,
        ["ok", "none", "trap", "timeout", "memory", "stack", "invalid", "saturated", "set_aside"]
    );
    let reasons: Vec<_> = Interruption::ALL.iter().map(|r| r.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "upstream_interrupted",
            "stream_stalled",
            "stream_max",
            "malformed_event",
            "event_too_large",
            "draining",
            "other"
        ]
    );
    for reason in Interruption::ALL {
        assert_eq!(Interruption::of_code(reason.as_str()), *reason);
    }
    let refusals: Vec<_> = GateRefusal::ALL.iter().map(|r| r.as_str()).collect();
    assert_eq!(refusals, ["queue_full", "queue_timeout"]);
}
