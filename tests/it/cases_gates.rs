//! Worked cases: places that are given back on every path, and clients that leave in mid-stream.

use crate::expect::{LATE, has, together};
use harness::prelude::*;

/// A healthy answer whose body ends with its end marker. From the marker on the place is free, so that the
/// pause of `OK` before the end of the body would count as an exchange too many.
fn whole() -> Vec<Step> {
    vec![ROLE, TXT("one "), SLEEP(10), TXT("two "), TXT("three"), FIN("stop"), DONE]
}

/// Where a client of the abort case leaves.
const POINTS: [&str; 5] = ["at once", "before headers", "after role", "in mid-stream", "at done"];

/// One call whose client leaves there.
async fn leaves(call: harness::call::Call, point: &str, n: usize) {
    let mut client = call.begin().await;
    match point {
        "at once" => {}
        "before headers" | "after role" => client.pause(ms(5 + (n as u64 * 7) % 40)).await,
        "in mid-stream" => {
            client.contents(1 + n % 2).await;
        }
        _ => {
            client.read_until(harness::PATIENCE, |r| r.dones() == 1).await;
            assert_eq!(client.response().dones(), 1, "{:?}", client.response());
        }
    }
    if n.is_multiple_of(2) { client.close() } else { client.reset() }
}

async fn no_gauge_is_negative(x: &Case) {
    let metrics = x.metrics().await;
    for name in ["sluice_gate_in_flight", "sluice_gate_queue_depth"] {
        for sample in metrics.all(name, &[]) {
            assert!(sample.value >= 0.0, "{sample:?}");
        }
    }
}

async fn aborts(x: &Case, from: usize, to: usize) {
    for first in (from..to).step_by(8) {
        let batch = (first..(first + 8).min(to)).map(|n| {
            let point = POINTS[(n * 3 + n / 5) % POINTS.len()];
            leaves(x.call("solo").set("user", point), point, n)
        });
        together(batch).await;
        no_gauge_is_negative(x).await;
    }
}

/// Four calls that have a place, ten that wait for one: whoever comes then is refused.
async fn fifty_refused(x: &Case) {
    x.metric_becomes("sluice_gate_in_flight", &[("gate", "upstream:A")], 0.0).await;
    let (latch, before) = (Latch::new(), x.a.calls());
    let held = latch.clone();
    x.a.decide(move |_| Some([&[HOLD(&held)], &whole()[..]].concat().into()));
    let mut running = Vec::new();
    for _ in 0..14 {
        running.push(x.call("solo").begin().await);
    }
    x.metric_becomes("sluice_gate_queue_depth", &[("gate", "upstream:A")], 10.0).await;
    // Those that have a place are on their way by now.
    x.a.wait_for_attempts(before + 4).await;
    assert_eq!(x.a.calls(), before + 4);
    let refused = together((0..50).map(|_| x.call("solo")).map(|call| async move { call.await })).await;
    for r in refused {
        r.refused(503, "queue_full").attempts(0);
    }
    no_gauge_is_negative(x).await;
    latch.open();
    for r in together(running.into_iter().map(|mut client| async move { client.finish().await })).await {
        r.answered();
    }
}

#[tokio::test]
async fn b058_aborted_streams_give_their_slot_back() {
    let x = Setup::new()
        .set("/gates/max_in_flight", 100)
        .set("/gates/queue_wait", ms(20_000))
        .set("/upstreams/A/max_in_flight", 4)
        .set("/routes/solo", json!({"targets": ["A/a1"], "budget": "20s", "idle": "20s", "attempt": "20s", "first_content": "20s"}))
        .start()
        .await;
    let play = |attempt: &Attempt| {
        let script: Script = match attempt.json()["user"].as_str() {
            Some("before headers") => SILENT.into(),
            Some("after role") => [ROLE, SILENT].into(),
            Some("in mid-stream") => [ROLE, TXT("one "), TXT("two "), SILENT].into(),
            _ => whole().into(),
        };
        Some(script)
    };
    x.a.decide(play);
    aborts(&x, 0, 150).await;
    fifty_refused(&x).await;
    x.a.decide(play);
    aborts(&x, 150, 300).await;
    x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    x.metric_becomes("sluice_gate_queue_depth", &[], 0.0).await;
    let refused = [("gate", "upstream:A"), ("reason", "queue_full")];
    x.metric_becomes("sluice_gate_refused_total", &refused, 50.0).await;
    // Every place is there again: four calls at once have one, and nobody waits.
    let latch = Latch::new();
    let held = latch.clone();
    x.a.decide(move |_| Some([&[HOLD(&held)], &whole()[..]].concat().into()));
    let (before, mut four) = (x.a.calls(), Vec::new());
    for _ in 0..4 {
        four.push(x.call("solo").begin().await);
    }
    x.a.wait_for_attempts(before + 4).await;
    x.metric_becomes("sluice_gate_in_flight", &[("gate", "upstream:A")], 4.0).await;
    latch.open();
    for mut client in four {
        client.finish().await.answered();
    }
    assert!(x.a.peak() <= 4, "the upstream had {} calls at a time", x.a.peak());
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn b064_the_client_leaves_in_mid_stream() {
    let talking: Vec<Step> = (0..600).flat_map(|_| [TXT("more "), SLEEP(50)]).collect();
    let talking: Script = [&[ROLE], &talking[..]].concat().into();
    let quiet: Script = [ROLE, TXT("one "), SILENT].into();
    for (script, contents, reset) in
        [(talking.clone(), 3, true), (quiet.clone(), 1, false), (quiet, 1, true), (talking, 3, false)]
    {
        let x = Setup::new().set("/defaults/idle", ms(20_000)).start().await;
        x.a.play(script);
        let mut client = x.call("chat").begin().await;
        client.contents(contents).await;
        let left = now();
        if reset {
            client.reset()
        } else {
            client.close()
        }
        let closed = x.closed_after(&x.a, 0, left).await;
        assert!(closed <= ms(500) + LATE, "the upstream worked on for {closed:?}");
        let record = x.gateway.wait_for_event("request", |_| true).await;
        has(
            &record,
            &json!({"status_code": 499, "outcome": "client_cancelled", "tokens": {"source": "estimated"}}),
        );
        assert!(record["tokens"]["output"].as_u64().is_some_and(|tokens| tokens > 0), "{record}");
        x.metric_becomes("sluice_requests_total", &[("status", "499")], 1.0).await;
        x.metric_becomes("sluice_requests_total", &[], 1.0).await;
        x.breaker_is("A/a1", "closed", 0).await;
        x.calls([1, 0, 0]);
        x.end().await;
    }
}
