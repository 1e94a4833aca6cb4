//! Clients that try to break it. Whatever they send, the gateway stays up, answers in OpenAI's error shape
//! where it answers, holds nothing for them afterwards, and calls nobody for what is no request.

use crate::expect::together;
use harness::client::Client;
use harness::prelude::*;

const CHAT: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
const BODY: &str = r#"{"model":"chat","messages":[{"role":"user","content":"hello"}]}"#;

fn whole_request() -> Vec<u8> {
    format!("{CHAT}content-length: {}\r\n\r\n{BODY}", BODY.len()).into_bytes()
}

/// What comes back for these bytes; afterwards the client says that it has nothing more to send.
async fn raw(x: &Case, bytes: &[u8]) -> Response {
    let mut client = Client::open(x.gateway.addr()).await;
    client.send(bytes).await;
    // Some of these wait for more than was sent: that they get no answer is an answer.
    client.finish_within(ms(700)).await
}

/// An error of ours, or the bare refusal of bytes that are no HTTP, or a closed connection; never a success.
#[track_caller]
fn turned_away(bytes: &[u8], r: &Response) {
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

#[tokio::test]
async fn heads_that_are_no_heads() {
    let x = Setup::new().start().await;
    let headers =
        |more: String| format!("{CHAT}{more}content-length: {}\r\n\r\n{BODY}", BODY.len()).into_bytes();
    let many: String = (0..5000).map(|n| format!("x-{n}: y\r\n")).collect();
    let heads: Vec<Vec<u8>> = vec![
        vec![0; 100],
        (0..=255).collect(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"\r\n\r\n\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET /\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\nhost: x\n\n".to_vec(),
        b"G\xc3\x89T / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        b"POST /v1/chat\x00/completions HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        b"POST /v1/chat/\xff\xfe HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".to_vec(),
        headers("no colon\r\n".into()),
        headers("x-a : space before the colon\r\n".into()),
        headers("x-a: folded\r\n  on two lines\r\n".into()),
        headers("x-a: nul\0inside\r\n".into()),
        headers("x-a: bare\rreturn\r\n".into()),
        headers(": no name\r\n".into()),
        headers(many),
        headers(format!("x-large: {}\r\n", "y".repeat(1 << 20))),
        headers("content-length: 5\r\n".into()),
        headers("content-length: 5, 6\r\n".into()),
        headers("transfer-encoding: gzip\r\n".into()),
        headers("transfer-encoding: chunked, identity\r\n".into()),
        format!("{CHAT}content-length: -1\r\n\r\n{BODY}").into_bytes(),
        format!("{CHAT}content-length: +5\r\n\r\n{BODY}").into_bytes(),
        format!("{CHAT}content-length: 99999999999999999999999\r\n\r\n{BODY}").into_bytes(),
        format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000)).into_bytes(),
        format!("{} / HTTP/1.1\r\nhost: x\r\n\r\n", "M".repeat(100_000)).into_bytes(),
    ];
    for bytes in &heads {
        turned_away(bytes, &raw(&x, bytes).await);
    }
    x.calls([0, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn bodies_that_are_no_bodies() {
    let x = Setup::new().start().await;
    let chunked =
        |body: &[u8]| [format!("{CHAT}transfer-encoding: chunked\r\n\r\n").as_bytes(), body].concat();
    let extension = format!("3f;{}\r\n{BODY}\r\n0\r\n\r\n", "e".repeat(1 << 20));
    let bodies: Vec<Vec<u8>> = vec![
        chunked(b"zz\r\n"),
        chunked(b"-5\r\nhello\r\n0\r\n\r\n"),
        chunked(b"ffffffffffffffff\r\n{}"),
        chunked(b"fffffffffffffffffffffffff\r\n{}"),
        chunked(b"7fffffff\r\n{}"),
        chunked(b"5\r\n{\"a\":1}\r\n0\r\n\r\n"),
        chunked(b"2\r\n{}XX0\r\n\r\n"),
        chunked(b" \r\n\r\n"),
        chunked(extension.as_bytes()),
        chunked(b"0\r\n\r\n"),
        chunked(b"2\r\n{}\r\n0\r\nbad trailer\r\n\r\n"),
        chunked(b"1\n{\n0\n\n"),
        format!("{CHAT}content-length: 5\r\n\r\n{BODY}").into_bytes(),
        format!("{CHAT}content-length: 4000\r\n\r\n{BODY}").into_bytes(),
        format!("{CHAT}\r\n{BODY}").into_bytes(),
    ];
    for bytes in &bodies {
        turned_away(bytes, &raw(&x, bytes).await);
    }
    x.calls([0, 0, 0]);
    x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    x.end().await;
}

#[tokio::test]
async fn odd_but_lawful_chunks_are_one_body() {
    let x = Setup::new().start().await;
    let singles: String = BODY.bytes().map(|byte| format!("1\r\n{}\r\n", char::from(byte))).collect();
    let table = [
        format!("{singles}0\r\n\r\n"),
        format!("0000000{:X};name=value\r\n{BODY}\r\n0;last\r\nx-trailer: 1\r\n\r\n", BODY.len()),
    ];
    for (n, body) in table.iter().enumerate() {
        let r = raw(&x, format!("{CHAT}transfer-encoding: chunked\r\n\r\n{body}").as_bytes()).await;
        r.answered().tags("A/a1", false);
        let seen = x.a.attempt(n);
        assert_eq!(String::from_utf8_lossy(&seen.body), BODY.replace("\"chat\"", "\"a1\""));
        assert_eq!((seen.header("transfer-encoding"), seen.header("x-trailer")), (None, None));
    }
    // Both framings at once: one of them decides, and the connection carries nothing after it.
    let both = format!(
        "{CHAT}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{BODY}\r\n0\r\n\r\n",
        BODY.len()
    );
    let smuggled = format!("{both}POST /v1/smuggled HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    let r = raw(&x, smuggled.as_bytes()).await;
    if r.status == 200 {
        assert_eq!(String::from_utf8_lossy(&r.raw).matches("HTTP/1.1 ").count(), 1, "{r:?}");
        assert_eq!(
            x.a.attempt(2).header("content-length").map(str::to_owned),
            Some((BODY.len() - 2).to_string())
        );
    } else {
        turned_away(both.as_bytes(), &r);
    }
    assert!(!x.gateway.log().contains("smuggled"), "what came behind was taken for a request");
    x.end().await;
}

#[tokio::test]
async fn json_that_is_meant_to_hurt() {
    let x = Setup::new().start().await;
    let keys: String = (0..50_000).map(|n| format!(",\"k{n}\":{n}")).collect();
    let call =
        |model: &str, more: &str| format!("{{\"model\":\"{model}\",\"messages\":[]{more}}}").into_bytes();
    let few: String = (0..1000).map(|n| format!(",\"k{n}\":{n}")).collect();
    let refused = [
        call("chat", &keys),
        call("\\ud800", ""),
        call("chat\\u0000", ""),
        call(&"m".repeat(1 << 20), ""),
        call("\u{202e}tahc", ""),
        call("..", ""),
        call("chat", ",\"stream\":\"\\ud800\""),
        call("chat", &format!(",\"x\":{}1{}", "[".repeat(200_000), "]".repeat(200_000))),
        call("chat", &format!(",\"x\":{}", "{\"a\":".repeat(100_000))),
        call("chat", ",\"x\":1e99999999999,\"x\":2"),
        [b"\xef\xbb\xbf".as_slice(), &call("nobody", "")].concat(),
        [b"\xff\xfe".as_slice(), &call("chat", "")].concat(),
    ];
    for body in refused {
        let r = x.plain("chat").body(body.clone()).await;
        assert!((400..=404).contains(&r.status), "{r:?}");
        turned_away(&body, &r);
        assert!(r.raw.len() < 4096, "an error that repeats what was sent: {} bytes", r.raw.len());
    }
    x.calls([0, 0, 0]);
    // Odd, but a request: the upstream may judge it, and gets the bytes as they are.
    for body in [call("chat", &few), call("chat", ",\"max_tokens\":1e999,\"n\":-0,\"user\":\"\\ud800\"")] {
        x.plain("chat").body(body.clone()).await.answered();
        let seen = x.a.attempt(x.a.calls() - 1);
        assert_eq!(seen.body.len(), body.len() - 2);
    }
    x.end().await;
}

#[tokio::test]
async fn header_values_are_not_believed() {
    let x = Setup::new().start().await;
    for id in ["", "a b", "a\tb", "\"quoted\"", "{\"event\":\"x\"}", "é", &"i".repeat(129), "../../x", "a;b"]
    {
        let r = x.plain("chat").header("x-request-id", id).await;
        r.answered();
        assert_ne!(r.request_id(), Some(id));
        assert!(r.request_id().is_some_and(|own| own.len() == 32), "{r:?}");
    }
    let raw_id = [
        CHAT.as_bytes(),
        b"x-request-id: \xff\xfe\r\n",
        format!("content-length: {}\r\n\r\n{BODY}", BODY.len()).as_bytes(),
    ]
    .concat();
    raw(&x, &raw_id).await.answered();
    for (name, value) in [
        ("x-sluice-task", "\u{1F642}"),
        ("traceparent", "00-zz"),
        ("content-type", "text/plain; charset=utf-16"),
        ("accept", "image/png"),
        ("content-encoding", "gzip"),
        ("te", "trailers"),
        ("upgrade", "h2c"),
        ("connection", "upgrade, x-a, content-length"),
    ] {
        let r = x.plain("chat").header(name, value).await;
        assert!(r.status == 200 || (400..=415).contains(&r.status), "{name}: {r:?}");
    }
    x.end().await;
}

#[tokio::test]
async fn requests_in_one_write_are_answered_in_their_order() {
    let x = Setup::new().start().await;
    x.a.decide(|attempt| (attempt.n == 0).then(|| [SLEEP(200), OK].into()));
    let one = |n: usize| format!("{CHAT}x-request-id: r-{n}\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    let models = "GET /v1/models HTTP/1.1\r\nhost: x\r\nx-request-id: r-20\r\n\r\n";
    let last = "POST /nowhere HTTP/1.1\r\nhost: x\r\nx-request-id: r-21\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let all: String = (0..20).map(one).chain([models.to_owned(), last.to_owned()]).collect();
    let got = everything(&x, all.as_bytes()).await;
    let ids: Vec<_> = got.lines().filter_map(|line| line.strip_prefix("x-request-id: ")).collect();
    let want: Vec<_> = (0..22).map(|n| format!("r-{n}")).collect();
    assert_eq!(ids, want, "{got}");
    assert_eq!(got.matches("HTTP/1.1 200").count(), 21, "{got}");
    assert_eq!(got.matches("HTTP/1.1 404").count(), 1, "{got}");
    x.calls([20, 0, 0]);
    x.end().await;
}

/// All that comes until the gateway closes.
async fn everything(x: &Case, bytes: &[u8]) -> String {
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
        let mut client = Client::open(x.gateway.addr()).await;
        client.send(&request[..point]).await;
        client.half_close().await;
        let r = client.finish().await;
        assert_ne!(r.end, End::Open, "half a request keeps its connection for good");
        turned_away(&request[..point], &r);
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
async fn a_client_that_asks_before_it_sends_is_told_to_go_on() {
    let x = Setup::new().start().await;
    let mut client = Client::open(x.gateway.addr()).await;
    client
        .send(format!("{CHAT}expect: 100-continue\r\ncontent-length: {}\r\n\r\n", BODY.len()).as_bytes())
        .await;
    client.read_until(harness::PATIENCE, |r| r.raw.ends_with(b"\r\n\r\n")).await;
    assert!(client.response().raw.starts_with(b"HTTP/1.1 100"), "{:?}", client.response());
    client.send(BODY.as_bytes()).await;
    client.finish().await.answered().tags("A/a1", false);
    // One that is too large is told so instead of being asked for it.
    let r = raw(&x, format!("{CHAT}expect: 100-continue\r\ncontent-length: {}\r\n\r\n", 64 << 20).as_bytes())
        .await;
    assert_eq!((r.status, r.code().as_str()), (413, "body_too_large"), "{r:?}");
    let unknown = raw(
        &x,
        format!("{CHAT}expect: the-unexpected\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len()).as_bytes(),
    )
    .await;
    assert!(unknown.status == 200 || unknown.status == 417, "{unknown:?}");
    x.end().await;
}

#[tokio::test]
async fn other_methods_and_other_targets() {
    let x = Setup::new().start().await;
    let addr = x.gateway.addr();
    let table: [(String, u16, bool); 9] = [
        ("HEAD /v1/models HTTP/1.1".into(), 200, true),
        ("HEAD /livez HTTP/1.1".into(), 200, true),
        ("HEAD /v1/chat/completions HTTP/1.1".into(), 405, true),
        ("HEAD /nowhere HTTP/1.1".into(), 404, true),
        ("OPTIONS /v1/chat/completions HTTP/1.1".into(), 405, false),
        ("OPTIONS * HTTP/1.1".into(), 404, false),
        (format!("GET http://{addr}/v1/models HTTP/1.1"), 200, false),
        ("GET http://elsewhere.invalid/livez HTTP/1.1".into(), 200, false),
        ("DELETE /v1/models HTTP/1.1".into(), 405, false),
    ];
    for (line, status, bodiless) in table {
        let got = everything(&x, format!("{line}\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await;
        assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {got}");
        assert!(got.contains("x-request-id: "), "{line}: {got}");
        let body = got.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(body.is_empty(), bodiless, "{line}: {got}");
        if status >= 400 && !bodiless {
            let error: Value = serde_json::from_str(body).unwrap();
            assert!(error["error"]["message"].is_string(), "{line}: {got}");
        }
    }
    // An old client gets an answer that ends with its connection, and no chunks, which it could not read.
    let old = whole_request();
    let old =
        String::from_utf8_lossy(&old).replace("HTTP/1.1", "HTTP/1.0").replace(BODY, &BODY.replace('}', "} "));
    let got = everything(
        &x,
        old.replace(
            &format!("content-length: {}", BODY.len()),
            &format!("content-length: {}", BODY.len() + 2),
        )
        .as_bytes(),
    )
    .await;
    assert!(got.contains("one two three") && !got.contains("chunked"), "{got}");
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
