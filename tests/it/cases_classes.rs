//! Worked cases: what an upstream's failure is called, what follows it, and what the client is told.

use crate::expect::{LATE, has};
use harness::prelude::*;
use harness::refuse::{Refusing, Swallowing};

#[tokio::test]
async fn b033_a_429_moves_on_and_never_wipes_the_failure_count() {
    let x = Setup::new().start().await;
    x.a.queue(STATUS(503)).queue(STATUS(503)).queue(LIMITED(&[]));
    for failures in 1..=3 {
        x.call("chat").await.answered().tags("B/b1", true).attempts(2);
        x.breaker_is("A/a1", if failures < 3 { "closed" } else { "open" }, failures).await;
    }
    x.call("chat").await.answered().tags("B/b1", true).attempts(1);
    x.calls([3, 4, 0]);
    x.end().await;

    let x = Setup::new().start().await;
    x.a.queue(STATUS(503)).queue(STATUS(503)).queue(LIMITED(&[("retry-after", "1")])).queue(STATUS(503));
    for _ in 0..3 {
        x.call("chat").await.answered().tags("B/b1", true).attempts(2);
    }
    let limited = now();
    x.breaker_is("A/a1", "closed", 2).await;
    x.call("chat").await.answered().tags("B/b1", true).attempts(1);
    x.calls([3, 4, 0]);
    // The case's fourth call comes when the second that A asked for is over.
    tokio::time::sleep_until((limited + ms(1100)).into()).await;
    x.call("chat").await.answered().tags("B/b1", true).attempts(2);
    x.calls([4, 5, 0]);
    x.breaker_is("A/a1", "open", 3).await;
    x.end().await;
}

#[tokio::test]
async fn b036_overload_and_cdn_statuses() {
    let html = "<html><body>cloud edge says no</body></html>";
    let timeout = "retryable_timeout";
    let table = [
        (408, 504, timeout),
        (500, 502, "retryable_upstream"),
        (502, 502, "retryable_upstream"),
        (503, 503, "retryable_upstream"),
        (504, 504, timeout),
        (520, 502, "retryable_upstream"),
        (522, 502, "retryable_upstream"),
        (524, 504, timeout),
        (529, 503, "retryable_upstream"),
    ];
    for (n, (status, told, kind)) in table.into_iter().enumerate() {
        let bodies = [STATUS(status), ANSWER(status, "text/html", html)];
        let (first, second) = (bodies[n % 2].clone(), bodies[(n + 1) % 2].clone());
        let x = Setup::new().start().await;
        x.a.queue(first.clone()).queue(second.clone());
        for (count, call) in [(1, x.call("chat")), (2, x.plain("chat"))] {
            let r = call.await;
            r.answered().tags("B/b1", true).attempts(2);
            assert_eq!(r.header("x-sluice-failure-kind"), Some(kind), "{status}");
            x.breaker_is("A/a1", "closed", count).await;
        }
        x.calls([2, 2, 0]);
        let status_text = status.to_string();
        let label =
            [("target", "A/a1"), ("kind", kind), ("status", status_text.as_str()), ("role", "primary")];
        x.metric_becomes("sluice_attempt_failures_total", &label, 2.0).await;
        x.metric_becomes("sluice_attempt_failures_total", &[], 2.0).await;
        x.end().await;

        let x = Setup::new().start().await;
        x.a.queue(second).queue(first);
        for call in [x.call("solo"), x.plain("solo")] {
            let r = call.await;
            r.refused(told, kind).route_tags(false).attempts(1);
            assert!(!String::from_utf8_lossy(&r.raw).contains("cloud edge"), "{status}: {r:?}");
        }
        x.end().await;
    }
}

#[tokio::test]
async fn b039_200_with_an_error_inside() {
    let words = "words of the relay, for nobody";
    let object = json!({"error": {"message": words, "code": "upstream_failed"}});
    let bodies = || {
        [
            JSON(200, &object),
            ANSWER(200, "text/html", format!("<html><body>{words}</body></html>")),
            ANSWER(200, "text/plain", words),
        ]
    };
    let x = Setup::new().start().await;
    for (failures, body) in (1..).zip(bodies()) {
        x.a.play(body);
        let r = x.plain("chat").await;
        r.answered().tags("B/b1", true).attempts(2);
        assert!(!String::from_utf8_lossy(&r.raw).contains(words), "{r:?}");
        x.breaker_is("A/a1", if failures < 3 { "closed" } else { "open" }, failures).await;
    }
    x.calls([3, 3, 0]);
    let failed = [("target", "A/a1"), ("kind", "retryable_upstream"), ("status", "200")];
    x.metric_becomes("sluice_attempt_failures_total", &failed, 3.0).await;
    x.outcome("fallback_success", 3).await;
    x.end().await;
    for body in bodies() {
        let x = Setup::new().start().await;
        x.a.play(body);
        let r = x.plain("solo").await;
        r.refused(502, "retryable_upstream").attempts(1);
        assert!(!String::from_utf8_lossy(&r.raw).contains(words), "A's text is echoed: {r:?}");
        x.breaker_is("A/a1", "closed", 1).await;
        x.end().await;
    }
}

/// A's place is taken by nobody who would answer; what it stands for ends with the case.
struct Trouble {
    name: &'static str,
    setup: fn(Setup, &str) -> Setup,
    /// What the address must not be told as.
    address: String,
    script: Option<Script>,
}

fn at_url(setup: Setup, url: &str) -> Setup {
    setup.set("/upstreams/A/base_url", url)
}

async fn trouble(trouble: &Trouble, url: &str, status: u16) {
    let x = (trouble.setup)(Setup::new(), url).start().await;
    if let Some(script) = &trouble.script {
        x.a.play(script.clone());
    }
    let kind = if status == 504 { "retryable_timeout" } else { "retryable_upstream" };
    for (count, call) in [(1, x.call("solo")), (2, x.plain("solo"))] {
        let r = call.await;
        r.refused(status, kind).attempts(1);
        let message = r.error()["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with(trouble.name), "{}: {message}", trouble.name);
        let raw = String::from_utf8_lossy(&r.raw);
        for hidden in [trouble.address.as_str(), "127.0.0.1"] {
            assert!(!raw.contains(hidden), "{}: an address is told: {r:?}", trouble.name);
        }
        match status {
            504 => x.near(r.took(), ms(500)),
            _ => assert!(r.took() < ms(500) + LATE, "{}: {r:?}", trouble.name),
        }
        x.breaker_is("A/a1", "closed", count).await;
    }
    x.end().await;
    let x = (trouble.setup)(Setup::new(), url).start().await;
    if let Some(script) = &trouble.script {
        x.a.play(script.clone());
    }
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true).attempts(2);
    assert_eq!(r.header("x-sluice-failure-kind"), Some(kind));
    x.breaker_is("A/a1", "closed", 1).await;
    has(
        &x.record(&r).await,
        &json!({"outcome": "fallback_success", "attempts": [{"target": "A/a1", "kind": kind, "status": null}, {"kind": null}]}),
    );
    x.end().await;
}

#[tokio::test]
async fn b042_connection_trouble_is_502_and_not_400() {
    let (refusing, swallowing) = (Refusing::new(), Swallowing::new());
    // A label over 63 bytes is no name that any resolver could know, and none is asked over the network.
    let unknown = format!("{}.invalid", "n".repeat(70));
    let url = |host: String| format!("http://{host}/v1");
    let plain = |name, address: String, script| Trouble { name, setup: at_url, address, script };
    let port = |addr: std::net::SocketAddr| addr.port().to_string();
    let a = plain("refused", port(refusing.addr()), None);
    trouble(&a, &url(refusing.addr().to_string()), 502).await;
    trouble(&plain("dns", unknown.clone(), None), &url(unknown), 502).await;
    let c = Trouble {
        name: "reset",
        setup: |setup, _| setup,
        address: "http://".to_owned(),
        script: Some(RST.into()),
    };
    trouble(&c, "", 502).await;
    let d = Trouble {
        name: "tls",
        setup: |setup, _| setup.tls_for_a("another.example"),
        address: "another.example".to_owned(),
        script: None,
    };
    trouble(&d, "", 502).await;
    let e = plain("timeout", port(swallowing.addr()), None);
    trouble(&e, &url(swallowing.addr().to_string()), 504).await;
}

#[tokio::test]
async fn b055_failures_after_the_headers_count_too() {
    let x = Setup::new().start().await;
    x.a.play([ROLE, TXT("one "), CUT]);
    for failures in 1..=3 {
        x.call("chat").await.broken_stream("one ").tags("A/a1", false).attempts(1);
        x.breaker_is("A/a1", if failures < 3 { "closed" } else { "open" }, failures).await;
    }
    x.call("chat").await.answered().tags("B/b1", true).attempts(1);
    x.calls([3, 1, 0]);
    x.metric_becomes("sluice_attempt_failures_total", &[("target", "A/a1")], 3.0).await;
    x.metric_becomes("sluice_attempts_total", &[("target", "A/a1")], 3.0).await;
    x.metric_becomes("sluice_attempts_total", &[("target", "A/a1"), ("result", "ok")], 0.0).await;
    x.outcome("interrupted", 3).await;
    x.outcome("fallback_success", 1).await;
    x.end().await;
}
