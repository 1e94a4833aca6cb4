//! Bytes that try to break it: heads, bodies, chunks, JSON, header values and methods that nobody should send.
//! Each has one answer.

use crate::attack::{BODY, CHAT, cut_short, everything, raw, turned_away, whole_request};
use harness::client::Client;
use harness::prelude::*;

/// Each of these bytes gets its status, though the client might send more.
async fn each_gets(x: &Case, table: &[(u16, Vec<u8>)]) {
    for (status, bytes) in table {
        pinned(*status, bytes, &raw(x, bytes).await);
    }
}

/// Each of these bytes is the begin of something, and gets its status when there is no more; 0: the connection is
/// closed without a word.
async fn each_gets_when_cut_short(x: &Case, table: &[(u16, Vec<u8>)]) {
    for (status, bytes) in table {
        pinned(*status, bytes, &cut_short(x, bytes).await);
    }
}

#[track_caller]
fn pinned(status: u16, bytes: &[u8], r: &Response) {
    turned_away(bytes, r);
    assert_eq!(r.status, status, "{:?}: {r:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(120)]));
}

#[tokio::test]
async fn heads_that_are_no_heads() {
    let x = Setup::new().start().await;
    let headers =
        |more: String| format!("{CHAT}{more}content-length: {}\r\n\r\n{BODY}", BODY.len()).into_bytes();
    let many: String = (0..5000).map(|n| format!("x-{n}: y\r\n")).collect();
    let heads: Vec<(u16, Vec<u8>)> = vec![
        (400, vec![0; 100]),
        (400, (0..=255).collect()),
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        (400, b"GET\r\n\r\n".to_vec()),
        (400, b"GET /\r\n\r\n".to_vec()),
        (400, b"GET / HTTP/9.9\r\n\r\n".to_vec()),
        (404, b"GET / HTTP/1.1\nhost: x\n\n".to_vec()),
        (400, b"G\xc3\x89T / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        (400, b"POST /v1/chat\x00/completions HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        (400, b"POST /v1/chat/\xff\xfe HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".to_vec()),
        (400, headers("no colon\r\n".into())),
        (400, headers("x-a : space before the colon\r\n".into())),
        (400, headers("x-a: folded\r\n  on two lines\r\n".into())),
        (400, headers("x-a: nul\0inside\r\n".into())),
        (400, headers("x-a: bare\rreturn\r\n".into())),
        (400, headers(": no name\r\n".into())),
        (431, headers(many)),
        (431, headers(format!("x-large: {}\r\n", "y".repeat(1 << 20)))),
        (400, headers("content-length: 5\r\n".into())),
        (400, headers("content-length: 5, 6\r\n".into())),
        (400, headers("transfer-encoding: gzip\r\n".into())),
        (400, headers("transfer-encoding: chunked, identity\r\n".into())),
        (400, format!("{CHAT}content-length: -1\r\n\r\n{BODY}").into_bytes()),
        (400, format!("{CHAT}content-length: +5\r\n\r\n{BODY}").into_bytes()),
        (400, format!("{CHAT}content-length: 99999999999999999999999\r\n\r\n{BODY}").into_bytes()),
        (414, format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000)).into_bytes()),
        (404, format!("{} / HTTP/1.1\r\nhost: x\r\n\r\n", "M".repeat(100_000)).into_bytes()),
    ];
    each_gets(&x, &heads).await;
    let begun = [(0, b"\r\n\r\n\r\n\r\n".to_vec()), (0, CHAT.as_bytes().to_vec())];
    each_gets_when_cut_short(&x, &begun).await;
    x.calls([0, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn bodies_that_are_no_bodies() {
    let x = Setup::new().start().await;
    let chunked =
        |body: &[u8]| [format!("{CHAT}transfer-encoding: chunked\r\n\r\n").as_bytes(), body].concat();
    let extension = format!("3f;{}\r\n{BODY}\r\n0\r\n\r\n", "e".repeat(1 << 20));
    let bodies: Vec<(u16, Vec<u8>)> = vec![
        (400, chunked(b"zz\r\n")),
        (400, chunked(b"-5\r\nhello\r\n0\r\n\r\n")),
        (400, chunked(b"fffffffffffffffffffffffff\r\n{}")),
        (400, chunked(b"5\r\n{\"a\":1}\r\n0\r\n\r\n")),
        (400, chunked(b"2\r\n{}XX0\r\n\r\n")),
        (400, chunked(b" \r\n\r\n")),
        (400, chunked(extension.as_bytes())),
        (400, chunked(b"0\r\n\r\n")),
        (400, chunked(b"2\r\n{}\r\n0\r\nbad trailer\r\n\r\n")),
        (400, chunked(b"1\n{\n0\n\n")),
        (400, format!("{CHAT}content-length: 5\r\n\r\n{BODY}").into_bytes()),
        (400, format!("{CHAT}\r\n{BODY}").into_bytes()),
    ];
    each_gets(&x, &bodies).await;
    let begun = [
        (400, chunked(b"ffffffffffffffff\r\n{}")),
        (400, chunked(b"7fffffff\r\n{}")),
        (400, format!("{CHAT}content-length: 4000\r\n\r\n{BODY}").into_bytes()),
    ];
    each_gets_when_cut_short(&x, &begun).await;
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
    r.answered();
    assert_eq!(String::from_utf8_lossy(&r.raw).matches("HTTP/1.1 ").count(), 1, "{r:?}");
    assert_eq!(r.header("connection"), Some("close"), "{r:?}");
    let length = (BODY.len() - 2).to_string();
    assert_eq!(x.a.attempt(2).header("content-length"), Some(length.as_str()));
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
        (400, "invalid_request", call("chat", &keys)),
        (400, "invalid_request", call("\\ud800", "")),
        (404, "model_not_found", call("chat\\u0000", "")),
        (404, "model_not_found", call(&"m".repeat(1 << 20), "")),
        (404, "model_not_found", call("\u{202e}tahc", "")),
        (404, "model_not_found", call("..", "")),
        (400, "invalid_request", call("chat", ",\"stream\":\"\\ud800\"")),
        (
            400,
            "invalid_request",
            call("chat", &format!(",\"x\":{}1{}", "[".repeat(200_000), "]".repeat(200_000))),
        ),
        (400, "invalid_request", call("chat", &format!(",\"x\":{}", "{\"a\":".repeat(100_000)))),
        (400, "invalid_request", call("chat", ",\"x\":1e99999999999,\"x\":2")),
        (400, "invalid_json", [b"\xef\xbb\xbf".as_slice(), &call("nobody", "")].concat()),
        (400, "invalid_json", [b"\xff\xfe".as_slice(), &call("chat", "")].concat()),
    ];
    for (status, code, body) in refused {
        let r = x.plain("chat").body(body.clone()).await;
        assert_eq!((r.status, r.code().as_str()), (status, code), "{r:?}");
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
        assert_eq!((r.status, r.end), (200, End::Complete), "{name}: {r:?}");
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
    unknown.answered();
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
