//! Upstreams that answer what is no answer. The next target serves the call, and no byte of it gets through.

use harness::prelude::*;

fn answers() -> Vec<(&'static str, Script)> {
    let head = |lines: &str| format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{lines}\r\n");
    let many: String = (0..2000).map(|n| format!("x-{n}: y\r\n")).collect();
    let informed = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(500);
    let wire = |bytes: String| Script::from([WIRE(bytes), CUT]);
    vec![
        ("noise", Script::from([WIRE((0..=255).collect::<Vec<u8>>()), CUT])),
        ("TLS", Script::from([WIRE(b"\x15\x03\x01\x00\x02\x02\x16".to_vec()), CUT])),
        ("another protocol", wire("220 mail.invalid ESMTP\r\n".into())),
        ("version 9", wire("HTTP/9.9 200 OK\r\n\r\n".into())),
        ("status 0", wire("HTTP/1.1 000 None\r\ncontent-length: 0\r\n\r\n".into())),
        ("status 999", wire("HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n".into())),
        ("half a status line", wire("HTTP/1.1 2".into())),
        ("half a head", wire(head("x-a: b"))),
        ("many headers", wire(head(&many))),
        ("a large header", wire(head(&format!("x-large: {}\r\n", "y".repeat(1 << 20))))),
        ("a header with a NUL", wire(head("x-a: b\0c\r\n"))),
        ("a length below zero", wire(head("content-length: -1\r\n"))),
        ("two lengths", wire(head("content-length: 1\r\ncontent-length: 2\r\n"))),
        ("a body that is too short", wire(head("content-length: 100\r\n") + "{}")),
        ("a chunk that is none", wire(head("transfer-encoding: chunked\r\n") + "zz\r\n{}\r\n0\r\n\r\n")),
        ("a chunk without end", wire(head("transfer-encoding: chunked\r\n") + "ffffffffffffffff\r\n{}")),
        ("no end of chunks", wire(head("transfer-encoding: chunked\r\n") + "2\r\n{}\r\n")),
        ("only hints", wire(informed)),
        (
            "switching protocols",
            wire("HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n".into()),
        ),
        ("no content", wire("HTTP/1.1 204 No Content\r\n\r\n".into())),
        ("not modified", wire("HTTP/1.1 304 Not Modified\r\n\r\n".into())),
        (
            "elsewhere",
            wire("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n".into()),
        ),
        ("a page", ANSWER(200, "text/html", "<html>hello</html>")),
        ("a number", ANSWER(200, "application/json", "7")),
        ("null", ANSWER(200, "application/json", "null")),
        ("no choices", ANSWER(200, "application/json", r#"{"choices":[]}"#)),
        (
            "bytes that are no text",
            ANSWER(200, "application/json", b"{\"choices\":[{\"message\":{\"content\":\"\xff\"}}]}".to_vec()),
        ),
        ("a stream of noise", ANSWER(200, "text/event-stream", (0..=255).collect::<Vec<u8>>())),
        ("data that is no JSON", Script::from([RAW("data: {\n\ndata: }\n\n"), END])),
        ("a nest", ANSWER(200, "application/json", "[".repeat(1 << 20))),
        (
            "gzip that is none",
            WITH(200, &[("content-type", "application/json"), ("content-encoding", "gzip")], "not gzip"),
        ),
    ]
}

#[tokio::test]
async fn what_is_no_answer_is_never_shown() {
    let x = Setup::new().set("/breaker/consecutive", 100_000).start().await;
    let answers = answers();
    for (n, (name, script)) in answers.iter().enumerate() {
        x.a.play(script.clone());
        for stream in [true, false] {
            let r = if stream { x.call("chat").await } else { x.plain("chat").await };
            let told = (r.status, r.header("x-sluice-upstream"), r.text());
            assert_eq!(told, (200, Some("B"), HEALTHY_TEXT.to_owned()), "{name}: {r:?}");
            r.answered();
            let alone = if stream { x.call("solo").await } else { x.plain("solo").await };
            assert!((502..=504).contains(&alone.status), "{name}: {alone:?}");
            assert!(alone.error()["message"].is_string(), "{name}: {alone:?}");
        }
        assert_eq!(x.b.calls(), 2 * (n + 1), "{name}");
    }
    x.outcome("fallback_success", 2 * answers.len()).await;
    x.outcome("exhausted", 2 * answers.len()).await;
    x.end().await;
}

#[tokio::test]
async fn resets_at_every_point_of_an_answer_are_a_whole_answer_or_a_broken_one() {
    let x = Setup::new().set("/breaker/consecutive", 100_000).start().await;
    let chunk = |delta: &str| {
        format!(
            "data: {{\"id\":\"x\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let body =
        format!("{}{}", chunk("{\"role\":\"assistant\",\"content\":\"\"}"), chunk("{\"content\":\"one \"}"));
    let wire = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n",
        body.len()
    );
    // What was sent arrives before the reset: the peer waits a moment, as the reset would overtake it.
    for (end, step) in [(RST, 11), (CUT, 13)] {
        for point in (0..=wire.len()).step_by(step) {
            x.a.play([WIRE(wire[..point].to_owned()), SLEEP(5), end.clone()]);
            let r = x.call("chat").await;
            if r.header("x-sluice-upstream") == Some("A") {
                r.broken_stream("one ");
            } else {
                r.answered().tags("B/b1", true);
            }
        }
    }
    x.end().await;
}
