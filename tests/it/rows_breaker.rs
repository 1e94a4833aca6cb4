//! Rows 9 to 11: a primary that is down costs little, one probe finds out when it is back, and with nobody
//! left the truth is told at once.

use crate::expect::{LATE, able_again, has, together};
use harness::prelude::*;

/// Counted in the harness's own log, which has one line for each.
fn count(x: &Case, event: &str, target: &str) -> usize {
    x.gateway.events(event).iter().filter(|line| line["target"] == target).count()
}

#[tokio::test]
async fn row_09_a_primary_that_is_down_is_left_alone_and_nobody_notices() {
    let x = Setup::new().start().await;
    x.a.play(STATUS(503));
    let began = now();
    for round in 0..10 {
        let calls = (0..10).map(|n| if n % 2 == 0 { x.call("chat") } else { x.plain("chat") });
        let answers = together(calls.map(|call| async move { call.await })).await;
        for r in &answers {
            r.answered().tags("B/b1", true);
        }
        assert_eq!(x.b.calls(), (round + 1) * 10, "an answer that is not the backup's own");
    }
    let probes = count(&x, "breaker_half_open", "A/a1");
    let cool_downs = usize::try_from((now() - began).as_millis() / 2000).unwrap();
    assert!(probes <= cool_downs, "{probes} probes in {cool_downs} cool-downs");
    // Three open it; nine others may have been on their way.
    let calls = x.a.calls();
    assert!(
        (3..=3 + 9 + probes).contains(&calls),
        "the primary saw {calls} attempts, {probes} of them probes"
    );
    x.outcome("fallback_success", 100).await;
    x.metric_becomes("sluice_requests_total", &[], 100.0).await;
    let served = [("event", "provider_fallback_succeeded"), ("target", "B/b1")];
    x.metric_becomes("sluice_provider_events_total", &served, 100.0).await;
    x.metric_becomes("sluice_provider_events_total", &[("event", "provider_request_failed")], calls as f64)
        .await;
    let open = x.breaker("A/a1").await;
    assert!(open["state"] == "open" || open["state"] == "half_open", "{open}");
    x.end().await;
}

#[tokio::test]
async fn row_10_one_of_fifty_is_the_probe_and_nobody_waits_for_it() {
    let limits = json!({"target": "A/a1", "attempt": "8s", "first_content": "8s"});
    let x = Setup::new()
        .wide_gates()
        .set("/routes/chat/targets", json!([limits, "B/b1"]))
        .set("/routes/chat/budget", ms(20_000))
        .start()
        .await;
    x.open_a().await;
    let (a, b) = (x.a.calls(), x.b.calls());
    let latch = Latch::new();
    x.a.play([HOLD(&latch), OK]);
    able_again(&x, "A/a1").await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(x.call("chat").begin().await);
    }
    // The probe is held until the others have their answers.
    let others = x.b.wait(harness::PATIENCE, |up| up.calls() == b + 49 && up.active() == 0).await;
    assert!(others, "the backup served {} of 49", x.b.calls() - b);
    assert_eq!(x.a.calls(), a + 1, "calls at the primary while its probe runs");
    assert_eq!(x.breaker("A/a1").await["state"], "half_open");
    latch.open();
    let answers = together(clients.into_iter().map(|mut client| async move { client.finish().await })).await;
    let (probe, rest): (Vec<_>, Vec<_>) =
        answers.iter().partition(|r| r.header("x-sluice-upstream") == Some("A"));
    assert_eq!((probe.len(), rest.len()), (1, 49));
    probe[0].answered().tags("A/a1", false);
    for r in rest {
        r.answered().tags("B/b1", true).attempts(1);
    }
    x.breaker_is("A/a1", "closed", 0).await;
    assert_eq!(x.a.calls(), a + 1);
    for event in ["provider_probe_succeeded", "provider_recovered"] {
        x.metric_becomes("sluice_provider_events_total", &[("event", event), ("target", "A/a1")], 1.0).await;
    }
    for (to, times) in [("open", 1.0), ("half_open", 1.0), ("closed", 1.0)] {
        x.metric_becomes("sluice_breaker_transitions_total", &[("target", "A/a1"), ("to", to)], times).await;
    }
    x.plain("chat").await.answered().tags("A/a1", false);
    x.end().await;
}

#[tokio::test]
async fn row_11_with_everything_open_the_truth_costs_no_upstream_call() {
    let x = Setup::new()
        .edit(|config, _| config["routes"] = json!({"chat": {"targets": ["A/a1", "B/b1"]}}))
        .start()
        .await;
    assert_eq!(x.get("/readyz").await.status, 200);
    x.a.play(STATUS(503));
    x.b.play(STATUS(500));
    for _ in 0..3 {
        x.plain("chat").await.refused(502, "retryable_upstream").attempts(2);
    }
    x.breaker_is("A/a1", "open", 3).await;
    x.breaker_is("B/b1", "open", 3).await;
    for n in 0..10 {
        let r = if n % 2 == 0 { x.call("chat").await } else { x.plain("chat").await };
        r.refused(503, "no_healthy_target").route_tags(false).attempts(0);
        assert!(r.took() < ms(50) + LATE, "{r:?}");
        let skipped = json!({"outcome": "exhausted", "attempts": [], "upstream": null, "served_model": null});
        has(&x.record(&r).await, &skipped);
    }
    x.calls([3, 3, 0]);
    let page = x.get("/readyz").await;
    assert_eq!(page.status, 503);
    has(&page.json(), &json!({"ready": false, "reason": "no_target", "routes": {"chat": 0}}));
    let mut blocked = page.json()["blocked"].as_array().unwrap().clone();
    blocked.sort_by_key(|entry| entry["target"].as_str().map(str::to_owned));
    has(&json!(blocked), &json!([{"target": "A/a1", "why": "open"}, {"target": "B/b1", "why": "open"}]));
    x.a.healthy();
    x.b.healthy();
    let ready = x.poll(harness::PATIENCE, async || x.get("/readyz").await.status == 200).await;
    assert!(ready, "not ready again after the cool-down");
    x.plain("chat").await.answered();
    x.end().await;
}
