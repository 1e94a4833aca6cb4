//! Pages in browsers: what they are told before they call, and on every answer.

use harness::client::fetch;
use harness::prelude::*;
use harness::setup::caller_key;

const PAGE: &str = "https://app.example";
const ALLOW: &str = "access-control-allow-origin";

fn pages(cors: Value) -> Setup {
    Setup::new().caller("ops", json!({})).calls_as("ops").set("/cors", cors)
}

/// A request without a body, on a connection of its own.
async fn ask(x: &Case, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: sluice\r\nconnection: close\r\n{headers}\r\n");
    fetch(x.gateway.addr(), request.as_bytes()).await
}

async fn preflight(x: &Case, path: &str, origin: &str) -> Response {
    let asks = (
        "access-control-request-headers",
        "authorization, content-type, x-stainless-os, x-stainless-retry-count",
    );
    ask(x, "OPTIONS", path, &[("origin", origin), ("access-control-request-method", "POST"), asks]).await
}

/// The names that a page may read of an answer.
fn exposed(response: &Response) -> Vec<String> {
    let lists = response.headers.iter().filter(|(name, _)| name == "access-control-expose-headers");
    lists.flat_map(|(_, list)| list.split(", ")).map(str::to_owned).collect()
}

#[track_caller]
fn allowed(response: &Response, origin: &str) {
    assert_eq!((response.header(ALLOW), response.header_count(ALLOW)), (Some(origin), 1), "{response:?}");
}

#[tokio::test]
async fn b078_browser_clients() {
    let x = pages(json!({"origins": [PAGE], "max_age": "1h"})).start().await;
    let head = HEAD(200, &[("content-type", "text/event-stream"), (ALLOW, "*"), ("vary", "Origin")]);
    x.a.play([head, ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    for path in ["/v1/chat/completions", "/v1/embeddings", "/v1/models", "/anywhere"] {
        let r = preflight(&x, path, PAGE).await;
        assert_eq!((r.status, r.body.len(), r.end), (204, 0, End::Complete), "{r:?}");
        allowed(&r, PAGE);
        let of = |name: &str| r.header(name).unwrap_or_else(|| panic!("no {name}: {r:?}")).to_owned();
        assert_eq!(
            of("access-control-allow-headers"),
            "authorization, content-type, x-stainless-os, x-stainless-retry-count"
        );
        assert_eq!(of("access-control-allow-methods"), "GET, POST");
        assert_eq!(of("access-control-max-age"), "3600");
        assert!(r.request_id().is_some() && r.header("access-control-allow-credentials").is_none(), "{r:?}");
    }
    // A key that is none, in the same words as everybody gets.
    let r = x.call("chat").key("sk-bad").header("origin", PAGE).await;
    r.refused(401, "invalid_api_key");
    allowed(&r, PAGE);
    x.calls([0, 0, 0]);
    let r = x.call("chat").header("origin", PAGE).await;
    r.answered();
    allowed(&r, PAGE);
    assert_eq!(r.header("vary"), Some("origin"), "{r:?}");
    let readable = exposed(&r);
    for (name, _) in r.headers.iter().filter(|(name, _)| name.starts_with("x-sluice-")) {
        assert!(readable.contains(name), "{name} cannot be read: {readable:?}");
    }
    for name in ["x-request-id", "retry-after", "x-ratelimit-remaining-tokens", "x-sluice-failure-kind"] {
        assert!(readable.iter().any(|known| known == name), "{name} cannot be read: {readable:?}");
    }
    // Another origin.
    let r = preflight(&x, "/v1/chat/completions", "https://evil.example").await;
    assert!(r.headers.iter().all(|(name, _)| !name.starts_with("access-control-")), "{r:?}");
    let r = x.call("chat").header("origin", "https://evil.example").await;
    assert!(r.answered().headers.iter().all(|(name, _)| !name.starts_with("access-control-")), "{r:?}");
    assert_eq!(r.header("vary"), Some("origin"), "caches must know that it depends: {r:?}");
    // No way around.
    for headers in [&[][..], &[("origin", PAGE)], &[("access-control-request-method", "POST")]] {
        let r = ask(&x, "OPTIONS", "/v1/chat/completions", headers).await;
        r.refused(405, "method_not_allowed");
        assert_eq!(r.header(ALLOW), headers.iter().any(|(name, _)| *name == "origin").then_some(PAGE));
    }
    x.calls([2, 0, 0]);
    // Preflights are no requests: three of OPTIONS, one without a key, two that were answered.
    x.metric_becomes("sluice_requests_total", &[], 6.0).await;
    x.end().await;
}

#[tokio::test]
async fn every_answer_of_the_main_listener_can_be_read_by_the_page() {
    let tags = json!({"names": {"route": "x-way", "policy": "off"}});
    let x = pages(json!({"origins": ["http://other.example", PAGE]})).set("/tags", tags).start().await;
    x.a.play(STATUS(503));
    let origin = ("origin", PAGE);
    let bearer = format!("Bearer {}", caller_key("ops"));
    let key = ("authorization", bearer.as_str());
    for (answer, status) in [
        (ask(&x, "GET", "/v1/models", &[origin, key]).await, 200),
        (ask(&x, "GET", "/v1/models", &[origin]).await, 401),
        (ask(&x, "GET", "/v1/models/none", &[origin, key]).await, 404),
        (ask(&x, "GET", "/nowhere", &[origin]).await, 404),
        (ask(&x, "GET", "/readyz", &[origin]).await, 200),
        (x.call("solo").header("origin", PAGE).await, 503),
        (x.call("nowhere").header("origin", PAGE).await, 404),
        (x.plain("other").header("origin", PAGE).await, 200),
    ] {
        assert_eq!(answer.status, status, "{answer:?}");
        allowed(&answer, PAGE);
        let readable = exposed(&answer);
        assert!(readable.iter().any(|name| name == "x-way"), "{readable:?}");
        assert!(
            readable.iter().all(|name| name != "x-sluice-route" && name != "x-sluice-policy"),
            "{readable:?}"
        );
    }
    x.end().await;
}

#[tokio::test]
async fn any_origin_and_none_at_all() {
    let x = pages(json!({"origins": ["*"]})).start().await;
    for origin in [PAGE, "null"] {
        allowed(&preflight(&x, "/v1/chat/completions", origin).await, "*");
        let r = x.call("solo").header("origin", origin).await;
        allowed(r.answered(), "*");
    }
    assert!(x.call("solo").await.answered().header(ALLOW).is_none());
    x.end().await;
    let x = Setup::new().start().await;
    preflight(&x, "/v1/chat/completions", PAGE).await.refused(405, "method_not_allowed");
    let r = x.call("solo").header("origin", PAGE).await;
    assert!(
        r.answered().headers.iter().all(|(name, _)| !name.starts_with("access-control-") && name != "vary"),
        "{r:?}"
    );
    x.end().await;
}
