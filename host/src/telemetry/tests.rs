use serde_json::json;
use sluice_core::facts::BreakerState;
use sluice_core::kind::{FailureKind, Outcome};

use super::*;
use crate::config::LogFormat;
use crate::telemetry::events::{ConfigFault, PluginFault, ProviderEvent};
use crate::telemetry::log::tests::{Captured, capturing};
use crate::telemetry::metrics::{Scrape, TargetName};
use crate::telemetry::record::tests::sample;

const PATIENCE: Duration = Duration::from_secs(60);

fn names() -> Names {
    let target = |upstream: &str, model: &str| TargetName {
        key: format!("{upstream}/{model}").into(),
        upstream: upstream.into(),
        model: model.into(),
    };
    Names {
        routes: vec!["chat".into()],
        targets: vec![target("a", "m1"), target("b", "m2")],
        upstreams: vec!["a".into(), "b".into()],
        callers: Vec::new(),
    }
}

fn rules(level: &str, records: bool) -> Log {
    Log { level: level.into(), format: LogFormat::Json, records }
}

fn telemetry(log: &Log) -> (Telemetry, Captured) {
    let (writer, captured) = capturing(log.format);
    (Telemetry::new(&names(), log, 4, writer).unwrap(), captured)
}

fn page(telemetry: &Telemetry) -> String {
    telemetry.metrics().render(&Scrape::default()).unwrap()
}

fn failed() -> Event {
    Event::Provider {
        what: ProviderEvent::RequestFailed,
        target: "a/m1".into(),
        request_id: Some("req-1".into()),
        kind: Some(FailureKind::RetryableUpstream),
        status: Some(503),
        took: None,
    }
}

fn kept(telemetry: &Telemetry) -> usize {
    telemetry.decisions().list(&super::decisions::Wanted::default()).entries.len()
}

#[test]
fn a_settled_request_is_counted_written_and_kept() {
    let (telemetry, captured) = telemetry(&rules("info", true));
    telemetry.settled(sample(), Decision::default(), Some(Duration::from_micros(200)), None);
    assert!(telemetry.close(PATIENCE));
    let lines = captured.json();
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["event"], &lines[0]["request_id"]), (&json!("request"), &json!("req-1")));
    let page = page(&telemetry);
    for line in [
        r#"sluice_requests_total{fallback="true",model="chat",outcome="fallback_success",served_model="m2",status="200",upstream="b"} 1"#,
        r#"sluice_time_to_first_token_seconds_count{fallback="true",model="chat"} 1"#,
        r#"sluice_gateway_overhead_seconds_count{model="chat"} 1"#,
        r#"sluice_attempts_per_request_sum{model="chat"} 2"#,
        r#"sluice_tokens_total{direction="output",model="chat",served_model="m2",source="upstream"} 22"#,
    ] {
        assert!(page.lines().any(|have| have == line), "{line}\n{page}");
    }
    assert_eq!(kept(&telemetry), 1);
}

#[test]
fn records_are_not_written_where_they_are_switched_off_but_everything_else_is_done() {
    let (telemetry, captured) = telemetry(&rules("trace", false));
    telemetry.settled(sample(), Decision::default(), None, None);
    assert!(telemetry.close(PATIENCE));
    assert_eq!(captured.text(), "");
    assert_eq!(kept(&telemetry), 1);
    assert!(page(&telemetry).contains("outcome=\"fallback_success\""));
    assert!(page(&telemetry).contains("sluice_records_dropped_total 0"));
}

#[test]
fn what_is_kept_of_a_request_does_not_depend_on_how_its_line_is_written() {
    let mut shown = Vec::new();
    for (format, records) in [(LogFormat::Json, true), (LogFormat::Text, true), (LogFormat::Text, false)] {
        let (telemetry, captured) = telemetry(&Log { format, ..rules("info", records) });
        telemetry.settled(sample(), Decision::default(), None, None);
        assert!(telemetry.close(PATIENCE));
        let text = captured.text();
        assert_eq!(text.lines().count(), usize::from(records), "{text}");
        assert_eq!(text.starts_with('{'), format == LogFormat::Json, "{text}");
        let found = telemetry.decisions().list(&super::decisions::Wanted::default());
        shown.push(serde_json::to_value(&found.entries).unwrap());
    }
    assert_eq!(shown[0][0]["request_id"], "req-1");
    assert!(shown.iter().all(|other| *other == shown[0]), "{shown:?}");
}

#[test]
fn a_ring_that_keeps_nothing_spares_no_line() {
    let (telemetry, captured) = telemetry(&rules("info", true));
    telemetry.decisions().resize(0);
    telemetry.settled(sample(), Decision::default(), None, None);
    assert!(telemetry.close(PATIENCE));
    assert_eq!((captured.json().len(), kept(&telemetry)), (1, 0));
}

#[test]
fn records_do_not_depend_on_the_level() {
    let (telemetry, captured) = telemetry(&rules("off", true));
    telemetry.settled(sample(), Decision::default(), None, None);
    telemetry.event(&failed());
    assert!(telemetry.close(PATIENCE));
    assert_eq!(captured.json().len(), 1);
}

#[test]
fn a_record_that_finds_no_room_is_counted() {
    let (telemetry, _captured) = telemetry(&rules("info", true));
    assert!(telemetry.close(PATIENCE));
    telemetry.settled(sample(), Decision::default(), None, None);
    assert!(page(&telemetry).contains("sluice_records_dropped_total 1"));
}

#[test]
fn an_event_is_one_line_and_one_step_and_a_quiet_log_counts_all_the_same() {
    let (telemetry, captured) = telemetry(&rules("warn", true));
    let breaker = |to| Event::Breaker { target: "a/m1".into(), to, open_for: None, request_id: None };
    let plugin = |change| Event::Plugin { plugin: "mine".into(), change };
    let rejected = PluginChange::Rejected { digest: None, fault: PluginFault::Probe, message: "x".into() };
    for event in [
        failed(),
        breaker(BreakerState::Open),
        breaker(BreakerState::Closed),
        Event::ConfigReloaded { generation: 2, needs_restart: Vec::new() },
        Event::ConfigRejected { fault: ConfigFault::Syntax, mistakes: 1, message: "x".into() },
        plugin(PluginChange::Loaded { digest: "ab".into() }),
        plugin(rejected),
        plugin(PluginChange::RolledBack { digest: "ab".into() }),
        plugin(PluginChange::SetAside { pause: Duration::from_secs(1) }),
        plugin(PluginChange::Removed),
    ] {
        telemetry.event(&event);
    }
    assert!(telemetry.close(PATIENCE));
    let written: Vec<_> = captured.json().iter().map(|line| line["event"].clone()).collect();
    let loud = [
        "provider_request_failed",
        "breaker_opened",
        "config_rejected",
        "plugin_rejected",
        "plugin_rolled_back",
        "plugin_set_aside",
    ];
    assert_eq!(written, loud);
    let page = page(&telemetry);
    for line in [
        r#"sluice_provider_events_total{event="provider_request_failed",target="a/m1"} 1"#,
        r#"sluice_breaker_transitions_total{target="a/m1",to="open"} 1"#,
        r#"sluice_breaker_transitions_total{target="a/m1",to="closed"} 1"#,
        r#"sluice_config_reloads_total{reason="none",result="applied"} 1"#,
        r#"sluice_config_reloads_total{reason="syntax",result="rejected"} 1"#,
        r#"sluice_plugin_reloads_total{plugin="mine",reason="none",result="loaded"} 1"#,
        r#"sluice_plugin_reloads_total{plugin="mine",reason="probe",result="rejected"} 1"#,
        r#"sluice_plugin_reloads_total{plugin="mine",reason="none",result="rolled_back"} 1"#,
        r#"sluice_plugin_reloads_total{plugin="mine",reason="none",result="removed"} 1"#,
    ] {
        assert!(page.lines().any(|have| have == line), "{line}\n{page}");
    }
}

#[test]
fn a_reload_changes_level_records_and_ring_and_a_bad_one_changes_nothing() {
    let (telemetry, captured) = telemetry(&rules("off", true));
    assert!(telemetry.reconfigure(&Names::default(), &rules("a=b=c", false), 0).is_err());
    telemetry.settled(sample(), Decision::default(), None, None);
    assert_eq!(kept(&telemetry), 1);
    telemetry.reconfigure(&names(), &rules("info", false), 0).unwrap();
    telemetry.event(&failed());
    telemetry.settled(sample(), Decision::default(), None, None);
    assert_eq!(kept(&telemetry), 0);
    assert!(telemetry.close(PATIENCE));
    let written: Vec<_> = captured.json().iter().map(|line| line["event"].clone()).collect();
    assert_eq!(written, ["request", "provider_request_failed"]);
}

#[test]
fn gateways_of_one_process_keep_their_lines_apart() {
    let (one, first) = telemetry(&rules("info", true));
    let (two, second) = telemetry(&rules("info", true));
    one.event(&failed());
    two.settled(sample(), Decision::default(), None, None);
    assert!(one.close(PATIENCE) && two.close(PATIENCE));
    assert_eq!(first.json()[0]["event"], "provider_request_failed");
    assert_eq!(second.json()[0]["event"], "request");
    assert_eq!((first.json().len(), second.json().len()), (1, 1));
    assert!(!page(&two).contains("event=\"provider_request_failed\",target=\"a/m1\"} 1"));
}

#[test]
fn the_model_of_a_stranger_is_counted_as_other_and_cut_in_the_record() {
    let (telemetry, captured) = telemetry(&rules("info", true));
    let mut record = sample();
    record.model = Some("x".repeat(1 << 20).as_str().into());
    record.served = None;
    record.outcome = Outcome::InvalidRequest;
    telemetry.settled(record, Decision::default(), None, None);
    assert!(telemetry.close(PATIENCE));
    assert!(captured.text().len() < 4096);
    assert!(page(&telemetry).contains(r#"model="other",outcome="invalid_request",served_model="none""#));
}
