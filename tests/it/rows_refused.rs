//! Row 15: what is no request that could be served is told so in OpenAI's shape, and costs no upstream call.

use crate::expect::has;
use harness::client::fetch;
use harness::prelude::*;

async fn refused(x: &Case, r: &Response, status: u16, code: &str, param: Value) {
    r.refused(status, code);
    assert_eq!(r.request_id(), r.error()["request_id"].as_str(), "{r:?}");
    has(&r.error(), &json!({"type": "invalid_request_error", "param": param, "attempts": []}));
    let invalid =
        json!({"status_code": status, "outcome": "invalid_request", "attempts": [], "upstream": null});
    has(&x.record(r).await, &invalid);
    x.calls([0, 0, 0]);
}

#[tokio::test]
async fn row_15_a_body_of_64_megabytes_is_413_however_it_is_framed() {
    let x = Setup::new().start().await;
    let mut body = br#"{"model":"chat","messages":[{"role":"user","content":""#.to_vec();
    body.resize((64 << 20) - 4, b'x');
    body.extend_from_slice(b"\"}]}");
    for chunked in [false, true] {
        let call = x.plain("chat").body(body.clone());
        let r = if chunked { call.chunked().await } else { call.await };
        refused(&x, &r, 413, "body_too_large", Value::Null).await;
    }
    x.outcome("invalid_request", 2).await;
    x.end().await;
}

#[tokio::test]
async fn row_15_what_is_no_request_is_400() {
    let x = Setup::new().start().await;
    let deep = format!(r#"{{"model":"chat","messages":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
    let table: [(&[u8], &str, Value); 16] = [
        (b"", "invalid_json", Value::Null),
        (b"not json", "invalid_json", Value::Null),
        (b"{\"model\":\"chat\",\"messages\":[]", "invalid_json", Value::Null),
        (b"{\"model\":\"chat\",\"messages\":[]} trailing", "invalid_json", Value::Null),
        (b"{\"model\":\"chat\",\"messages\":[\"\xff\"]}", "invalid_json", Value::Null),
        (b"{\"model\":\"chat\",\"messages\":[],\"n\":01}", "invalid_json", Value::Null),
        (b"{\"model\":\"chat\",\"messages\":[{\"content\":\"\n\"}]}", "invalid_json", Value::Null),
        (deep.as_bytes(), "invalid_request", Value::Null),
        (b"{\"model\":\"chat\",\"model\":\"solo\",\"messages\":[]}", "invalid_request", "model".into()),
        (b"{\"model\":\"chat\",\"mod\\u0065l\":\"solo\",\"messages\":[]}", "invalid_request", "model".into()),
        (
            b"{\"stream\":true,\"model\":\"chat\",\"messages\":[],\"stream\":false}",
            "invalid_request",
            "stream".into(),
        ),
        (b"{\"messages\":[]}", "invalid_request", "model".into()),
        (b"{\"model\":7,\"messages\":[]}", "invalid_request", "model".into()),
        (b"{\"model\":\"chat\",\"stream\":\"yes\",\"messages\":[]}", "invalid_request", "stream".into()),
        (b"[]", "invalid_json", Value::Null),
        (b"null", "invalid_json", Value::Null),
    ];
    for (body, code, param) in &table {
        let r = x.plain("chat").body(*body).header("x-request-id", "row-15").await;
        assert_eq!(r.status, 400, "{:?}: {r:?}", String::from_utf8_lossy(&body[..body.len().min(80)]));
        if r.code() != *code || r.error()["param"] != *param {
            panic!("{:?}: {r:?}", String::from_utf8_lossy(&body[..body.len().min(80)]));
        }
        assert_eq!(r.request_id(), Some("row-15"));
    }
    for (_, code, param) in [&table[1], &table[8]] {
        let r = x.plain("chat").body(if *code == "invalid_json" { table[1].0 } else { table[8].0 }).await;
        refused(&x, &r, 400, code, param.clone()).await;
    }
    for budget in ["0", "-1", "soon", "1.5", ""] {
        let r = x.plain("chat").header("x-sluice-budget-ms", budget).await;
        refused(&x, &r, 400, "invalid_request", Value::Null).await;
    }
    x.end().await;
}

#[tokio::test]
async fn row_15_what_is_not_there_is_404() {
    let x = Setup::new().start().await;
    for model in ["gpt-9", "", "chat ", "Chat", "A/a1", "a1"] {
        for stream in [true, false] {
            let r = x.plain(model).set("stream", stream).await;
            refused(&x, &r, 404, "model_not_found", "model".into()).await;
        }
    }
    let model = x.get("/v1/models/gpt-9").await;
    model.refused(404, "model_not_found");
    for path in [
        "/",
        "/v1",
        "/v1/chat",
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1/chat/completion%73",
        "/metrics",
        "/debug/upstreams",
    ] {
        let r = x.plain("chat").path(path).await;
        refused(&x, &r, 404, "not_found", Value::Null).await;
    }
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
        let request =
            format!("{method} /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
        let r = fetch(x.gateway.addr(), request.as_bytes()).await;
        refused(&x, &r, 405, "method_not_allowed", Value::Null).await;
        assert_eq!(r.header("allow"), Some("POST"), "{r:?}");
    }
    x.metric_becomes("sluice_requests_total", &[("outcome", "invalid_request")], 26.0).await;
    x.end().await;
}
