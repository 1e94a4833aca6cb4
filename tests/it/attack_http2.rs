//! HTTP/2 without TLS, as a client speaks it that knows beforehand: served like HTTP/1.1, and no better to
//! attack.

use std::pin::pin;

use bytes::Bytes;
use harness::prelude::*;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, Response as Answer};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::expect::{GONE, LATE};

/// A connection, driven as long as `tasks` lives.
async fn open(x: &Case, tasks: &mut JoinSet<()>) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(x.gateway.addr()).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tasks.spawn(async move {
        // A connection that the gateway ends is seen by the calls on it.
        let _ = connection.await;
    });
    sender
}

fn request(path: &str, stream: bool, id: &str) -> Request<Full<Bytes>> {
    let body = json!({"model": "chat", "messages": [{"role": "user", "content": "hello"}], "stream": stream});
    let request = Request::post(format!("http://sluice{path}")).header("x-request-id", id);
    request.body(Full::new(body.to_string().into())).unwrap()
}

async fn read(answer: Answer<Incoming>) -> (u16, Option<String>, Bytes) {
    let (head, body) = answer.into_parts();
    let id = head.headers.get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    (head.status.as_u16(), id, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn calls_on_one_connection_are_served_side_by_side() {
    let x = Setup::new().wide_gates().start().await;
    let mut tasks = JoinSet::new();
    let sender = open(&x, &mut tasks).await;
    let mut calls = JoinSet::new();
    for n in 0..40 {
        let mut sender = sender.clone();
        calls.spawn(async move {
            let id = format!("h2-{n}");
            let answer = sender.send_request(request("/v1/chat/completions", n % 2 == 0, &id)).await.unwrap();
            let (status, got, body) = read(answer).await;
            assert_eq!((status, got), (200, Some(id)));
            let text = String::from_utf8_lossy(&body).into_owned();
            if n % 2 == 0 {
                assert!(
                    text.ends_with("data: [DONE]\n\n") && text.contains("\"content\":\"three\""),
                    "{text}"
                );
            } else {
                assert!(text.contains(HEALTHY_TEXT), "{text}");
            }
        });
    }
    calls.join_all().await;
    x.calls([40, 0, 0]);
    let answer = sender.clone().send_request(request("/v1/nowhere", false, "h2-lost")).await.unwrap();
    let (status, id, body) = read(answer).await;
    assert_eq!((status, id.as_deref()), (404, Some("h2-lost")));
    let error: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(error["error"]["code"], "not_found");
    x.end().await;
}

#[tokio::test]
async fn a_stream_that_is_reset_is_a_client_that_left() {
    let x = Setup::new().set("/defaults/idle", ms(20_000)).start().await;
    let mut tasks = JoinSet::new();
    let mut sender = open(&x, &mut tasks).await;
    x.a.play([ROLE, TXT("one "), SILENT]);
    let answer = sender.send_request(request("/v1/chat/completions", true, "h2-mid")).await.unwrap();
    let mut body = answer.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    x.a.closed_within(0, GONE + LATE).await;
    x.a.play(SILENT);
    {
        let mut waiting = pin!(sender.send_request(request("/v1/chat/completions", true, "h2-early")));
        tokio::select! {
            _ = &mut waiting => panic!("a silent upstream was answered for"),
            _ = x.a.wait_for_attempts(2) => {}
        }
    }
    x.a.closed_within(1, GONE + LATE).await;
    x.outcome("client_cancelled", 2).await;
    x.breaker_is("A/a1", "closed", 0).await;
    // The connection outlives its streams.
    x.a.healthy();
    let answer = sender.send_request(request("/v1/chat/completions", false, "h2-after")).await.unwrap();
    assert_eq!(read(answer).await.0, 200);
    x.end().await;
}

#[tokio::test]
async fn resets_in_quick_succession_leave_nothing_behind() {
    let x = Setup::new().wide_gates().start().await;
    x.a.play(SILENT);
    let mut tasks = JoinSet::new();
    for round in 1..=10 {
        let sender = open(&x, &mut tasks).await;
        let before = x.a.calls();
        let mut calls = JoinSet::new();
        for n in 0..100 {
            let (mut sender, id) = (sender.clone(), format!("h2-{round}-{n}"));
            calls.spawn(async move {
                sender.send_request(request("/v1/chat/completions", true, &id)).await.is_ok()
            });
        }
        // Some have reached the upstream, others are anywhere before it, when all of them are reset.
        x.a.wait_for_attempts(before + 1 + round * 5).await;
        calls.shutdown().await;
    }
    let gone = x.a.wait(harness::PATIENCE, |up| up.active() == 0).await;
    assert!(gone, "{} upstream calls go on for nobody", x.a.active());
    x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.metric_becomes("sluice_requests_total", &[("outcome", "success")], 0.0).await;
    x.end().await;
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What is not wrong, or not yet: it is answered for as long as the client goes on.
fn lawful(name: &str) -> bool {
    name == "half a preface" || name.starts_with("a flood")
}

/// Sends these bytes and reads until the gateway has closed the connection, which stays open on this side
/// unless the client has nothing more to say.
async fn read_to_the_end(x: &Case, bytes: &[u8], nothing_more: bool) {
    let (mut from, mut to) = TcpStream::connect(x.gateway.addr()).await.unwrap().into_split();
    let sending = async {
        // Who is closed while it still sends has been answered.
        let _ = to.write_all(bytes).await;
        if nothing_more {
            let _ = to.shutdown().await;
        }
    };
    let reading = async {
        // A reset is an end, too.
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    };
    tokio::join!(sending, reading);
}

#[tokio::test]
async fn frames_that_are_no_frames_end_only_their_connection() {
    let x = Setup::new().start().await;
    let settings = frame(4, 0, 0, &[]);
    let begun = |rest: Vec<u8>| [PREFACE, &settings, &rest].concat();
    let noise: Vec<u8> = (0..4096_u32).map(|n| (n * 167 + 13) as u8).collect();
    // A head without end: its first frame, and then ever more of it.
    let endless =
        [frame(1, 0, 1, &[0x83]), frame(9, 0, 1, &[0x40, 1, b'a', 1, b'b']).repeat(50_000)].concat();
    let table: Vec<(&str, Vec<u8>)> = vec![
        ("half a preface", PREFACE[..10].to_vec()),
        ("noise after the preface", [PREFACE, &noise].concat()),
        ("noise after the settings", begun(noise.clone())),
        ("a frame that is too large", begun(frame(0, 0, 1, &vec![0; 1 << 20]))),
        ("data of no stream", begun(frame(0, 0, 1, b"hello"))),
        ("a head of stream 0", begun(frame(1, 4, 0, &[0x83]))),
        ("a head of an even stream", begun(frame(1, 5, 2, &[0x83, 0x86, 0x84]))),
        ("a head that cannot be unpacked", begun(frame(1, 5, 1, &[0xff; 64]))),
        ("a head without end", begun(endless)),
        ("a window of nothing", begun(frame(8, 0, 0, &[0, 0, 0, 0]))),
        ("a flood of settings", begun(settings.repeat(20_000))),
        ("a flood of pings", begun(frame(6, 0, 0, &[0; 8]).repeat(20_000))),
    ];
    for (name, bytes) in table {
        let ended = tokio::time::timeout(harness::PATIENCE, read_to_the_end(&x, &bytes, lawful(name))).await;
        assert!(ended.is_ok(), "{name}: its connection goes on");
        x.plain("chat").await.answered().tags("A/a1", false);
    }
    x.calls([12, 0, 0]);
    x.end().await;
}
