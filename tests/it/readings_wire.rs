//! Settled readings of what upstreams send: statuses of no row, errors inside a 200, events that are none; and
//! the table of failure kinds.

use crate::expect::{has, own_bytes};
use harness::prelude::*;

#[tokio::test]
async fn reading_statuses_in_no_row_are_failures_of_the_upstream() {
    for status in [102, 304, 399, 501, 505, 507, 530, 599] {
        let x = Setup::new().start().await;
        x.a.play(if status == 304 {
            Script::from([HEAD(304, &[("content-length", "0")])])
        } else {
            STATUS(status)
        });
        if status == 102 {
            // An interim answer that nothing follows.
            x.a.play([WIRE("HTTP/1.1 102 Processing\r\n\r\n"), CUT]);
        }
        let r = x.call("chat").await;
        r.answered().tags("B/b1", true).attempts(2);
        assert_eq!(r.header("x-sluice-failure-kind"), Some("retryable_upstream"), "{status}");
        x.breaker_is("A/a1", "closed", 1).await;
        x.call("solo").await.refused(502, "retryable_upstream");
        x.end().await;
    }
}

#[tokio::test]
async fn reading_a_5xx_whose_error_is_of_another_row_is_of_that_row() {
    let error = |kind: &str, code: &str| json!({"error": {"message": "m", "type": kind, "code": code}});
    let table = [
        (error("t", "insufficient_quota"), "quota_exhausted", true),
        (error("invalid_request_error", "context_length_exceeded"), "context_length_exceeded", false),
        (error("t", "content_filter"), "content_filtered", false),
        (error("t", "model_not_found"), "model_unavailable", true),
        (error("t", "rate_limit_exceeded"), "retryable_rate_limit", true),
    ];
    for (body, kind, switches) in table {
        let x = Setup::new().set("/breaker/cooldown/quota", ms(2000)).start().await;
        x.a.play(JSON(500, &body));
        let r = x.call("chat").await;
        assert_eq!(r.header("x-sluice-failure-kind"), Some(kind), "{body}: {r:?}");
        x.calls([1, usize::from(switches), 0]);
        let failed = [("target", "A/a1"), ("kind", kind), ("status", "500")];
        x.metric_becomes("sluice_attempt_failures_total", &failed, 1.0).await;
        x.end().await;
    }
}

#[tokio::test]
async fn reading_an_error_inside_a_200_goes_by_words_then_by_numbers() {
    let table = [
        (json!({"message": "m", "type": "t", "code": "context_length_exceeded"}), "context_length_exceeded"),
        (json!({"message": "m", "type": "insufficient_quota", "code": 503}), "quota_exhausted"),
        (json!({"message": "m", "code": 429}), "retryable_rate_limit"),
        (json!({"message": "m", "code": "429"}), "retryable_rate_limit"),
        (json!({"message": "m", "status": 504}), "retryable_timeout"),
        (json!({"message": "m", "status": "404"}), "model_unavailable"),
        (json!({"message": "m", "code": 400}), "invalid_request"),
        (json!({"message": "m", "code": "no_such_word"}), "retryable_upstream"),
        (json!({"message": "m"}), "retryable_upstream"),
        (json!("just words"), "retryable_upstream"),
    ];
    for (error, kind) in table {
        for stream in [true, false] {
            let x = Setup::new().set("/breaker/cooldown/quota", ms(2000)).start().await;
            let body = json!({"error": error});
            x.a.play(if stream { Script::from([EVENT(&body), DONE]) } else { JSON(200, &body) });
            let r = x.call("chat").set("stream", stream).await;
            assert_eq!(r.header("x-sluice-failure-kind"), Some(kind), "{error}: {r:?}");
            let gives_up = matches!(kind, "context_length_exceeded" | "invalid_request");
            x.calls([1, usize::from(!gives_up), 0]);
            x.end().await;
        }
    }
}

#[tokio::test]
async fn reading_error_null_is_no_error() {
    let x = Setup::new().start().await;
    let message = json!({"role": "assistant", "content": HEALTHY_TEXT});
    let whole =
        json!({"error": null, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    x.a.play(JSON(200, &whole));
    x.plain("chat").await.answered().tags("A/a1", false);
    let delta = json!({"content": HEALTHY_TEXT});
    let chunk = json!({"error": null, "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    x.a.play([EVENT(&chunk), FIN("stop"), DONE]);
    let r = x.call("chat").await;
    assert_eq!((r.status, r.text().as_str(), r.dones()), (200, HEALTHY_TEXT, 1), "{r:?}");
    r.tags("A/a1", false);
    x.end().await;
}

#[tokio::test]
async fn reading_data_events_that_are_none_are_dropped() {
    let x = Setup::new().start().await;
    let whole = own_bytes("A", "a1", true, OK).await;
    let none = || {
        [
            EVENT(&json!({"type": "keepalive"})),
            RAW("data:\n\n"),
            RAW("data: \n\n"),
            EVENT(&json!({"object": "ping"})),
        ]
    };
    let mut script = vec![RAW("\u{feff}")];
    for step in [ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop")] {
        script.extend(none());
        script.push(step);
    }
    script.extend(none());
    script.push(DONE);
    x.a.play(script);
    let r = x.call("chat").await;
    r.answered().tags("A/a1", false);
    assert_eq!(String::from_utf8_lossy(&r.body), String::from_utf8_lossy(&whole));
    x.metric_becomes("sluice_malformed_events_total", &[], 0.0).await;
    // They are no content: what fails after them is replaced.
    x.a.play([&none()[..], &[ROLE, SLEEP(20), CUT]].concat());
    x.call("chat").await.answered().tags("B/b1", true).attempts(2);
    x.end().await;
}

#[tokio::test]
async fn reading_header_values_of_ours_are_visible_ascii() {
    let x = Setup::new().set("/routes/größe ~1 🙂", json!({"targets": ["A/a1"]})).start().await;
    let r = x.call("größe / 🙂").await;
    r.answered().tags("A/a1", false);
    let shown = r.header("x-sluice-model").unwrap();
    assert!(shown.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{shown}");
    assert!(shown.starts_with("gr%C3%B6%C3%9Fe") && shown.ends_with("%F0%9F%99%82"), "{shown}");
    assert_eq!(x.record(&r).await["model"], "größe / 🙂");
    x.end().await;
}

#[tokio::test]
async fn reading_a_well_formed_request_id_is_kept() {
    let x = Setup::new().start().await;
    let longest = "i".repeat(128);
    for id in ["a", "A-Z_0.9", longest.as_str()] {
        let r = x.plain("chat").header("x-request-id", id).await;
        assert_eq!(r.answered().request_id(), Some(id));
        assert_eq!(x.a.attempts().last().unwrap().header("x-request-id"), Some(id), "it travels upstream");
    }
    x.end().await;
}

/// One row of the table of failure kinds.
struct Row {
    kind: &'static str,
    script: Script,
    switches: bool,
    counted: bool,
    /// Costs retry budget, so that without any there is no switch.
    paid: bool,
    /// What the client is told when nobody else is there.
    told: u16,
}

fn rows() -> Vec<Row> {
    let error =
        |status, code: &str| JSON(status, &json!({"error": {"message": "m", "type": "t", "code": code}}));
    let row =
        |kind, script, switches, counted, paid, told| Row { kind, script, switches, counted, paid, told };
    vec![
        row("retryable_timeout", STATUS(504), true, true, true, 504),
        row("retryable_timeout", STATUS(408), true, true, true, 504),
        row("retryable_rate_limit", LIMITED(&[]), true, true, true, 429),
        row("retryable_rate_limit", STATUS(425), true, true, true, 429),
        row("retryable_rate_limit", LIMITED(&[("retry-after", "1")]), true, false, true, 429),
        row("retryable_upstream", STATUS(409), true, true, true, 502),
        row("retryable_upstream", STATUS(503), true, true, true, 503),
        row("retryable_upstream", RST.into(), true, true, true, 502),
        row("retryable_upstream", JSON(200, &json!({})), true, true, true, 502),
        row("quota_exhausted", error(429, "insufficient_quota"), true, false, false, 429),
        row("quota_exhausted", error(402, "billing_hard_limit_reached"), true, false, false, 429),
        row("model_unavailable", error(404, "model_not_found"), true, false, false, 502),
        row("context_length_exceeded", error(400, "context_length_exceeded"), false, false, false, 400),
        row("context_length_exceeded", error(413, "context_length_exceeded"), false, false, false, 413),
        row("content_filtered", error(400, "content_filter"), false, false, false, 400),
        row("auth_denied", STATUS(401), false, false, false, 502),
        row("auth_denied", STATUS(403), false, false, false, 502),
        row("invalid_request", STATUS(400), false, false, false, 400),
        row("invalid_request", STATUS(422), false, false, false, 422),
    ]
}

#[tokio::test]
async fn the_table_of_failure_kinds() {
    for row in rows() {
        let kind = row.kind;
        let setup = || Setup::new().set("/breaker/cooldown/quota", ms(2000));
        let x = setup().start().await;
        x.a.play(row.script.clone());
        let r = x.plain("chat").await;
        assert_eq!(r.header("x-sluice-failure-kind"), Some(kind), "{r:?}");
        assert_eq!(r.status, if row.switches { 200 } else { row.told }, "{kind}: {r:?}");
        x.calls([1, usize::from(row.switches), 0]);
        x.breaker_is("A/a1", "closed", u64::from(row.counted)).await;
        let record = x.record(&r).await;
        has(&record, &json!({"failure_kind": kind}));
        x.end().await;
        // Without retry budget a switch that costs is not made; one that is free is.
        let x = setup().set("/retry_budget", json!({"ratio": 0.0, "min_per_second": 0})).start().await;
        x.a.play(row.script.clone());
        let r = x.plain("chat").await;
        let switched = row.switches && !row.paid;
        assert_eq!(r.status, if switched { 200 } else { row.told }, "{kind}: {r:?}");
        x.calls([1, usize::from(switched), 0]);
        let denied = if row.paid { 1.0 } else { 0.0 };
        x.metric_becomes("sluice_retry_budget_denied_total", &[("target", "A/a1")], denied).await;
        let final_word = matches!(
            kind,
            "auth_denied"
                | "quota_exhausted"
                | "context_length_exceeded"
                | "content_filtered"
                | "invalid_request"
        );
        let wanted = (final_word && !switched).then_some("false");
        assert_eq!(r.header("x-should-retry"), wanted, "{kind}: {r:?}");
        x.end().await;
    }
}

#[tokio::test]
async fn the_table_of_failure_kinds_our_own_gate() {
    let none = json!({"ratio": 0.0, "min_per_second": 0});
    let setup = Setup::new().set("/upstreams/A/max_in_flight", 1).set("/upstreams/A/queue", 0);
    let x = setup.set("/retry_budget", none).start().await;
    let latch = Latch::new();
    x.a.queue([HOLD(&latch), OK]);
    let busy = crate::running::start(x.call("solo"));
    x.a.wait_for_attempts(1).await;
    // A refusal of ours is no attempt, is not blamed, and costs no retry budget.
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true).attempts(1);
    assert_eq!(r.header("x-sluice-failure-kind"), Some("gateway_saturated"));
    x.breaker_is("A/a1", "closed", 0).await;
    x.metric_becomes("sluice_attempt_failures_total", &[], 0.0).await;
    latch.open();
    busy.answer().await.answered();
    x.end().await;
}
