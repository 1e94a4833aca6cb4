use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::*;

fn line(event: &Event) -> Value {
    serde_json::from_slice(&event.line(LogFormat::Json, UNIX_EPOCH)).expect("an event that is not JSON")
}

fn provider(what: ProviderEvent) -> Event {
    Event::Provider { what, target: "a/m".into(), request_id: None, kind: None, status: None, took: None }
}

fn breaker(to: BreakerState) -> Event {
    Event::Breaker { target: "a/m".into(), to, open_for: None, request_id: None }
}

fn plugin(change: PluginChange) -> Event {
    Event::Plugin { plugin: "mine".into(), change }
}

#[test]
fn every_name_and_level_is_the_published_one() {
    let rejected = PluginChange::Rejected { digest: None, fault: PluginFault::Size, message: String::new() };
    for (event, name, level) in [
        (provider(ProviderEvent::RequestFailed), "provider_request_failed", "warn"),
        (provider(ProviderEvent::FallbackSucceeded), "provider_fallback_succeeded", "info"),
        (provider(ProviderEvent::SkippedUnhealthy), "provider_skipped_unhealthy", "info"),
        (provider(ProviderEvent::ProbeFailed), "provider_probe_failed", "warn"),
        (provider(ProviderEvent::ProbeSucceeded), "provider_probe_succeeded", "info"),
        (provider(ProviderEvent::Recovered), "provider_recovered", "info"),
        (provider(ProviderEvent::StreamInterrupted), "provider_stream_interrupted", "warn"),
        (breaker(BreakerState::Open), "breaker_opened", "warn"),
        (breaker(BreakerState::HalfOpen), "breaker_half_open", "info"),
        (breaker(BreakerState::Closed), "breaker_closed", "info"),
        (Event::ConfigReloaded { generation: 1, needs_restart: Vec::new() }, "config_reloaded", "info"),
        (
            Event::ConfigReloaded { generation: 1, needs_restart: vec!["state_dir"] },
            "config_reloaded",
            "warn",
        ),
        (
            Event::ConfigRejected { fault: ConfigFault::Syntax, mistakes: 1, message: String::new() },
            "config_rejected",
            "error",
        ),
        (plugin(PluginChange::Loaded { digest: "ab".into() }), "plugin_loaded", "info"),
        (plugin(rejected), "plugin_rejected", "error"),
        (plugin(PluginChange::SetAside { pause: Duration::ZERO }), "plugin_set_aside", "warn"),
        (plugin(PluginChange::RolledBack { digest: "ab".into() }), "plugin_rolled_back", "warn"),
        (plugin(PluginChange::Removed), "plugin_removed", "info"),
    ] {
        let line = line(&event);
        assert_eq!((&line["event"], &line["level"]), (&json!(name), &json!(level)));
        assert_eq!(line["time"], "1970-01-01T00:00:00.000Z");
    }
}

#[test]
fn a_provider_event_carries_what_is_known_and_nothing_else() {
    let full = Event::Provider {
        what: ProviderEvent::RequestFailed,
        target: "a/m".into(),
        request_id: Some("r1".into()),
        kind: Some(FailureKind::RetryableUpstream),
        status: Some(503),
        took: Some(Duration::from_micros(12_700)),
    };
    let expected = json!({
        "time": "1970-01-01T00:00:00.000Z", "level": "warn", "event": "provider_request_failed",
        "request_id": "r1", "target": "a/m", "kind": "retryable_upstream", "status": 503, "ms": 13,
    });
    assert_eq!(line(&full), expected);
    let names: Vec<_> =
        line(&provider(ProviderEvent::Recovered)).as_object().expect("an object").keys().cloned().collect();
    assert_eq!(names, ["event", "level", "target", "time"]);
}

#[test]
fn a_rejection_says_why_in_one_line() {
    let rejected = plugin(PluginChange::Rejected {
        digest: Some("cd".into()),
        fault: PluginFault::NameConflict,
        message: "two\nlines".into(),
    });
    let text = String::from_utf8(rejected.line(LogFormat::Text, UNIX_EPOCH)).expect("text");
    assert_eq!(
        text,
        "1970-01-01T00:00:00.000Z ERROR plugin_rejected plugin=mine digest=cd reason=name_conflict two\\nlines"
    );
    let faulty = Event::ConfigRejected {
        fault: ConfigFault::Invalid,
        mistakes: 2,
        message: "a.yaml:1:1: x: y\na.yaml:2:1: z: w".into(),
    };
    assert_eq!(line(&faulty)["message"], "a.yaml:1:1: x: y\na.yaml:2:1: z: w");
    assert_eq!(line(&faulty)["mistakes"], 2);
    let partly = Event::ConfigReloaded { generation: 3, needs_restart: vec!["state_dir", "x"] };
    assert_eq!(line(&partly)["needs_restart"], "state_dir x");
}

#[test]
fn the_reasons_are_those_of_the_reference() {
    let plugin: Vec<_> = PluginFault::ALL.iter().map(|fault| fault.as_str()).collect();
    assert_eq!(
        plugin.join(" "),
        "read size magic parse precompiled import contract resources compile instantiate configure probe digest sidecar name_conflict"
    );
    let config: Vec<_> = ConfigFault::ALL.iter().map(|fault| fault.as_str()).collect();
    assert_eq!(config, ["read", "syntax", "invalid"]);
    let states: Vec<_> = PluginState::ALL.iter().map(|state| state.as_str()).collect();
    assert_eq!(states, ["active", "rejected", "last_good", "set_aside", "disabled", "removed"]);
}
