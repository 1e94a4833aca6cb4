//! Rows 1 to 4: what the client reads when the primary is well, fails before its first content, or breaks
//! after it.

use crate::expect::{has, own_bytes, told};
use harness::prelude::*;

/// Requests by outcome: these and no others.
async fn outcomes(x: &Case, want: &[(&str, f64)]) {
    for (outcome, count) in want {
        x.metric_becomes("sluice_requests_total", &[("outcome", outcome)], *count).await;
    }
    let total: f64 = want.iter().map(|(_, count)| count).sum();
    x.metric_becomes("sluice_requests_total", &[], total).await;
}

#[tokio::test]
async fn row_01_a_healthy_primary_answers_itself() {
    let x = Setup::new().start().await;
    for (stream, n) in [(true, 1), (false, 2)] {
        let call = if stream { x.call("chat") } else { x.plain("chat") };
        let r = call.await;
        r.answered().tags("A/a1", false).attempts(1);
        assert_eq!(r.header("x-sluice-model"), Some("chat"));
        assert_eq!(r.header("x-sluice-failure-kind"), None, "{r:?}");
        assert_eq!(r.body, own_bytes("A", "a1", stream, OK).await);
        let record = x.record(&r).await;
        has(
            &record,
            &json!({
                "model": "chat", "served_model": "a1", "upstream": "A", "route": "primary", "is_fallback": false,
                "degraded": false, "stream": stream, "status_code": 200, "outcome": "success", "failure_kind": null,
                "attempts": [{"n": 1, "target": "A/a1", "role": "primary", "kind": null, "status": 200}],
                "budget_ms": 5000,
            }),
        );
        assert_eq!(record["ttft_ms"].is_u64(), stream, "{record}");
        told(&x, &r, &[]);
        x.calls([n, 0, 0]);
    }
    outcomes(&x, &[("success", 2.0)]).await;
    x.metric_becomes(
        "sluice_attempts_total",
        &[("target", "A/a1"), ("role", "primary"), ("result", "ok")],
        2.0,
    )
    .await;
    x.metric_becomes("sluice_attempts_total", &[], 2.0).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

/// What every answer of the backup looks like, in headers, record, events and metrics.
async fn served_by_the_backup(x: &Case, r: &Response, status: Option<u16>, stream: bool) {
    r.answered().tags("B/b1", true).attempts(2);
    assert_eq!(r.header("x-sluice-failure-kind"), Some("retryable_upstream"));
    has(
        &x.record(r).await,
        &json!({
            "model": "chat", "served_model": "b1", "upstream": "B", "route": "fallback", "is_fallback": true,
            "degraded": true, "stream": stream, "status_code": 200, "outcome": "fallback_success",
            "failure_kind": "retryable_upstream",
            "attempts": [
                {"n": 1, "target": "A/a1", "role": "primary", "kind": "retryable_upstream", "status": status},
                {"n": 2, "target": "B/b1", "role": "fallback", "kind": null, "status": 200},
            ],
        }),
    );
    told(x, r, &[("provider_request_failed", "A/a1"), ("provider_fallback_succeeded", "B/b1")]);
    outcomes(x, &[("fallback_success", 1.0)]).await;
    for (event, target) in [("provider_request_failed", "A/a1"), ("provider_fallback_succeeded", "B/b1")] {
        let labels = [("event", event), ("target", target)];
        x.metric_becomes("sluice_provider_events_total", &labels, 1.0).await;
    }
    let failed = [("target", "A/a1"), ("kind", "retryable_upstream"), ("role", "primary")];
    x.metric_becomes("sluice_attempt_failures_total", &failed, 1.0).await;
    let served = [("target", "B/b1"), ("role", "fallback"), ("result", "ok")];
    x.metric_becomes("sluice_attempts_total", &served, 1.0).await;
    x.metric_becomes("sluice_budget_left_seconds_count", &[("model", "chat")], 1.0).await;
    x.breaker_is("A/a1", "closed", 1).await;
    x.calls([1, 1, 0]);
}

#[tokio::test]
async fn row_02_a_primary_503_is_a_whole_answer_of_the_backup() {
    let x = Setup::new().start().await;
    x.a.play(STATUS(503));
    let r = x.plain("chat").await;
    assert_eq!(r.body, own_bytes("B", "b1", false, OK).await);
    served_by_the_backup(&x, &r, Some(503), false).await;
    x.end().await;
}

#[tokio::test]
async fn row_03_a_primary_that_fails_before_content_leaves_no_byte_in_the_stream() {
    let failures: [(Script, Option<u16>); 4] = [
        (STATUS(503), Some(503)),
        (RST.into(), None),
        ([ERR(503), DONE].into(), Some(200)),
        ([ROLE, CUT].into(), Some(200)),
    ];
    for (script, status) in failures {
        let x = Setup::new().start().await;
        x.a.play(script);
        let r = x.call("chat").await;
        assert_eq!(r.body, own_bytes("B", "b1", true, OK).await, "{r:?}");
        served_by_the_backup(&x, &r, status, true).await;
        x.end().await;
    }
}

#[tokio::test]
async fn row_04_a_cut_after_content_is_shown_and_never_replayed() {
    let x = Setup::new().start().await;
    let half = [ROLE, TXT("one "), TXT("two ")];
    x.a.play([&half[..], &[CUT]].concat());
    let r = x.call("chat").await;
    r.broken_stream("one two ").tags("A/a1", false).attempts(1);
    assert_eq!(r.code(), "upstream_interrupted");
    let own = own_bytes("A", "a1", true, half).await;
    assert!(r.body.starts_with(&own), "not the primary's own bytes first: {r:?}");
    assert!(r.body[own.len()..].starts_with(b"data: {\"error\":{"), "{r:?}");
    has(
        &x.record(&r).await,
        &json!({
            "served_model": "a1", "upstream": "A", "route": "primary", "degraded": false, "status_code": 200,
            "outcome": "interrupted", "failure_kind": "retryable_upstream",
            "attempts": [{"target": "A/a1", "role": "primary", "kind": "retryable_upstream", "status": 200}],
        }),
    );
    told(&x, &r, &[("provider_stream_interrupted", "A/a1")]);
    outcomes(&x, &[("interrupted", 1.0)]).await;
    let interrupted = [("target", "A/a1"), ("reason", "upstream_interrupted")];
    x.metric_becomes("sluice_streams_interrupted_total", &interrupted, 1.0).await;
    let event = [("event", "provider_stream_interrupted"), ("target", "A/a1")];
    x.metric_becomes("sluice_provider_events_total", &event, 1.0).await;
    x.metric_becomes("sluice_attempts_total", &[("result", "ok")], 0.0).await;
    x.breaker_is("A/a1", "closed", 1).await;
    x.calls([1, 0, 0]);
    x.end().await;
}
