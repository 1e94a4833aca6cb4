//! HTTP towards upstreams and clients: which headers pass, redirects, reused connections, large bodies.

use harness::prelude::*;

use crate::expect::has;

#[tokio::test]
async fn b070_hop_by_hop_and_credential_headers() {
    let x = Setup::new()
        .set("/forward_headers", json!(["x-keep", "x-a", "x-stainless-lang"]))
        .set("/return_headers", json!(["x-b", "x-kept"]))
        .start()
        .await;
    let headers = [
        ("connection", "x-b"),
        ("x-b", "1"),
        ("x-kept", "1"),
        ("x-not-listed", "1"),
        ("set-cookie", "a=b"),
        ("server", "upstream"),
        ("x-request-id", "the-upstreams"),
    ];
    let answer = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": HEALTHY_TEXT}, "finish_reason": "stop"}]});
    for stream in [true, false] {
        let form: Vec<Step> = if stream {
            vec![ROLE, TXT(HEALTHY_TEXT), FIN("stop"), DONE]
        } else {
            vec![RAW(answer.to_string())]
        };
        let chunked = [&headers[..], &[("transfer-encoding", "chunked")]].concat();
        x.a.play([&[HEAD(200, &chunked)][..], &form[..]].concat());
        let mut call = x.call("solo").set("stream", stream).set("pad", "x".repeat(100));
        for (name, value) in [
            ("connection", "x-a, keep-alive"),
            ("x-a", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "Basic Zm9vOmJhcg=="),
            ("authorization", "Bearer gw-key-of-the-caller"),
            ("cookie", "c=1"),
            ("x-stainless-lang", "x"),
            ("x-keep", "1"),
            ("x-other", "1"),
            ("x-forwarded-host", "sink"),
        ] {
            call = call.header(name, value);
        }
        let r = call.await;
        r.answered();
        let seen = x.a.attempts().pop().unwrap();
        assert_eq!(seen.key(), Some(harness::setup::key_of("A").as_str()));
        assert_eq!(seen.header("host"), Some(x.a.addr().to_string().as_str()));
        let mut names: Vec<String> = seen.headers().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "accept-encoding",
                "authorization",
                "content-length",
                "content-type",
                "host",
                "x-keep",
                "x-request-id",
                "x-stainless-lang"
            ]
        );
        assert_eq!(seen.header("content-length"), Some(seen.body.len().to_string().as_str()));
        assert_eq!(seen.header("x-request-id"), r.request_id());
        assert_ne!(r.request_id(), Some("the-upstreams"));
        assert_eq!((r.header("x-kept"), r.header("x-b"), r.header("set-cookie")), (Some("1"), None, None));
        assert_eq!(
            (r.header("x-not-listed"), r.header("server"), r.header("connection")),
            (None, None, None),
            "{r:?}"
        );
    }
    x.end().await;
}

#[tokio::test]
async fn redirects_are_never_followed() {
    for status in [301, 302, 303, 307, 308] {
        for stream in [true, false] {
            let x = Setup::new().start().await;
            let to = format!("{}/chat/completions", x.sink.base_url());
            x.a.play(WITH(status, &[("location", &to)], ""));
            x.call("chat").set("stream", stream).await.answered().tags("B/b1", true);
            let alone = x.call("solo").set("stream", stream).await;
            alone.refused(502, "retryable_upstream");
            assert_eq!(alone.header("location"), None);
            x.breaker_is("A/a1", "closed", 2).await;
            x.end().await;
        }
    }
}

#[tokio::test]
async fn b071_a_connection_that_was_closed_while_idle_is_redialled() {
    let x = Setup::new().start().await;
    x.a.idle_close(ms(300));
    x.call("chat").await.answered().tags("A/a1", false);
    // Longer than A keeps an idle connection.
    tokio::time::sleep(ms(400)).await;
    x.call("chat").await.answered().tags("A/a1", false);
    x.calls([2, 0, 0]);
    assert_eq!(x.a.connections(), 2);
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn b071_a_reused_connection_that_closes_without_a_byte_is_redialled_once() {
    let x = Setup::new().start().await;
    x.a.decide(|attempt| attempt.reused.then(|| CUT.into()));
    // A plain answer gives its connection back before the client has it.
    x.plain("chat").await.answered();
    let second = x.call("chat").await;
    second.answered().tags("A/a1", false).attempts(1);
    assert_eq!((x.a.calls(), x.a.connections(), x.b.calls()), (3, 2, 0));
    x.breaker_is("A/a1", "closed", 0).await;
    has(
        &x.record(&second).await,
        &json!({"attempts": [{"target": "A/a1", "kind": null}], "failure_kind": null}),
    );
    // And when the fresh one does the same, that is a failure.
    let x2 = Setup::new().start().await;
    x2.plain("chat").await.answered();
    x2.a.play(CUT);
    let failed = x2.call("chat").await;
    failed.answered().tags("B/b1", true).attempts(2);
    assert_eq!((x2.a.calls(), x2.b.calls()), (3, 1), "one redial, no more");
    x2.breaker_is("A/a1", "closed", 1).await;
    x2.end().await;
    x.end().await;
}

#[tokio::test]
async fn b071_a_fresh_connection_that_closes_without_a_byte_is_a_failure() {
    let x = Setup::new().start().await;
    x.a.play(CUT);
    x.call("chat").await.answered().tags("B/b1", true).attempts(2);
    x.calls([1, 1, 0]);
    x.breaker_is("A/a1", "closed", 1).await;
    x.end().await;
}

#[tokio::test]
async fn b073_large_request_bodies() {
    let x = Setup::new().set("/limits", json!({"body": "20MB"})).start().await;
    x.a.play(STATUS(503));
    let image = format!("data:image/png;base64,{}", "QUJD".repeat(1_500_000));
    let body = json!({"model": "chat", "stream": true, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}]})
        .to_string();
    for (n, chunked) in [false, true].into_iter().enumerate() {
        let call = x.call("chat").body(body.clone());
        let call = if chunked { call.chunked() } else { call };
        call.await.answered().tags("B/b1", true);
        for (upstream, model) in [(&x.a, "a1"), (&x.b, "b1")] {
            let seen = upstream.attempt(n);
            let expected = body.replacen("\"chat\"", &format!("\"{model}\""), 1);
            assert!(seen.body == expected.as_bytes(), "{} got {} bytes", upstream.name(), seen.body.len());
        }
    }
    let over = format!("{{\"model\":\"chat\",\"x\":\"{}\"}}", "x".repeat(21_000_000));
    x.call("chat").body(over).await.refused(413, "body_too_large");
    x.calls([2, 2, 0]);
    x.end().await;
}
