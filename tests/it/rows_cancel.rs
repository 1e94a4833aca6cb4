//! Row 12: a client that leaves, wherever its call is, stops everything that was done for it; nobody is
//! blamed.

use std::time::Instant;

use crate::expect::{GONE, LATE, has, no_more_than};
use harness::client::Client;
use harness::prelude::*;

/// Both ways of leaving.
#[derive(Debug, Clone, Copy)]
enum Leave {
    Fin,
    Reset,
}

const BOTH: [Leave; 2] = [Leave::Fin, Leave::Reset];

impl Leave {
    fn now(self, client: Client) -> Instant {
        let left = now();
        match self {
            Self::Fin => client.close(),
            Self::Reset => client.reset(),
        }
        left
    }
}

/// The gateway closed this attempt soon after the client had left.
async fn closed_soon(upstream: &Upstream, n: usize, left: Instant) {
    let at = upstream.closed_within(n, harness::PATIENCE).await;
    let after = at.saturating_duration_since(left);
    assert!(after <= GONE + LATE, "{} was left alone only after {after:?}", upstream.name());
}

/// The one call of a case is a cancel in record and metrics, and nothing else.
async fn cancelled(x: &Case, attempts: &Value) {
    let record = x.gateway.wait_for_event("request", |record| record["outcome"] == "client_cancelled").await;
    has(&record, &json!({"status_code": 499, "attempts": attempts}));
    let labels = [("outcome", "client_cancelled"), ("status", "499")];
    x.metric_becomes("sluice_requests_total", &labels, 1.0).await;
}

async fn nobody_blamed(x: &Case, failures: u64) {
    x.breaker_is("A/a1", "closed", failures).await;
    x.breaker_is("B/b1", "closed", 0).await;
    let blamed = x.metric("sluice_attempt_failures_total", &[]).await;
    assert!((blamed - failures as f64).abs() < 0.1, "{blamed} failures, wanted {failures}");
}

#[tokio::test]
async fn row_12_a_client_that_leaves_the_queue_is_never_served() {
    for (gate, depth) in [("/upstreams/A/max_in_flight", "upstream:A"), ("/gates/max_in_flight", "global")] {
        for leave in BOTH {
            let x = Setup::new().set(gate, 1).set("/gates/queue_wait", ms(20_000)).start().await;
            let latch = Latch::new();
            x.a.play([HOLD(&latch), OK]);
            let limits = x.call("solo");
            let mut first = limits.begin().await;
            x.a.wait_for_attempts(1).await;
            let second = x.call("solo").begin().await;
            let queued = [("gate", depth)];
            x.metric_becomes("sluice_gate_queue_depth", &queued, 1.0).await;
            let left = leave.now(second);
            x.metric_becomes("sluice_gate_queue_depth", &queued, 0.0).await;
            assert!(
                (now() - left) <= GONE + LATE,
                "{gate} {leave:?}: it still queued {:?} after",
                (now() - left)
            );
            cancelled(&x, &json!([])).await;
            latch.open();
            first.finish().await.answered();
            no_more_than(&x.a, 1, ms(300)).await;
            nobody_blamed(&x, 0).await;
            x.metric_becomes("sluice_gate_refused_total", &[], 0.0).await;
            x.end().await;
        }
    }
}

#[tokio::test]
async fn row_12_a_client_that_leaves_before_the_answer_takes_the_upstream_call_with_it() {
    let json = HEAD(200, &[("content-type", "application/json")]);
    let error = HEAD(503, &[("content-type", "application/json")]);
    let scripts: [(Script, bool); 5] = [
        (SILENT.into(), true),
        (SILENT.into(), false),
        ([ROLE, SILENT].into(), true),
        ([json, RAW("{\"choices\": ["), SILENT].into(), false),
        ([error, RAW("{\"error\": "), SILENT].into(), false),
    ];
    for (script, stream) in scripts {
        for leave in BOTH {
            let x = Setup::new()
                .set("/defaults/attempt", ms(4000))
                .set("/defaults/first_content", ms(4000))
                .start()
                .await;
            x.a.play(script.clone());
            let call = if stream { x.call("chat") } else { x.plain("chat") };
            let client = call.begin().await;
            x.a.wait_for_attempts(1).await;
            let left = leave.now(client);
            closed_soon(&x.a, 0, left).await;
            cancelled(&x, &json!([{"target": "A/a1", "kind": null}])).await;
            x.metric_becomes("sluice_attempts_total", &[("target", "A/a1"), ("result", "cancelled")], 1.0)
                .await;
            nobody_blamed(&x, 0).await;
            x.calls([1, 0, 0]);
            x.end().await;
        }
    }
}

#[tokio::test]
async fn row_12_a_client_that_leaves_in_mid_stream_takes_the_upstream_call_with_it() {
    let talking: Vec<Step> = (0..2000).flat_map(|_| [TXT("more "), SLEEP(20)]).collect();
    let scripts: [Script; 2] = [[ROLE, TXT("one "), SILENT].into(), [&[ROLE], &talking[..]].concat().into()];
    for script in scripts {
        for leave in BOTH {
            let x = Setup::new().set("/defaults/idle", ms(20_000)).start().await;
            x.a.play(script.clone());
            let mut client = x.call("chat").begin().await;
            client.contents(1).await;
            let left = leave.now(client);
            closed_soon(&x.a, 0, left).await;
            cancelled(&x, &json!([{"target": "A/a1", "kind": null, "status": 200}])).await;
            x.metric_becomes("sluice_attempts_total", &[("target", "A/a1"), ("result", "cancelled")], 1.0)
                .await;
            x.metric_becomes("sluice_streams_interrupted_total", &[], 0.0).await;
            nobody_blamed(&x, 0).await;
            x.calls([1, 0, 0]);
            x.end().await;
        }
    }
}

#[tokio::test]
async fn row_12_a_client_that_leaves_during_back_off_is_not_tried_for_again() {
    for leave in BOTH {
        let retry = json!({"upstream": 2, "rate_limit": 0, "backoff": "1s", "backoff_max": "1s"});
        let x = Setup::new().set("/defaults/retry", retry).start().await;
        x.a.play(STATUS(503));
        let client = x.call("chat").begin().await;
        x.gateway.wait_for_event("provider_request_failed", |_| true).await;
        let left = leave.now(client);
        cancelled(&x, &json!([{"target": "A/a1", "kind": "retryable_upstream", "status": 503}])).await;
        assert!((now() - left) <= GONE + LATE, "settled {:?} after the client had left", (now() - left));
        // The pause would have been over after a second at most.
        no_more_than(&x.a, 1, ms(1500)).await;
        x.calls([1, 0, 0]);
        nobody_blamed(&x, 1).await;
        x.end().await;
    }
}

#[tokio::test]
async fn row_12_what_follows_a_request_does_not_hide_that_its_client_left() {
    let more: [&[u8]; 3] = [b"\r\n", b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n", &[b'x'; 20_000]];
    let scripts: [Script; 2] = [SILENT.into(), [ROLE, TXT("one "), SILENT].into()];
    for (script, more) in scripts.iter().flat_map(|script| more.map(|more| (script, more))) {
        for leave in BOTH {
            let x = Setup::new()
                .set("/defaults/attempt", ms(4000))
                .set("/defaults/first_content", ms(4000))
                .set("/defaults/idle", ms(20_000))
                .start()
                .await;
            x.a.play(script.clone());
            let mut client = x.connect().await;
            client.send(&[&x.call("chat").bytes()[..], more].concat()).await;
            x.a.wait_for_attempts(1).await;
            let left = leave.now(client);
            closed_soon(&x.a, 0, left).await;
            cancelled(&x, &json!([{"target": "A/a1", "kind": null}])).await;
            nobody_blamed(&x, 0).await;
            x.calls([1, 0, 0]);
            x.end().await;
        }
    }
}

#[tokio::test]
async fn row_12_a_client_that_leaves_in_mid_upload_is_a_client_that_left() {
    for (leave, chunked) in BOTH.iter().flat_map(|leave| [(*leave, false), (*leave, true)]) {
        let x = Setup::new().start().await;
        let call = if chunked { x.call("chat").chunked() } else { x.call("chat") };
        let bytes = call.bytes();
        let mut client = x.connect().await;
        client.send(&bytes[..bytes.len() - 12]).await;
        leave.now(client);
        cancelled(&x, &json!([])).await;
        x.calls([0, 0, 0]);
        nobody_blamed(&x, 0).await;
        x.end().await;
    }
}

#[tokio::test]
async fn a_body_that_is_no_body_is_still_the_clients_mistake() {
    let x = Setup::new().start().await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunks in ["zz\r\n", "5\r\nhelloXX5\r\n", "ffffffffffffffffff\r\n"] {
        let r = harness::client::fetch(x.gateway.addr(), format!("{head}{chunks}").as_bytes()).await;
        r.refused(400, "invalid_request");
    }
    x.outcome("invalid_request", 3).await;
    x.outcome("client_cancelled", 0).await;
    x.end().await;
}
