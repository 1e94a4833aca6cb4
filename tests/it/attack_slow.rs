//! Clients that take an answer too slowly, or not at all, and names that are meant to fill tables.

use bytes::Bytes;
use harness::prelude::*;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::expect::has;

/// Far more than the sockets between upstream and client hold.
fn flood() -> Script {
    let event = TXT(&"x".repeat(64 << 10));
    [&[ROLE], &vec![event; 2000][..]].concat().into()
}

async fn dropped_without_blame(x: &Case) {
    let record = x.gateway.wait_for_event("request", |_| true).await;
    has(&record, &json!({"outcome": "client_cancelled", "status_code": 499, "attempts": [{"kind": null}]}));
    x.a.closed_within(0, harness::PATIENCE).await;
    let written = x.a.attempt(0).written;
    assert!(written < 64 << 20, "the upstream was read to {written} bytes for a client that reads nothing");
    x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.metric_becomes("sluice_streams_interrupted_total", &[], 0.0).await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_dropped_and_nobody_blamed() {
    let x = Setup::new().set("/defaults/client_write", ms(1000)).set("/defaults/idle", ms(500)).start().await;
    x.a.play(flood());
    let client = x.call("chat").receive_buffer(4096).begin().await;
    dropped_without_blame(&x).await;
    drop(client);
    x.end().await;
}

/// A connection of HTTP/2 on which a stream that is not read stops after 64 KiB, and the task that drives it.
async fn little_window(x: &Case) -> (SendRequest<Full<Bytes>>, JoinSet<()>) {
    let stream = TcpStream::connect(x.gateway.addr()).await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(65_535).adaptive_window(false);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.await;
    });
    (sender, tasks)
}

fn streamed(route: &str) -> Request<Full<Bytes>> {
    let body = json!({"model": route, "messages": [], "stream": true}).to_string();
    Request::post("http://sluice/v1/chat/completions").body(Full::new(Bytes::from(body))).unwrap()
}

#[tokio::test]
async fn an_http2_client_that_gives_no_window_is_dropped_and_nobody_blamed() {
    let x = Setup::new().set("/defaults/client_write", ms(1000)).set("/defaults/idle", ms(500)).start().await;
    x.a.play(flood());
    let (mut sender, _connection) = little_window(&x).await;
    let unread = sender.send_request(streamed("chat")).await.unwrap();
    dropped_without_blame(&x).await;
    drop(unread);
    x.end().await;
}

#[tokio::test]
async fn how_long_a_route_waits_for_its_reader_does_not_count_for_another_on_the_same_connection() {
    let x = Setup::new()
        .set("/routes/other/client_write", ms(100))
        .set("/routes/chat/client_write", "20s")
        .start()
        .await;
    let latch = Latch::new();
    let event = TXT(&"x".repeat(64 << 10));
    x.a.play([&[HOLD(&latch)], &vec![event; 4][..], &[FIN("stop"), DONE]].concat());
    let (mut sender, _connection) = little_window(&x).await;
    let patient = sender.send_request(streamed("chat"));
    x.a.wait_for_attempts(1).await;
    let other = sender.send_request(streamed("other")).await.unwrap();
    assert_eq!(other.into_body().collect().await.unwrap().to_bytes().last(), Some(&b'\n'));
    latch.open();
    let patient = patient.await.unwrap();
    // Longer than the other would have waited.
    tokio::time::sleep(x.t(ms(500))).await;
    let body = patient.into_body().collect().await.expect("cut off at the limit of another").to_bytes();
    assert!(body.ends_with(b"data: [DONE]\n\n"), "after {} bytes", body.len());
    x.end().await;
}

#[tokio::test]
async fn a_slow_reader_gets_every_byte() {
    let x = Setup::new().set("/defaults/client_write", ms(5000)).set("/defaults/idle", ms(500)).start().await;
    let events: Vec<Step> = (0..100).map(|n| TXT(&format!("{n} {}", "x".repeat(16 << 10)))).collect();
    x.a.play([&[ROLE], &events[..], &[FIN("stop"), DONE]].concat());
    let mut client = x.call("chat").receive_buffer(4096).begin().await;
    for _ in 0..8 {
        client.bytes(100_000).await;
        // Longer than the idle limit, which is none of the client's.
        client.pause(ms(200)).await;
    }
    let r = client.finish().await;
    assert_eq!((r.end, r.dones(), r.errors().len(), r.contents().len()), (End::Complete, 1, 0, 100));
    x.end().await;
}

#[tokio::test]
async fn names_of_callers_do_not_grow_the_metrics() {
    let x = Setup::new().start().await;
    x.plain("nobody").await.refused(404, "model_not_found");
    let before = x.metrics().await.samples.len();
    for n in 0..300 {
        x.plain(&format!("nobody-{n}")).path("/v1/chat/completions").await.refused(404, "model_not_found");
        x.plain("chat").path(&format!("/v1/{n}")).await.refused(404, "not_found");
    }
    let after = x.metrics().await;
    // The unknown path is one more label value than the unknown model.
    assert!(after.samples.len() < before + 40, "{} samples, {before} before", after.samples.len());
    assert!(!after.text.contains("nobody"), "a caller's word is a label");
    x.metric_becomes("sluice_requests_total", &[("outcome", "invalid_request")], 601.0).await;
    x.end().await;
}

#[tokio::test]
async fn a_callers_own_budget_only_shortens() {
    let x = Setup::new().set("/breaker/consecutive", 1000).start().await;
    x.a.play(SILENT);
    let r = x.plain("solo").header("x-sluice-budget-ms", "400").await;
    r.refused(504, "budget_exhausted");
    x.between(r.took(), ms(350), ms(400));
    x.breaker_is("A/a1", "closed", 0).await;
    x.a.healthy();
    for budget in ["5000", "999999999", "18446744073709551615", "99999999999999999999999"] {
        let r = x.plain("solo").header("x-sluice-budget-ms", budget).await;
        r.answered();
        has(&x.record(&r).await, &json!({"budget_ms": 5000}));
    }
    x.a.play(SILENT);
    let r = x.plain("solo").header("x-sluice-budget-ms", "1").await;
    r.refused(504, "budget_exhausted");
    x.end().await;
}

#[tokio::test]
async fn the_admin_listener_is_no_softer() {
    let x = Setup::new().start().await;
    let addr = x.gateway.admin_addr();
    let table: [(&str, u16); 8] = [
        ("GET /nowhere", 404),
        ("GET /debug/", 404),
        ("GET /debug/../metrics", 404),
        ("POST /metrics", 405),
        ("DELETE /debug/plugins", 405),
        ("POST /v1/chat/completions", 405),
        ("OPTIONS *", 405),
        ("GET /debug/decisions?request_id=%00%ff", 200),
    ];
    for (line, status) in table {
        let request = format!("{line} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let r = harness::client::fetch(addr, request.as_bytes()).await;
        assert_eq!(r.status, status, "{line}: {r:?}");
        assert!(r.request_id().is_some(), "{line}: {r:?}");
        if status >= 400 {
            assert!(r.error()["message"].is_string() && r.error()["type"].is_string(), "{line}: {r:?}");
        }
    }
    for bytes in [&[0_u8; 50][..], b"GET / HTTP/7\r\n\r\n", b"\xff\xfe\r\n\r\n"] {
        harness::client::fetch(addr, bytes).await;
    }
    assert_eq!(x.gateway.admin_page("/metrics").await.status, 200);
    x.end().await;
}
