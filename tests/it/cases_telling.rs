//! Worked cases: who answered, and how it ended, is told as it was.

use crate::expect::has;
use harness::prelude::*;

#[tokio::test]
async fn b084_who_really_answered() {
    let x = Setup::new().set("/breaker/consecutive", 1000).start().await;
    let reported = "b1-2026-01-31";
    let chunk = |delta: Value, finish: Value| {
        EVENT(
            &json!({"id": "x", "model": reported, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}),
        )
    };
    let stream = [
        chunk(json!({"role": "assistant", "content": ""}), Value::Null),
        chunk(json!({"content": "one two three"}), Value::Null),
        chunk(json!({}), "stop".into()),
        DONE,
    ];
    let message = json!({"role": "assistant", "content": "one two three"});
    let whole = json!({"id": "x", "object": "chat.completion", "model": reported, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    x.a.play(STATUS(503));
    for streaming in [true, false] {
        x.b.play(if streaming { Script::from(stream.clone()) } else { JSON(200, &whole) });
        let r = if streaming { x.call("chat").await } else { x.plain("chat").await };
        r.answered().tags("B/b1", true).attempts(2);
        assert_eq!(r.header("x-sluice-model"), Some("chat"));
        assert_eq!(r.header("x-sluice-failure-kind"), Some("retryable_upstream"));
        let models: Vec<_> = if streaming {
            r.events[..3].iter().map(|event| event.json()["model"].clone()).collect()
        } else {
            vec![r.json()["model"].clone()]
        };
        assert!(models.iter().all(|model| model == reported), "{models:?}");
    }
    x.b.play(STATUS(500));
    let r = x.call("chat").await;
    r.refused(502, "retryable_upstream").route_tags(true).attempts(2);
    assert_eq!(r.header("x-sluice-model"), Some("chat"));
    assert_eq!(r.header("x-sluice-failure-kind"), Some("retryable_upstream"));
    assert!(r.header("x-sluice-latency-ms").is_some() && r.header("x-sluice-policy").is_some(), "{r:?}");
    x.a.healthy();
    for call in [x.call("chat"), x.plain("chat")] {
        let r = call.await;
        r.answered().tags("A/a1", false).attempts(1);
        assert_eq!(r.header("x-sluice-failure-kind"), None);
    }
    x.end().await;
}

#[tokio::test]
async fn b087_a_200_that_was_not_a_success() {
    let x = Setup::new()
        .set("/breaker/consecutive", 1000)
        .set("/upstreams/A/max_in_flight", 1)
        .set("/upstreams/A/queue", 0)
        .start()
        .await;
    // Headers come at once and content late: the time to first token is that of the content.
    let late = [SSE, SLEEP(200), ROLE];
    let script = |rest: &[Step]| Script::from([&late[..], rest].concat());
    for _ in 0..10 {
        x.a.play(script(&[OK]));
        x.record(x.call("solo").await.answered()).await;
        x.a.play(script(&[TXT("one "), CUT]));
        x.record(x.call("solo").await.broken_stream("one ")).await;
        x.a.play(STATUS(503));
        x.record(x.call("solo").await.refused(503, "retryable_upstream")).await;
        x.record(x.call("chat").await.answered().tags("B/b1", true)).await;
        x.a.play(script(&[TXT("one "), SILENT]));
        let mut leaving = x.call("solo").begin().await;
        leaving.contents(1).await;
        // Its place is taken, and there is no queue.
        x.record(x.call("solo").await.refused(503, "queue_full")).await;
        let id = leaving.response().request_id().unwrap().to_owned();
        leaving.close();
        let record = x.gateway.wait_for_event("request", |record| record["request_id"] == id.as_str()).await;
        has(&record, &json!({"status_code": 499, "outcome": "client_cancelled"}));
        x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    }
    let outcomes = ["success", "interrupted", "client_cancelled", "refused", "exhausted", "fallback_success"];
    for outcome in outcomes {
        x.outcome(outcome, 10).await;
    }
    x.metric_becomes("sluice_requests_total", &[], 60.0).await;
    x.metric_becomes("sluice_request_duration_seconds_count", &[], 60.0).await;
    for outcome in outcomes {
        x.metric_becomes("sluice_request_duration_seconds_count", &[("outcome", outcome)], 10.0).await;
    }
    // Content was sent in four of the six.
    let name = "sluice_time_to_first_token_seconds";
    x.metric_becomes(&format!("{name}_count"), &[], 40.0).await;
    x.metric_becomes(&format!("{name}_count"), &[("fallback", "true")], 10.0).await;
    let sum = x.metric(&format!("{name}_sum"), &[("fallback", "false")]).await;
    assert!(sum >= 30.0 * 0.2, "{sum} s for thirty streams whose content came after 200 ms each");
    x.end().await;
}
