use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use sluice_core::facts::{BreakerState, PluginKind};

use super::*;

/// A record in which every field says something.
pub(crate) fn sample() -> Record {
    Record {
        time: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        request_id: "req-1".into(),
        caller: Some("team".into()),
        endpoint: "/v1/chat/completions".into(),
        model: Some("chat".into()),
        served: Some(Served { target: "b/m2".into(), upstream: "b".into(), model: "m2".into() }),
        role: Role::Fallback,
        stream: true,
        status: 200,
        outcome: Outcome::FallbackSuccess,
        failure_kind: Some(FailureKind::RetryableTimeout),
        latency: Some(Duration::from_micros(1_499_600)),
        ttft: Some(Duration::from_micros(1_500_400)),
        duration: Duration::from_millis(2_000),
        attempts: vec![
            AttemptRecord {
                n: 1,
                target: "a/m1".into(),
                role: Role::Primary,
                kind: Some(FailureKind::RetryableTimeout),
                status: Some(504),
                began: Duration::from_millis(5),
                took: Duration::from_millis(1_000),
                ttft: None,
                upstream_request_id: None,
            },
            AttemptRecord {
                n: 2,
                target: "b/m2".into(),
                role: Role::Fallback,
                kind: None,
                status: Some(200),
                began: Duration::from_millis(1_005),
                took: Duration::from_millis(500),
                ttft: Some(Duration::from_millis(500)),
                upstream_request_id: Some("up-2".into()),
            },
        ],
        budget: Duration::from_secs(30),
        budget_left: Duration::from_millis(28_500),
        tokens: Some(Usage { input: 11, output: 22, estimated: false }),
        max_tokens_lowered: Some(256),
        generation: 7,
        plugins: vec![PluginRef {
            name: "weighted-router".into(),
            kind: PluginKind::Router,
            digest: "abcd".into(),
        }],
        decision: Some(vec![Choice {
            target: "a/m1".into(),
            score: Some(0.75),
            reason: Some("cheap".into()),
            facts: Candidate {
                target: 0,
                health: 1.0,
                samples: 3,
                latency_p50_ms: Some(10.5),
                latency_p95_ms: None,
                first_content_p50_ms: None,
                first_content_p95_ms: None,
                in_flight: 1,
                capacity: 64,
                quota_left: Some(0.5),
                cool_down_ms: 0,
                breaker: BreakerState::Closed,
                failures: 0,
                tried: false,
            },
        }]),
        tags: BTreeMap::from([("team".into(), "blue".into())]),
    }
}

fn json(record: &Record) -> Value {
    serde_json::from_slice(line(record).written()).expect("a record that is not JSON")
}

#[test]
fn the_line_has_every_field_of_the_reference_and_no_other() {
    let expected = concat!(
        r#"{"event":"request","time":"2023-11-14T22:13:20.123Z","request_id":"req-1","caller":"team","#,
        r#""endpoint":"/v1/chat/completions","model":"chat","served_model":"m2","upstream":"b","#,
        r#""route":"fallback","is_fallback":true,"degraded":true,"stream":true,"#,
        r#""status_code":200,"outcome":"fallback_success","failure_kind":"retryable_timeout","#,
        r#""latency_ms":1500,"ttft_ms":1500,"duration_ms":2000,"attempts":["#,
        r#"{"n":1,"target":"a/m1","role":"primary","kind":"retryable_timeout","status":504,"start_ms":5,"ms":1000,"#,
        r#""ttft_ms":null,"upstream_request_id":null},"#,
        r#"{"n":2,"target":"b/m2","role":"fallback","kind":null,"status":200,"start_ms":1005,"ms":500,"#,
        r#""ttft_ms":500,"upstream_request_id":"up-2"}],"#,
        r#""budget_ms":30000,"budget_left_ms":28500,"tokens":{"input":11,"output":22,"source":"upstream"},"#,
        r#""max_tokens_lowered":256,"generation":7,"#,
        r#""plugins":[{"name":"weighted-router","kind":"router","digest":"abcd"}],"#,
        r#""decision":[{"target":"a/m1","score":0.75,"reason":"cheap","facts":{"health":1.0,"samples":3,"#,
        r#""latency_p50_ms":10.5,"latency_p95_ms":null,"first_content_p50_ms":null,"first_content_p95_ms":null,"#,
        r#""in_flight":1,"capacity":64,"quota_left":0.5,"cool_down_ms":0,"breaker":"closed","failures":0,"#,
        r#""tried":false}}],"tags":{"team":"blue"}}"#,
    );
    assert_eq!(String::from_utf8(line(&sample()).finish()).expect("text"), expected);
}

#[test]
fn a_record_of_nothing_keeps_its_fields_as_nulls() {
    let record = Record {
        caller: None,
        model: None,
        served: None,
        role: Role::Primary,
        failure_kind: None,
        latency: None,
        ttft: None,
        attempts: Vec::new(),
        tokens: None,
        max_tokens_lowered: None,
        plugins: Vec::new(),
        decision: None,
        tags: BTreeMap::new(),
        ..sample()
    };
    let line = json(&record);
    let full = json(&sample());
    let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&line), names(&full));
    for name in [
        "caller",
        "model",
        "served_model",
        "upstream",
        "failure_kind",
        "latency_ms",
        "ttft_ms",
        "tokens",
        "max_tokens_lowered",
        "decision",
    ] {
        assert_eq!(line[name], Value::Null, "{name}");
    }
    assert_eq!(
        (&line["route"], &line["is_fallback"], &line["degraded"]),
        (&json!("primary"), &json!(false), &json!(false))
    );
    assert_eq!((&line["attempts"], &line["plugins"], &line["tags"]), (&json!([]), &json!([]), &json!({})));
}

#[test]
fn the_text_line_is_one_line_whatever_the_client_wrote() {
    let mut record = sample();
    record.model = Some("a b\nlevel=ERROR \"x\"".into());
    let text = String::from_utf8(record.text()).expect("text");
    assert_eq!(
        text,
        "2023-11-14T22:13:20.123Z  INFO request request_id=req-1 caller=team model=\"a b\\nlevel=ERROR \\\"x\\\"\" served=b/m2 \
         route=fallback status_code=200 outcome=fallback_success failure_kind=retryable_timeout attempts=2 latency_ms=1500 \
         ttft_ms=1500 duration_ms=2000 tokens_in=11 tokens_out=22"
    );
}

#[test]
fn what_others_wrote_is_cut_between_characters() {
    let long = "é".repeat(100_000);
    let mut record = sample();
    record.model = Some(long.as_str().into());
    record.endpoint = long.clone().into();
    record.attempts =
        vec![AttemptRecord { upstream_request_id: Some(long.clone()), ..record.attempts[0].clone() }; 1000];
    let choice =
        Choice { reason: Some(long.clone()), ..record.decision.clone().expect("a decision")[0].clone() };
    record.decision = Some(vec![choice; 1000]);
    record.tags = (0..1000).map(|n| (format!("tag{n}"), long.clone())).collect();
    record.tags.insert(long.clone(), "x".into());
    record.bound();
    let length = line(&record).written().len();
    assert!(length < 256 * 1024, "{length} bytes");
    assert_eq!(record.model.as_deref(), Some("é".repeat(128).as_str()));
    assert!(!record.tags.contains_key(&long));
    // All that a tagger may say is kept.
    assert_eq!(record.tags["tag0"], "é".repeat(512));
    let mut shown = vec![("tag0".to_owned(), long)];
    super::bound_list(&mut shown);
    assert_eq!(shown[0].1, "é".repeat(512));
}
