//! Worked cases: what opens a breaker, what must not, and who finds out that the target is back.

use crate::expect::{LATE, able_again, together};
use crate::guests::guest;
use harness::client::Client;
use harness::prelude::*;

#[tokio::test]
async fn b035_a_bad_request_does_not_open_the_circuit() {
    let x = Setup::new().start().await;
    let error = json!({"error": {"message": "this model takes 8192 tokens", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}});
    x.a.decide(move |attempt| (attempt.body.len() > 10 << 10).then(|| JSON(400, &error)));
    let long = json!([{"role": "user", "content": "x".repeat(11 << 10)}]);
    for n in 0..10 {
        let call = x.call("chat").set("messages", long.clone());
        let r = if n % 2 == 0 { call.await } else { call.plain().await };
        r.refused(400, "context_length_exceeded").route_tags(false).attempts(1);
        assert_eq!(r.error()["message"], "this model takes 8192 tokens");
        assert_eq!(r.error()["param"], "messages");
        x.calls([n + 1, 0, 0]);
    }
    x.breaker_is("A/a1", "closed", 0).await;
    x.call("chat").await.answered().tags("A/a1", false);
    x.end().await;
}

/// Fifty calls at once while the target may be probed: one of them is the probe, and it is still out when
/// the others have their answers.
async fn fifty(x: &Case, latch: &Latch) -> Vec<Response> {
    let (a, b) = (x.a.calls(), x.b.calls());
    able_again(x, "A/a1").await;
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..50 {
        clients.push(x.call("chat").begin().await);
    }
    let others = x.b.wait(harness::PATIENCE, |up| up.calls() == b + 49 && up.active() == 0).await;
    assert!(others, "the backup served {} of 49", x.b.calls() - b);
    assert_eq!(x.a.calls(), a + 1, "calls at the target while its probe runs");
    latch.open();
    together(clients.into_iter().map(|mut client| async move { client.finish().await })).await
}

#[tokio::test]
async fn b048_exactly_one_probe() {
    let limits = json!({"target": "A/a1", "attempt": "8s", "first_content": "8s"});
    let patient = || {
        Setup::new()
            .wide_gates()
            .set("/routes/chat/targets", json!([limits.clone(), "B/b1"]))
            .set("/routes/chat/budget", ms(20_000))
    };
    let x = patient().start().await;
    x.open_a().await;
    let latch = Latch::new();
    x.a.play([HOLD(&latch), OK]);
    let answers = fifty(&x, &latch).await;
    let probes = answers.iter().filter(|r| r.header("x-sluice-upstream") == Some("A"));
    assert_eq!(probes.count(), 1);
    for r in &answers {
        r.answered();
    }
    x.breaker_is("A/a1", "closed", 0).await;
    x.call("chat").await.answered().tags("A/a1", false);
    x.end().await;

    // Still failing: one call for each cool-down, and none in between.
    let x = patient().start().await;
    x.open_a().await;
    for round in 0..2 {
        let latch = Latch::new();
        x.a.play(JOIN([HOLD(&latch).into(), STATUS(503)]));
        for r in fifty(&x, &latch).await {
            r.answered().tags("B/b1", true);
        }
        assert_eq!(x.breaker("A/a1").await["state"], "open");
        for _ in 0..5 {
            x.call("chat").await.answered().tags("B/b1", true).attempts(1);
        }
        assert_eq!(x.a.calls(), 3 + round + 1);
    }
    x.end().await;
}

#[tokio::test]
async fn b049_the_probes_client_hangs_up() {
    let x = Setup::new().start().await;
    x.open_a().await;
    able_again(&x, "A/a1").await;
    x.a.play(SILENT);
    let probe = x.call("chat").begin().await;
    x.a.wait_for_attempts(4).await;
    probe.close();
    x.a.closed_within(3, ms(500) + LATE).await;
    x.outcome("client_cancelled", 1).await;
    assert_eq!(
        x.breaker("A/a1").await["state"],
        "half_open",
        "neither closed nor open for another cool-down"
    );
    x.a.healthy();
    x.call("chat").await.answered().tags("A/a1", false);
    x.breaker_is("A/a1", "closed", 0).await;
    x.calls([5, 3, 0]);
    x.end().await;
}

#[tokio::test]
async fn b049_the_probes_client_hangs_up_in_the_queue() {
    let x = Setup::new()
        .set("/upstreams/A/max_in_flight", 1)
        .set("/upstreams/A/models/a2", json!({}))
        .set("/upstreams/A/queue_wait", ms(20_000))
        .set(
            "/routes/busy",
            json!({"targets": ["A/a2"], "first_content": "20s", "attempt": "20s", "budget": "20s"}),
        )
        .start()
        .await;
    x.open_a().await;
    let latch = Latch::new();
    x.a.play_for("a2", [HOLD(&latch), OK]);
    let mut busy = x.call("busy").begin().await;
    x.a.wait_for_attempts(4).await;
    able_again(&x, "A/a1").await;
    let probe = x.call("chat").begin().await;
    let queue = [("gate", "upstream:A")];
    x.metric_becomes("sluice_gate_queue_depth", &queue, 1.0).await;
    probe.close();
    x.metric_becomes("sluice_gate_queue_depth", &queue, 0.0).await;
    x.outcome("client_cancelled", 1).await;
    latch.open();
    busy.finish().await.answered();
    x.call("chat").await.answered().tags("A/a1", false);
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn b049_a_plugin_traps_during_the_probe() {
    let x = Setup::new()
        .file("plugins.d/hostile.wasm", guest("hostile-router"))
        .set("/plugins/headers", json!(["x-trap"]))
        .start()
        .await;
    x.open_a().await;
    able_again(&x, "A/a1").await;
    x.call("chat").header("x-trap", "1").await.answered().tags("A/a1", false);
    let trapped = [("plugin", "hostile"), ("result", "trap")];
    x.metric_becomes("sluice_plugin_calls_total", &trapped, 1.0).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn b053_cancels_are_not_failures() {
    let x = Setup::new().start().await;
    for n in 0..20 {
        let before_headers = n < 10;
        x.a.play(if before_headers { Script::from(SILENT) } else { [ROLE, TXT("one "), SILENT].into() });
        let mut client = x.call("chat").begin().await;
        if before_headers {
            x.a.wait_for_attempts(n + 1).await;
        } else {
            client.contents(1).await;
        }
        if n % 2 == 0 {
            client.close()
        } else {
            client.reset()
        }
        x.a.closed_within(n, ms(500) + LATE).await;
    }
    x.outcome("client_cancelled", 20).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.a.healthy();
    x.call("chat").await.answered().tags("A/a1", false).attempts(1);
    x.calls([21, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn b057_all_targets_open() {
    let x = Setup::new()
        .edit(|config, _| config["routes"] = json!({"chat": {"targets": ["A/a1", "B/b1"]}}))
        .start()
        .await;
    x.a.play(STATUS(503));
    x.b.play(STATUS(503));
    for _ in 0..3 {
        x.call("chat").await.refused(503, "retryable_upstream");
    }
    let opened = now();
    for _ in 0..10 {
        let r = x.call("chat").await;
        r.refused(503, "no_healthy_target").attempts(0);
        assert!(r.took() < ms(50) + LATE, "{r:?}");
        let wait: u64 = r.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=2).contains(&wait), "{r:?}");
        assert_eq!(x.get("/readyz").await.status, 503);
    }
    x.calls([3, 3, 0]);
    x.a.healthy();
    x.b.healthy();
    able_again(&x, "A/a1").await;
    // The refused calls have not moved it. The opening itself lies a little before `opened`.
    let after = now() - opened;
    assert!(after >= ms(1500) && after <= ms(2000) + LATE, "able {after:?} after the opening");
    assert_eq!(x.get("/readyz").await.status, 200);
    x.call("chat").await.answered().tags("A/a1", false);
    x.calls([4, 3, 0]);
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn readiness_tells_callers_no_target_that_is_hidden_from_them() {
    for exposed in [true, false] {
        let x = Setup::new().set("/tags/expose_upstream", exposed).start().await;
        x.a.play(STATUS(503));
        for _ in 0..3 {
            x.call("solo").await;
        }
        x.a.healthy();
        x.breaker_is("A/a1", "open", 3).await;
        let blocked = |page: &Value| page["blocked"].as_array().unwrap().len();
        let page = x.get("/readyz").await.json();
        assert_eq!(
            (blocked(&page), page["routes"]["solo"].clone()),
            (usize::from(exposed), json!(0)),
            "{page}"
        );
        let page = x.gateway.admin_json("/readyz").await;
        assert_eq!(blocked(&page), 1, "operators see everything: {page}");
        x.end().await;
    }
}
