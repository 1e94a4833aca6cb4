use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::*;
use crate::plugin::{PluginState, Reason, RejectionStatus};
use crate::telemetry::decisions::Decision;
use crate::telemetry::record::{self, tests::sample};

fn at(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

fn body(page: &Page) -> Value {
    serde_json::from_str(&page.body).expect("a page that is not JSON")
}

#[test]
fn livez_says_ok() {
    assert_eq!(livez(), Page { status: StatusCode::OK, body: r#"{"status":"ok"}"#.into() });
}

#[test]
fn readyz_is_200_with_null_or_503_with_the_reason() {
    for (reason, status, text) in [
        (None, 200, Value::Null),
        (Some(NotReady::NoTarget), 503, json!("no_target")),
        (Some(NotReady::Draining), 503, json!("draining")),
        (Some(NotReady::Starting), 503, json!("starting")),
        (Some(NotReady::Plugin), 503, json!("plugin")),
    ] {
        let page = readyz(&Readyz {
            reason,
            routes: BTreeMap::from([("chat".into(), 1), ("solo".into(), 0)]),
            blocked: vec![
                Blocked {
                    target: "a/m".into(),
                    why: BlockedBy::Open,
                    until: Some(Duration::from_micros(1_500)),
                },
                Blocked { target: "b/m".into(), why: BlockedBy::Cooling, until: None },
                Blocked { target: "c/m".into(), why: BlockedBy::NoCredential, until: None },
            ],
        });
        assert_eq!(page.status.as_u16(), status);
        let expected = json!({
            "ready": status == 200,
            "reason": text,
            "routes": {"chat": 1, "solo": 0},
            "blocked": [
                {"target": "a/m", "why": "open", "until_ms": 2},
                {"target": "b/m", "why": "cooling", "until_ms": null},
                {"target": "c/m", "why": "no_credential", "until_ms": null},
            ],
        });
        assert_eq!(body(&page), expected);
    }
}

#[test]
fn upstreams_have_the_shape_that_scripts_read() {
    let page = upstreams(&Upstreams {
        now: at(2_000),
        version: "0.1.0",
        readiness: Readyz::default(),
        targets: vec![TargetRow {
            target: "a/m".into(),
            upstream: "a".into(),
            model: "m".into(),
            routes: vec!["chat".into(), "solo".into()],
            able: false,
            breaker: BreakerRow {
                state: BreakerState::HalfOpen,
                failures: 3,
                rate: Some(0.5),
                opened_at: Some(at(1_000)),
                until: Some(Duration::from_secs(30)),
                opens: 2,
            },
            cooldown: Duration::from_secs(5),
            cooldown_kind: Some(FailureKind::RetryableRateLimit),
            in_flight: 4,
            success_rate_1m: None,
            latency_ms: Percentiles { p50: Some(1.5), p95: Some(2.0), p99: None },
            first_content_ms: Percentiles::default(),
            quota_left: Some(0.25),
        }],
        upstreams: vec![UpstreamRow {
            upstream: "a".into(),
            gate: UpstreamGate { in_flight: 4, limit: 256, queue: 1, queue_limit: 256 },
            credentials: vec![CredentialRow {
                index: 0,
                state: CredentialState::RateLimited,
                until: Some(Duration::from_millis(250)),
                in_flight: 4,
            }],
        }],
        gates: vec![GateRow { gate: "global".into(), in_flight: 4, limit: 1024, queue: 0 }],
        records: Some(RecordsRow { away_since: Some(at(1_000)), spooled: 5 }),
    });
    let expected = json!({
        "now": "1970-01-01T00:00:02.000Z",
        "version": "0.1.0",
        "readiness": {"ready": true, "reason": null, "routes": {}, "blocked": []},
        "targets": [{
            "target": "a/m", "upstream": "a", "model": "m", "routes": ["chat", "solo"], "able": false,
            "breaker": {
                "state": "half_open", "failures": 3, "rate": 0.5,
                "opened_at": "1970-01-01T00:00:01.000Z", "until_ms": 30_000, "opens": 2,
            },
            "cooldown_ms": 5000, "cooldown_kind": "retryable_rate_limit", "in_flight": 4, "success_rate_1m": null,
            "latency_ms": {"p50": 1.5, "p95": 2.0, "p99": null},
            "first_content_ms": {"p50": null, "p95": null, "p99": null},
            "quota_left": 0.25,
        }],
        "upstreams": [{
            "upstream": "a",
            "gate": {"in_flight": 4, "limit": 256, "queue": 1, "queue_limit": 256},
            "credentials": [{"index": 0, "state": "rate_limited", "until_ms": 250, "in_flight": 4}],
        }],
        "gates": [{"gate": "global", "in_flight": 4, "limit": 1024, "queue": 0}],
        "records": {"away_since": "1970-01-01T00:00:01.000Z", "spooled": 5},
    });
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(body(&page), expected);
}

#[test]
fn plugins_show_the_bundled_and_the_rejected() {
    let bundled = PluginStatus {
        name: "weighted-router".into(),
        file: None,
        kinds: vec!["router", "tagger"],
        state: PluginState::Active,
        digest: Some("ab".into()),
        version: Some("0.1.0".into()),
        contract: Some("0.1.0"),
        since: Some("1970-01-01T00:00:02.000Z".into()),
        weight: 1.0,
        on_error: "bundled",
        instances: "warm",
        live: 2,
        calls: 7,
        p50_us: Some(12),
        p99_us: Some(40),
        failures: BTreeMap::from([("trap", 1), ("timeout", 2)]),
        rejection: None,
    };
    let rejected = PluginStatus {
        name: "mine".into(),
        file: Some("mine.wasm".into()),
        kinds: Vec::new(),
        state: PluginState::Rejected,
        digest: None,
        version: None,
        contract: None,
        since: None,
        weight: 0.5,
        on_error: "deny",
        instances: "fresh",
        live: 0,
        calls: 0,
        p50_us: None,
        p99_us: None,
        failures: BTreeMap::new(),
        rejection: Some(RejectionStatus {
            reason: Reason::Import,
            message: "imports `wasi:sockets`".into(),
            digest: Some("cd".into()),
            at: "1970-01-01T00:00:03.000Z".into(),
        }),
    };
    let expected = json!({
        "generation": 3,
        "plugins": [
            {
                "name": "weighted-router", "file": null, "kinds": ["router", "tagger"], "state": "active", "digest": "ab",
                "version": "0.1.0", "contract": "0.1.0", "since": "1970-01-01T00:00:02.000Z", "weight": 1.0,
                "on_error": "bundled", "instances": "warm", "live": 2, "calls": 7, "p50_us": 12, "p99_us": 40,
                "failures": {"trap": 1, "timeout": 2}, "rejection": null, "replaced": true,
            },
            {
                "name": "mine", "file": "mine.wasm", "kinds": [], "state": "rejected", "digest": null,
                "version": null, "contract": null, "since": null, "weight": 0.5,
                "on_error": "deny", "instances": "fresh", "live": 0, "calls": 0, "p50_us": null, "p99_us": null,
                "failures": {}, "rejection": {
                    "reason": "import", "message": "imports `wasi:sockets`", "digest": "cd", "at": "1970-01-01T00:00:03.000Z",
                }, "replaced": false,
            },
        ],
    });
    let page = plugins(3, None, &[bundled, rejected], &[PluginKind::Router]);
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(body(&page), expected);
}

#[test]
fn decisions_are_records_with_what_was_decided() {
    let entry = |id: &str| {
        let mut record = sample();
        record.request_id = id.into();
        Entry::new(record::line(&record), &record.request_id, Decision::default())
    };
    let page = decisions(&Found { entries: vec![entry("new"), entry("old")], next: "0-2".into() });
    let body = body(&page);
    let rows = body["decisions"].as_array().expect("a list");
    assert_eq!(rows.iter().map(|row| &row["request_id"]).collect::<Vec<_>>(), ["new", "old"]);
    assert_eq!(rows[0]["verdicts"], json!([]));
    assert_eq!(body["next"], "0-2");
    let none = Found { entries: Vec::new(), next: "0-0".into() };
    assert_eq!(decisions(&none).body, r#"{"decisions":[],"next":"0-0"}"#);
}
