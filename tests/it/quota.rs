//! `quota` of an upstream: what routers are told as long as the provider tells nothing, counted from what was sent.

use harness::prelude::*;

async fn left(x: &Case, target: &str) -> Value {
    let page = x.gateway.admin_json("/debug/upstreams").await;
    let entry = page["targets"].as_array().unwrap().iter().find(|entry| entry["target"] == target);
    entry.unwrap_or_else(|| panic!("no {target} in {page}"))["quota_left"].clone()
}

/// Settling is done when the books are closed, a moment after the answer.
async fn becomes(x: &Case, target: &str, share: f64) {
    let close = async || left(x, target).await.as_f64().is_some_and(|left| (left - share).abs() < 1e-9);
    assert!(
        x.poll(harness::PATIENCE, close).await,
        "{target}: {} is left, not {share}",
        left(x, target).await
    );
}

#[tokio::test]
async fn requests_count_against_all_models_of_the_upstream_and_refuse_nobody() {
    let mut x = Setup::new()
        .set("/upstreams/A/quota", json!({"requests_per_minute": 4}))
        .set("/upstreams/A/models/a2", json!({}))
        .set("/routes/second", json!({"targets": ["A/a2"]}))
        .start()
        .await;
    assert_eq!(left(&x, "B/b1").await, Value::Null);
    becomes(&x, "A/a1", 1.0).await;
    x.call("chat").await.answered();
    x.plain("second").await.answered();
    becomes(&x, "A/a1", 0.5).await;
    becomes(&x, "A/a2", 0.5).await;
    // Routers see it.
    let r = x.call("chat").await;
    let record = x.record(&r).await;
    let facts = |n: usize| &record["decision"][n]["facts"]["quota_left"];
    assert_eq!(
        (&record["decision"][0]["target"], facts(0), facts(1)),
        (&json!("A/a1"), &json!(0.5), &Value::Null)
    );
    for _ in 0..3 {
        x.call("solo").await.answered().tags("A/a1", false);
    }
    becomes(&x, "A/a1", 0.0).await;
    // Another limit holds in place; what was sent stays sent.
    x.change("/upstreams/A/quota", json!({"requests_per_minute": 12}));
    x.reloaded(1).await;
    becomes(&x, "A/a1", 0.5).await;
    x.change("/upstreams/A/quota", json!({}));
    x.reloaded(2).await;
    assert_eq!(left(&x, "A/a1").await, Value::Null);
    x.end().await;
}

#[tokio::test]
async fn tokens_count_as_estimated_while_a_call_runs_and_as_they_were_after_it() {
    let x = Setup::new().set("/upstreams/A/quota", json!({"tokens_per_minute": 1000})).start().await;
    let latch = Latch::new();
    x.a.queue([ROLE, TXT("one "), HOLD(&latch), TXT("two three"), FIN("stop"), USAGE, DONE]);
    let mut running = x.call("chat").set("max_tokens", 400).begin().await;
    running.contents(1).await;
    let now = left(&x, "A/a1").await.as_f64().unwrap();
    assert!((0.5..0.6).contains(&now), "{now} is left while it runs");
    latch.open();
    running.finish().await.answered();
    becomes(&x, "A/a1", 0.992).await;
    // A failure has generated nothing.
    x.a.queue(STATUS(503));
    x.call("chat").set("max_tokens", 400).await.answered().tags("B/b1", true);
    becomes(&x, "A/a1", 0.992).await;
    // A client that leaves has used what had come.
    x.a.queue([ROLE, TXT("12345678"), SILENT]);
    let mut leaving = x.call("chat").set("max_tokens", 400).begin().await;
    leaving.contents(1).await;
    leaving.close();
    let settled = async || left(&x, "A/a1").await.as_f64().is_some_and(|left| (0.97..0.992).contains(&left));
    assert!(x.poll(harness::PATIENCE, settled).await, "{}", left(&x, "A/a1").await);
    x.end().await;
}

#[tokio::test]
async fn what_the_provider_tells_is_better_known_than_what_we_count() {
    let x = Setup::new().set("/upstreams/A/quota", json!({"requests_per_minute": 4})).start().await;
    let whole = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": HEALTHY_TEXT}, "finish_reason": "stop"}]});
    let told = [
        ("content-type", "application/json"),
        ("x-ratelimit-limit-requests", "100"),
        ("x-ratelimit-remaining-requests", "90"),
    ];
    x.a.queue(WITH(200, &told, whole.to_string()));
    x.plain("chat").await.answered();
    becomes(&x, "A/a1", 0.9).await;
    x.end().await;
}
