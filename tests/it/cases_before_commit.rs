//! Worked cases: what fails before the client was shown anything is replaced, and leaves no trace in the
//! answer.

use crate::expect::{LATE, own_bytes};
use harness::prelude::*;

#[tokio::test]
async fn b001_an_error_object_as_the_first_event() {
    let x = Setup::new().start().await;
    x.a.play([ERR(503), DONE, END]);
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true).attempts(2);
    assert_eq!(r.body, own_bytes("B", "b1", true, OK).await, "a trace of the first target: {r:?}");
    x.calls([1, 1, 0]);
    x.breaker_is("A/a1", "closed", 1).await;
    x.end().await;

    let x = Setup::new().start().await;
    x.a.play([ERR_OF("invalid_request_error", 400), DONE, END]);
    let r = x.call("chat").await;
    r.route_tags(false).attempts(1);
    assert_eq!((r.status, r.is_stream()), (400, false), "{r:?}");
    assert_eq!(r.error()["type"], "invalid_request_error", "{r:?}");
    x.calls([1, 0, 0]);
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn b003_200_then_nothing_at_all() {
    let empty = [HEAD(200, &[("content-type", "application/json"), ("content-length", "0")]), END];
    let scripts: [(Script, bool); 3] =
        [([SSE, END].into(), true), (empty.clone().into(), false), (empty.into(), true)];
    for (script, stream) in scripts {
        let x = Setup::new().start().await;
        x.a.play(script.clone());
        let r = if stream { x.call("chat").await } else { x.plain("chat").await };
        r.answered().tags("B/b1", true).attempts(2);
        x.calls([1, 1, 0]);
        x.breaker_is("A/a1", "closed", 1).await;
        let alone = if stream { x.call("solo").await } else { x.plain("solo").await };
        alone.refused(502, "retryable_upstream").attempts(1);
        x.calls([2, 1, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn b004_accepted_and_silent() {
    for stream in [true, false] {
        let x = Setup::new().start().await;
        x.a.play(SILENT);
        let r = if stream { x.call("chat").await } else { x.plain("chat").await };
        r.answered().tags("B/b1", true).attempts(2);
        x.between(r.head_took().unwrap(), ms(1000), ms(1200));
        let closed = x.closed_after(&x.a, 0, r.sent).await;
        x.near(closed, ms(1000));
        x.calls([1, 1, 0]);
        x.breaker_is("A/a1", "closed", 1).await;
        let alone = if stream { x.call("solo").await } else { x.plain("solo").await };
        alone.refused(504, "budget_exhausted").attempts(1);
        x.between(alone.took(), ms(4950), ms(5000));
        x.end().await;
    }
}

#[tokio::test]
async fn b006_each_attempt_is_built_for_its_own_target() {
    let x = Setup::new().start().await;
    x.a.play(STATUS(503));
    x.b.play(STATUS(503));
    let long = "é ".repeat(20_000);
    let body = |model: &str| {
        format!(
            "{{ \"model\":\"{model}\",\n \"messages\":[{{\"role\":\"user\",\"content\":\"{long}\"}}],\"stream\":true}}"
        )
    };
    assert!(body("chat").len() > 40 << 10);
    let r = x.call("chat3").body(body("chat3")).chunked().await;
    r.answered().tags("C/c1", true).attempts(3);
    x.calls([1, 1, 1]);
    for (upstream, model) in [(&x.a, "a1"), (&x.b, "b1"), (&x.c, "c1")] {
        let seen = upstream.attempt(0);
        assert_eq!(seen.model(), model);
        assert!(seen.body == body(model), "{model}: not the client's own bytes");
        assert_eq!(seen.key(), Some(harness::setup::key_of(upstream.name()).as_str()));
        assert_eq!(seen.header("content-length"), Some(body(model).len().to_string().as_str()));
        assert_eq!(seen.header("transfer-encoding"), None);
        assert_eq!(seen.header("host"), Some(upstream.addr().to_string().as_str()));
    }
    x.end().await;
}

#[tokio::test]
async fn b007_everything_failed_before_content() {
    for accept in [None, Some("text/event-stream")] {
        let x = Setup::new().start().await;
        x.a.play(JOIN([SLEEP(300).into(), STATUS(503)]));
        x.b.play([ROLE, ERR(500)]);
        let call = x.call("chat");
        let r = match accept {
            None => call.await,
            Some(accept) => call.header("accept", accept).await,
        };
        r.refused(502, "retryable_upstream").route_tags(true).attempts(2);
        assert!(!String::from_utf8_lossy(&r.raw).contains("data:"), "bytes of a stream: {r:?}");
        assert_eq!(r.header("x-sluice-model"), Some("chat"));
        assert_eq!(r.header("x-sluice-upstream"), None, "an error was served by nobody: {r:?}");
        assert!(r.took() < ms(1000) + LATE, "{r:?}");
        x.calls([1, 1, 0]);
        x.end().await;
    }
}
