//! Worked cases: the client's bytes stay its own, and so does our choice of where they go.

use harness::client::fetch;
use harness::prelude::*;

#[tokio::test]
async fn b079_the_clients_json_is_not_rewritten() {
    let body = |model: &str, stream: bool| {
        format!(
            "\n{{\t\"seed\":9007199254740993 , \"temperature\":1.0,\"x_vendor\":{{\"b\":1,\"a\":2}},\r\n \"response_format\":{{\"type\":\"json_schema\",\"json_schema\":{{\"name\":\"n\",\"schema\":{{\"properties\":{{\"zebra\":{{}},\"apple\":{{}},\"mango\":{{}}}}}}}}}},  \"messages\" : [ {{\"role\":\"user\",\"content\":\"caf\\u00e9 \\/ \\ud83d\\ude42 é \\\"model\\\":\\\"chat\\\"\"}} ],\"model\" :  \"{model}\"  ,\"stream\":{stream}, \"n\":1e0}}\n"
        )
    };
    let x = Setup::new().start().await;
    for (n, stream) in [true, false, true, false].into_iter().enumerate() {
        x.call("chat").body(body("chat", stream)).await.answered();
        let seen = x.a.attempt(n);
        assert_eq!(String::from_utf8_lossy(&seen.body), body("a1", stream));
    }
    x.end().await;
}

#[tokio::test]
async fn b079_the_upstreams_json_is_not_rewritten() {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{ \"zebra\":1.0, \"id\" : \"x\",\"big\":9007199254740993,\"choices\":[{{\"delta\":{delta} ,\"index\":0,\"finish_reason\":{finish}}}],\t\"model\":\"a1-2026\", \"apple\":\"\\u00e9\\/\"}}\n\n"
        )
    };
    let stream =
        [chunk("{\"content\":\"one \"}", "null"), chunk("{ }", "\"stop\""), "data: [DONE]\n\n".to_owned()]
            .concat();
    let whole = "{ \"object\":\"chat.completion\", \"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"caf\\u00e9 \\/\"},\"finish_reason\":\"stop\"}],\"zebra\":1.0,\n\"big\":9007199254740993 }\n";
    let x = Setup::new().start().await;
    x.a.play(RAW(stream.clone()));
    let r = x.call("chat").await;
    assert_eq!(String::from_utf8_lossy(&r.body), stream);
    x.a.play(ANSWER(200, "application/json", whole));
    let r = x.plain("chat").await;
    assert_eq!(String::from_utf8_lossy(&r.body), whole);
    x.calls([2, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn b081_the_client_does_not_choose_where_we_connect() {
    let x = Setup::new().start().await;
    let sink = x.sink.addr();
    let body = json!({
        "model": "chat", "messages": [{"role": "user", "content": "hello"}], "stream": false,
        "api_base": format!("http://{sink}/v1"), "base_url": format!("http://{sink}/v1"), "api_key": "sk-of-the-caller",
        "extra_headers": {"authorization": "Bearer sk-of-the-caller"}, "fallbacks": [{"api_base": format!("http://{sink}/v1")}],
    })
    .to_string();
    let heads = [
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {sink}\r\n"),
        format!("POST http://{sink}/v1/chat/completions HTTP/1.1\r\nhost: {sink}\r\n"),
        format!("POST http://{sink}/v1/chat/completions HTTP/1.1\r\nhost: {}\r\n", x.gateway.addr()),
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-openai-base-url: http://{sink}\r\nx-base-url: http://{sink}\r\nx-forwarded-host: {sink}\r\nforwarded: host={sink}\r\nx-original-url: http://{sink}/\r\nauthorization: Bearer sk-of-the-caller\r\n"
        ),
        format!("POST /v1/chat/completions?base_url=http://{sink} HTTP/1.1\r\nhost: x\r\n"),
    ];
    for (n, head) in heads.iter().enumerate() {
        let request =
            format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let r = fetch(x.gateway.addr(), request.as_bytes()).await;
        r.answered().tags("A/a1", false);
        x.calls([n + 1, 0, 0]);
        let seen = x.a.attempt(n);
        assert_eq!(seen.path(), "/v1/chat/completions");
        assert_eq!(seen.header("host"), Some(x.a.addr().to_string().as_str()));
        assert_eq!(seen.key(), Some(harness::setup::key_of("A").as_str()));
        let stray: Vec<_> = seen.headers().filter(|(_, value)| value.contains(&sink.to_string())).collect();
        assert!(stray.is_empty(), "{stray:?}");
        assert_eq!(seen.headers().filter(|(name, _)| name == "authorization").count(), 1);
    }
    // CONNECT asks for a tunnel; there is none.
    let r =
        fetch(x.gateway.addr(), format!("CONNECT {sink} HTTP/1.1\r\nhost: {sink}\r\n\r\n").as_bytes()).await;
    assert!((400..=501).contains(&r.status), "{r:?}");
    x.end().await;
}
