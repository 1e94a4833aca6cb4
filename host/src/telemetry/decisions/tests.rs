use serde_json::{Value, json};

use super::*;
use crate::telemetry::record::tests::sample;
use crate::telemetry::record::{Record, line};

fn push(ring: &Decisions, id: &str) {
    let mut record = sample();
    record.request_id = id.into();
    ring.push(entry(&record, Decision::default()));
}

fn entry(record: &Record, decision: Decision) -> Entry {
    Entry::new(line(record), &record.request_id, decision)
}

fn shown(entry: &Entry) -> Value {
    serde_json::to_value(entry).expect("JSON")
}

fn found(ring: &Decisions, wanted: &Wanted<'_>) -> Vec<String> {
    let id = |entry: &Entry| shown(entry)["request_id"].as_str().expect("a text").to_owned();
    ring.list(wanted).entries.iter().map(id).collect()
}

fn ids(ring: &Decisions) -> Vec<String> {
    found(ring, &Wanted::default())
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
    for (id, count) in [("b", 1), ("a", 2), ("gone", 0)] {
        let wanted = Wanted { request_id: Some(id), ..Wanted::default() };
        assert_eq!(found(&ring, &wanted).len(), count, "{id}");
    }
}

#[test]
fn a_reader_that_comes_back_is_given_what_is_new_and_never_misses_any() {
    let ring = Decisions::new(3);
    push(&ring, "1");
    let first = ring.list(&Wanted::default()).next;
    assert_eq!(found(&ring, &Wanted { after: Some(&first), ..Wanted::default() }), [""; 0]);
    push(&ring, "2");
    push(&ring, "3");
    let after = Wanted { after: Some(&first), ..Wanted::default() };
    assert_eq!(found(&ring, &after), ["3", "2"]);
    assert_eq!(found(&ring, &Wanted { limit: Some(1), ..after }), ["3"]);
    for id in ["4", "5", "6"] {
        push(&ring, id);
    }
    assert_eq!(found(&ring, &after), ["6", "5", "4"], "what is gone is not there again");
    let other = Decisions::new(3).list(&Wanted::default()).next;
    for cursor in [other.as_str(), "", "-", "x-1", "0-18446744073709551615", &format!("{first}0")] {
        let all = found(&ring, &Wanted { after: Some(cursor), ..Wanted::default() });
        assert_eq!(all, ["6", "5", "4"], "{cursor}: a cursor of another process means nothing");
    }
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
    let record = sample();
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
        response_tags: vec![("x-team".into(), "blue \"b\"".into()), ("x-area".into(), "1".into())],
    };
    ring.push(entry(&record, decision));
    let entries = ring.list(&Wanted::default()).entries;
    let text = serde_json::to_string(&entries[0]).expect("JSON");
    assert!(
        text.ends_with(r#""response_tags":{"x-area":"1","x-team":"blue \"b\""}}"#),
        "in the order of names: {text}"
    );
    let entry = shown(&entries[0]);
    let mut expected = serde_json::to_value(&record).expect("JSON");
    expected["verdicts"] = json!([
        {"n": 1, "plugin": "standard-classifier", "kind": "retryable_timeout", "action": "switch", "breaker": "count"},
        {"n": 2, "plugin": null, "kind": "retryable_rate_limit", "action": "retry_same", "breaker": "ignore"},
    ]);
    expected["scores"] = json!([{"target": "a/m1", "router": "mine", "score": null, "reason": "far"}]);
    expected["response_tags"] = json!({"x-team": "blue \"b\"", "x-area": "1"});
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
    ring.push(entry(&sample(), decision));
    let bytes = serde_json::to_vec(&ring.list(&Wanted::default()).entries[0]).expect("JSON").len();
    assert!(bytes < 192 * 1024, "{bytes}");
}
