//! Clients that try to break it by how they come and go. Whatever they do, the gateway stays up, answers in
//! OpenAI's error shape where it answers, holds nothing for them afterwards, and calls nobody for what is no
//! request. What the other attacks share is here, too.

use crate::expect::together;
use harness::client::Client;
use harness::prelude::*;

pub const CHAT: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
pub const BODY: &str = r#"{"model":"chat","messages":[{"role":"user","content":"hello"}]}"#;

pub fn whole_request() -> Vec<u8> {
    format!("{CHAT}content-length: {}\r\n\r\n{BODY}", BODY.len()).into_bytes()
}

/// What comes back for these bytes, to its end, while the client might still send more.
pub async fn raw(x: &Case, bytes: &[u8]) -> Response {
    let mut client = Client::open(x.gateway.addr()).await;
    client.send(bytes).await;
    ended(bytes, &client.finish().await)
}

/// What comes back for these bytes when the client says that there will be no more.
pub async fn cut_short(x: &Case, bytes: &[u8]) -> Response {
    let mut client = Client::open(x.gateway.addr()).await;
    client.send(bytes).await;
    client.half_close().await;
    ended(bytes, &client.finish().await)
}

#[track_caller]
fn ended(bytes: &[u8], r: &Response) -> Response {
    let sent = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
    assert_ne!(r.end, End::Open, "{sent:?}: neither an answer nor an end: {r:?}");
    r.clone()
}

/// An error of ours, or the bare refusal of bytes that are no HTTP, or a closed connection; never a success.
#[track_caller]
pub fn turned_away(bytes: &[u8], r: &Response) {
    let sent = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
    match r.status {
        0 => assert_ne!(
            r.end,
            End::Broken,
            "{sent:?}: no HTTP came back: {:?}",
            String::from_utf8_lossy(&r.raw)
        ),
        400..=599 if r.body.is_empty() => {
            assert!(matches!(r.status, 400 | 414 | 431), "{sent:?}: an error without a body: {r:?}");
        }
        400..=599 => {
            assert!(r.error()["message"].is_string() && r.error()["type"].is_string(), "{sent:?}: {r:?}");
            assert!(!r.code().is_empty() && r.request_id().is_some(), "{sent:?}: {r:?}");
        }
        _ => panic!("{sent:?}: {r:?}"),
    }
}

/// All that comes until the gateway closes.
pub async fn everything(x: &Case, bytes: &[u8]) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(x.gateway.addr()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut got = Vec::new();
    let read = tokio::time::timeout(harness::PATIENCE, stream.read_to_end(&mut got)).await;
    read.expect("the gateway closes").unwrap();
    String::from_utf8_lossy(&got).into_owned()
}

#[tokio::test]
async fn clients_that_reset_or_half_close_at_every_point_of_a_request() {
    let x = Setup::new().wide_gates().start().await;
    let request = whole_request();
    let points: Vec<usize> = (0..request.len()).step_by(7).collect();
    for &point in &points {
        let mut client = Client::open(x.gateway.addr()).await;
        client.send(&request[..point]).await;
        if point % 2 == 0 { client.reset() } else { client.close() }
    }
    for &point in points.iter().step_by(5) {
        turned_away(&request[..point], &cut_short(&x, &request[..point]).await);
    }
    x.calls([0, 0, 0]);
    // A whole request, and the client leaves at every point of the answer.
    x.a.play([ROLE, TXT("one "), SLEEP(1), TXT("two "), SLEEP(1), TXT("three"), FIN("stop"), DONE]);
    for n in 0..60 {
        let mut client = x.call("chat").begin().await;
        client.bytes(n * 20).await;
        match n % 3 {
            0 => client.reset(),
            1 => client.close(),
            _ => {
                client.half_close().await;
                client.finish().await;
            }
        }
    }
    x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn slow_heads_and_slow_bodies_hold_up_nobody() {
    let x = Setup::new().start().await;
    let request = whole_request();
    let mut slow = Vec::new();
    // More than all gates together let in: a request that is not there yet has no place.
    for n in 0..200 {
        let mut client = Client::open(x.gateway.addr()).await;
        client.send(&request[..1 + (n * 3) % (request.len() - 1)]).await;
        slow.push(client);
    }
    for _ in 0..5 {
        let r = x.call("chat").await;
        r.answered();
        assert!(r.took() < ms(2000), "{r:?}");
        for client in &mut slow {
            client.send(b" ").await;
        }
    }
    x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    drop(slow);
    x.calls([5, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_hundred_clients_leave_at_once() {
    let x = Setup::new().wide_gates().set("/defaults/idle", ms(20_000)).start().await;
    let talking: Vec<Step> = (0..500).flat_map(|_| [TXT("more "), SLEEP(10)]).collect();
    x.a.play([&[ROLE], &talking[..]].concat());
    let mut clients = together((0..100).map(|_| x.call("chat")).map(|call| async move {
        let mut client = call.begin().await;
        client.contents(1).await;
        client
    }))
    .await;
    assert_eq!(x.a.active(), 100);
    for (n, client) in clients.drain(..).enumerate() {
        if n % 2 == 0 { client.reset() } else { client.close() }
    }
    let gone = x.a.wait(harness::PATIENCE, |up| up.active() == 0).await;
    assert!(gone, "{} upstream calls go on for nobody", x.a.active());
    x.outcome("client_cancelled", 100).await;
    x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}
