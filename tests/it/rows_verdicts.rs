//! What is decided is kept, also when nobody waits for it any more; and it can be looked up.

use crate::expect::has;
use crate::guests::guest;
use harness::prelude::*;

/// The decision of a response, as the admin page shows it.
async fn decision(x: &Case, r: &Response) -> Value {
    let id = r.request_id().expect("a request id");
    x.record(r).await;
    let page = x.gateway.admin_json(&format!("/debug/decisions?request_id={id}")).await;
    assert_eq!(page["decisions"].as_array().map(Vec::len), Some(1), "{page}");
    page["decisions"][0].clone()
}

#[tokio::test]
async fn the_tags_of_an_answer_are_kept_with_its_decision() {
    let x = Setup::new().set("/tags", json!({"names": {"route": "x-way", "attempts": "off"}})).start().await;
    x.a.queue(STATUS(503));
    let served = x.call("chat").await;
    served.answered();
    x.a.play(JSON(400, &json!({"error": {"message": "m", "type": "t", "code": "c"}})));
    let refused = x.plain("chat").await;
    for r in [&served, &refused] {
        let kept = decision(&x, r).await["response_tags"].clone();
        let kept = kept.as_object().unwrap_or_else(|| panic!("no tags kept of {r:?}"));
        assert!(kept.contains_key("x-way") && !kept.contains_key("x-sluice-attempts"), "{kept:?}");
        for (name, value) in kept {
            assert_eq!(r.header(name), value.as_str(), "{name} of {r:?}");
        }
        let shown = r.headers.iter().filter(|(name, _)| name.starts_with("x-sluice-") || name == "x-way");
        let missing: Vec<_> = shown.filter(|(name, _)| !kept.contains_key(name)).collect();
        // The one header of this kind that is the host's own.
        assert!(missing.iter().all(|(name, _)| name == "x-sluice-policy"), "{missing:?} of {kept:?}");
    }
    // What the classifier advised; that the route allows no retry is the host's own rule.
    let verdict = json!({"n": 1, "kind": "retryable_upstream", "plugin": "standard-classifier", "action": "retry_same", "breaker": "count"});
    has(&decision(&x, &served).await["verdicts"], &json!([verdict]));
    x.end().await;
}

#[tokio::test]
async fn a_verdict_runs_on_when_the_client_leaves_meanwhile() {
    let x = Setup::new()
        .file("plugins.d/slow.wasm", guest("slow-classifier"))
        .set("/plugins/headers", json!(["x-spin-classifier"]))
        .set("/plugins/deadline", "700ms")
        .start()
        .await;
    let latch = Latch::new();
    x.a.play([ROLE, TXT("one "), HOLD(&latch), CUT]);
    let mut client = x.call("chat").header("x-spin-classifier", "1").begin().await;
    client.contents(1).await;
    latch.open();
    // The stream has broken, and the classifier is at it until its deadline.
    assert!(x.a.wait(harness::PATIENCE, |up| up.active() == 0).await);
    client.pause(ms(150)).await;
    assert_eq!(client.response().errors().len(), 0, "{:?}", client.response());
    client.close();
    let record = x.gateway.wait_for_event("request", |_| true).await;
    let attempts = json!([{"target": "A/a1", "kind": "retryable_upstream"}]);
    has(&record, &json!({"outcome": "interrupted", "status_code": 200, "attempts": attempts}));
    x.breaker_is("A/a1", "closed", 1).await;
    x.metric_becomes("sluice_plugin_calls_total", &[("plugin", "slow"), ("result", "timeout")], 1.0).await;
    x.outcome("interrupted", 1).await;
    x.outcome("client_cancelled", 0).await;
    x.end().await;
}
