//! Rows 5 to 7: one budget for everything, and what a target leaves of it.

use crate::expect::{has, told};
use harness::prelude::*;

/// A budget of 3 s with 300 ms of it kept, of which the primary may use 1.8 s.
fn three_seconds() -> Setup {
    let limits = json!({"target": "A/a1", "attempt": "1800ms", "first_content": "1800ms"});
    Setup::new()
        .set("/routes/chat/targets", json!([limits, "B/b1"]))
        .set("/routes/chat/budget", ms(3000))
        .set("/routes/chat/reserve", ms(300))
}

#[tokio::test]
async fn row_05_a_silent_primary_leaves_its_time_to_the_backup() {
    for stream in [true, false] {
        let x = three_seconds().start().await;
        x.a.play(SILENT);
        let call = if stream { x.call("chat") } else { x.plain("chat") };
        let r = call.await;
        r.answered().tags("B/b1", true).attempts(2);
        x.near(r.head_took().unwrap(), ms(1800));
        assert_eq!(r.header("x-sluice-failure-kind"), Some("retryable_timeout"));
        let closed = x.closed_after(&x.a, 0, r.sent).await;
        x.near(closed, ms(1800));
        let record = x.record(&r).await;
        has(
            &record,
            &json!({
                "outcome": "fallback_success", "failure_kind": "retryable_timeout", "budget_ms": 3000,
                "attempts": [
                    {"target": "A/a1", "kind": "retryable_timeout", "status": null},
                    {"target": "B/b1", "kind": null, "status": 200},
                ],
            }),
        );
        // 2.7 s until the deadline, of which 1.8 s are gone.
        let left = record["budget_left_ms"].as_u64().unwrap();
        assert!((400..=900).contains(&left), "{record}");
        let took = record["attempts"][0]["ms"].as_u64().unwrap();
        assert!((1800..=2300).contains(&took), "{record}");
        let name = "sluice_budget_left_seconds";
        x.metric_becomes(&format!("{name}_count"), &[("model", "chat")], 1.0).await;
        let left = x.metric(&format!("{name}_sum"), &[("model", "chat")]).await;
        assert!((0.4..=0.9).contains(&left), "{left} s left at the switch");
        told(&x, &r, &[("provider_request_failed", "A/a1"), ("provider_fallback_succeeded", "B/b1")]);
        // The primary used up its own limit.
        x.breaker_is("A/a1", "closed", 1).await;
        x.calls([1, 1, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn row_06_a_late_failure_is_told_at_once_without_a_hopeless_second_attempt() {
    for stream in [true, false] {
        let x = Setup::new()
            .set("/routes/chat/budget", ms(3000))
            .set("/routes/chat/reserve", ms(300))
            .set("/routes/chat/attempt", ms(2600))
            .set("/routes/chat/first_content", ms(2600))
            .set("/routes/chat/min_budget", ms(1200))
            .start()
            .await;
        x.a.play(JOIN([SLEEP(1600).into(), STATUS(503)]));
        let call = if stream { x.call("chat") } else { x.plain("chat") };
        let r = call.await;
        r.refused(503, "retryable_upstream").route_tags(false).attempts(1);
        x.near(r.took(), ms(1600));
        let left = r.error()["budget_left_ms"].as_u64().unwrap();
        assert!((700..=1100).contains(&left), "{r:?}");
        let attempts = &json!([{"n": 1, "role": "primary", "target": "A/a1", "kind": "retryable_upstream", "status": 503}]);
        has(&r.error()["attempts"], attempts);
        let failed =
            json!({"outcome": "exhausted", "status_code": 503, "failure_kind": "retryable_upstream"});
        has(&x.record(&r).await, &failed);
        told(&x, &r, &[("provider_request_failed", "A/a1")]);
        x.metric_becomes("sluice_budget_left_seconds_count", &[], 0.0).await;
        x.outcome("exhausted", 1).await;
        x.breaker_is("A/a1", "closed", 1).await;
        x.calls([1, 0, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn row_07_two_silent_targets_end_with_the_budget() {
    for stream in [true, false] {
        let x = three_seconds().start().await;
        x.a.play(SILENT);
        x.b.play(SILENT);
        let call = if stream { x.call("chat") } else { x.plain("chat") };
        let r = call.await;
        r.refused(504, "budget_exhausted").route_tags(true).attempts(2);
        x.between(r.took(), ms(2700), ms(3000));
        assert_eq!(r.header("x-sluice-failure-kind"), Some("retryable_timeout"));
        has(
            &r.error()["attempts"],
            &json!([
                {"n": 1, "role": "primary", "target": "A/a1", "kind": "retryable_timeout", "status": null},
                {"n": 2, "role": "fallback", "target": "B/b1", "kind": "retryable_timeout", "status": null},
            ]),
        );
        let (a, b) = (x.closed_after(&x.a, 0, r.sent).await, x.closed_after(&x.b, 0, r.sent).await);
        x.near(a, ms(1800));
        x.between(b, ms(2700), ms(3000));
        let lost = json!({"outcome": "budget_exhausted", "status_code": 504, "budget_left_ms": 0, "latency_ms": null});
        has(&x.record(&r).await, &lost);
        told(&x, &r, &[("provider_request_failed", "A/a1"), ("provider_request_failed", "B/b1")]);
        x.outcome("budget_exhausted", 1).await;
        // The primary had its own limit; the backup was cut short by the deadline and is not to blame.
        x.breaker_is("A/a1", "closed", 1).await;
        x.breaker_is("B/b1", "closed", 0).await;
        x.calls([1, 1, 0]);
        x.end().await;
    }
}
