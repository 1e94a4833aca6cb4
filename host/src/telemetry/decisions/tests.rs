use serde_json::{Value, json};

use super::*;
use crate::telemetry::record::tests::sample;

fn push(ring: &Decisions, id: &str) {
    let mut record = sample();
    record.request_id = id.into();
    ring.push(Arc::new(record), Decision::default());
}

fn ids(ring: &Decisions) -> Vec<String> {
    ring.list(None).iter().map(|entry| entry.record.request_id.to_string()).collect()
}

#[test]
fn the_newest_come_first_and_the_oldest_go() {
    let ring = Decisions::new(3);
    for id in ["1", "2", "3", "4", "5"] {
        push(&ring, id);
    }
    assert_eq!(ids(&ring), ["5", "4", "3"]);
}

#[test]
fn one_request_is_found_by_its_id_and_a_reused_id_gives_both() {
    let ring = Decisions::new(10);
    for id in ["a", "b", "a"] {
        push(&ring, id);
    }
    assert_eq!(ring.list(Some("b")).len(), 1);
    assert_eq!(ring.list(Some("a")).len(), 2);
    assert_eq!(ring.list(Some("gone")), []);
}

#[test]
fn a_smaller_ring_forgets_the_oldest_and_zero_keeps_nothing() {
    let ring = Decisions::new(4);
    for id in ["1", "2", "3", "4"] {
        push(&ring, id);
    }
    ring.resize(2);
    assert_eq!(ids(&ring), ["4", "3"]);
    push(&ring, "5");
    assert_eq!(ids(&ring), ["5", "4"]);
    ring.resize(0);
    push(&ring, "6");
    assert_eq!(ids(&ring), [""; 0]);
}

#[test]
fn an_entry_is_the_record_and_what_was_decided() {
    let ring = Decisions::new(1);
    let record = Arc::new(sample());
    let decision = Decision {
        verdicts: vec![
            VerdictRow {
                n: 1,
                plugin: Some("standard-classifier".into()),
                kind: FailureKind::RetryableTimeout,
                action: Action::Switch,
                breaker: BreakerEffect::Count,
            },
            VerdictRow {
                n: 2,
                plugin: None,
                kind: FailureKind::RetryableRateLimit,
                action: Action::RetrySame(None),
                breaker: BreakerEffect::Ignore,
            },
        ],
        scores: vec![ScoreRow {
            target: "a/m1".into(),
            router: "mine".into(),
            score: None,
            reason: Some("far".into()),
        }],
        response_tags: vec![("x-team".into(), "blue".into())],
    };
    ring.push(record.clone(), decision);
    let entry = serde_json::to_value(&*ring.list(None)[0]).expect("JSON");
    let mut expected = serde_json::to_value(&*record).expect("JSON");
    expected["verdicts"] = json!([
        {"n": 1, "plugin": "standard-classifier", "kind": "retryable_timeout", "action": "switch", "breaker": "count"},
        {"n": 2, "plugin": null, "kind": "retryable_rate_limit", "action": "retry_same", "breaker": "ignore"},
    ]);
    expected["scores"] = json!([{"target": "a/m1", "router": "mine", "score": null, "reason": "far"}]);
    expected["response_tags"] = json!({"x-team": "blue"});
    assert_eq!(entry, expected);
    assert_eq!(entry["event"], Value::Null, "`event` is of the log line");
}

#[test]
fn an_entry_has_a_bound_in_bytes() {
    let ring = Decisions::new(1);
    let long = "x".repeat(10_000);
    let score = ScoreRow {
        target: "a/m1".into(),
        router: "mine".into(),
        score: Some(1.0),
        reason: Some(long.clone()),
    };
    let decision = Decision {
        verdicts: Vec::new(),
        scores: vec![score; 5_000],
        response_tags: (0..1_000).map(|n| (format!("x-{n}"), long.clone())).collect(),
    };
    ring.push(Arc::new(sample()), decision);
    let bytes = serde_json::to_vec(&*ring.list(None)[0]).expect("JSON").len();
    assert!(bytes < 192 * 1024, "{bytes}");
}
