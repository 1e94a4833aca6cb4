//! Row 8: what another target would answer just the same, or what a switch would hide.

use crate::expect::{has, told};
use harness::prelude::*;

/// At once: long before any clock of the conventions.
const AT_ONCE: std::time::Duration = ms(700);

async fn ask(x: &Case, stream: bool) -> Response {
    let r = if stream { x.call("chat") } else { x.plain("chat") }.await;
    assert!(r.took() < AT_ONCE, "{r:?}");
    r.route_tags(false).attempts(1);
    assert_eq!(r.header("x-should-retry"), Some("false"), "{r:?}");
    r
}

async fn nobody_else_was_called_and_nobody_blamed(x: &Case, r: &Response, kind: &str, status: u16) {
    assert_eq!(r.header("x-sluice-failure-kind"), Some(kind));
    let rejected = json!({
        "outcome": "rejected_upstream", "status_code": r.status, "failure_kind": kind, "route": "primary",
        "attempts": [{"target": "A/a1", "kind": kind, "status": status}],
    });
    has(&x.record(r).await, &rejected);
    told(x, r, &[("provider_request_failed", "A/a1")]);
    x.outcome("rejected_upstream", 1).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.metric_becomes("sluice_breaker_transitions_total", &[], 0.0).await;
    x.calls([1, 0, 0]);
}

#[tokio::test]
async fn row_08_a_bad_request_is_passed_on_at_once() {
    let error = |kind: &str, code: Value, param: Value| json!({"error": {"message": "the upstream's own words", "type": kind, "param": param, "code": code}});
    let invalid = "invalid_request_error";
    let table = [
        (
            400,
            error(invalid, "unsupported_value".into(), "temperature".into()),
            "unsupported_value",
            "invalid_request",
        ),
        (400, error(invalid, Value::Null, "n".into()), "invalid_request", "invalid_request"),
        (422, error(invalid, "bad_tool".into(), "tools".into()), "bad_tool", "invalid_request"),
        (400, error(invalid, "content_filter".into(), "prompt".into()), "content_filter", "content_filtered"),
        (
            400,
            error(invalid, "context_length_exceeded".into(), "messages".into()),
            "context_length_exceeded",
            "context_length_exceeded",
        ),
    ];
    for (status, body, code, kind) in table {
        for stream in [true, false] {
            let x = Setup::new().start().await;
            x.a.play(JSON(status, &body));
            let r = ask(&x, stream).await;
            r.refused(status, code);
            let own = json!({"message": "the upstream's own words", "type": invalid, "param": body["error"]["param"]});
            has(&r.error(), &own);
            nobody_else_was_called_and_nobody_blamed(&x, &r, kind, status).await;
            x.end().await;
        }
    }
}

#[tokio::test]
async fn row_08_a_refused_credential_is_told_as_what_it_is() {
    for (status, stream) in [(401, false), (403, true), (403, false), (401, true)] {
        let x = Setup::new().start().await;
        let body = json!({"error": {"message": "Incorrect API key provided: sk-wrong", "type": "auth", "code": "invalid_api_key"}});
        x.a.play(JSON(status, &body));
        let r = ask(&x, stream).await;
        r.refused(502, "auth_denied");
        let said = String::from_utf8_lossy(&r.body);
        assert!(!said.contains("sk-wrong") && !said.contains("Incorrect"), "the upstream's words: {said}");
        nobody_else_was_called_and_nobody_blamed(&x, &r, "auth_denied", status).await;
        // Until its cool-down ends the credential is not shown again, and a switch would still hide it.
        let again = x.plain("chat").await;
        again.refused(502, "auth_denied");
        assert_eq!(again.header("x-should-retry"), Some("false"), "{again:?}");
        x.calls([1, 0, 0]);
        x.end().await;
    }
}
