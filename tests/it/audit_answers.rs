//! What an attempt came to is decided by what was seen of it: a finished answer is a success, the head of an error
//! keeps its word, and what was taken back was never served.

use crate::expect::has;
use crate::guests::{guest, policy};
use harness::prelude::*;

const FINISHED: fn() -> Script = || [ROLE, TXT("one "), TXT("two three"), FIN("stop"), SILENT].into();

#[tokio::test]
async fn a_finished_answer_is_shown_when_the_time_to_wait_for_its_end_marker_is_over() {
    let off = || Setting::from("off");
    let table = [
        // What is left of the attempt, of the deadline; and `idle`, where that is shorter.
        ("attempt", ms(700), ms(4000), ms(3000).into(), 700),
        ("attempt, no idle", ms(700), ms(4000), off(), 700),
        ("deadline", ms(4000), ms(1050), off(), 1000),
        ("idle", ms(4000), ms(4000), ms(400).into(), 400),
    ];
    for (name, attempt, budget, idle, took) in table {
        let x = Setup::new()
            .set("/defaults/commit", "complete")
            .set("/defaults/attempt", attempt)
            .set("/defaults/budget", budget)
            .set("/defaults/idle", idle)
            .start()
            .await;
        x.a.play(FINISHED());
        for route in ["chat", "solo"] {
            let r = x.call(route).await;
            r.answered().tags("A/a1", false).attempts(1);
            x.near(r.took(), ms(took));
            has(&x.record(&r).await, &json!({"outcome": "success", "attempts": [{"kind": null}]}));
        }
        // The same for whom it is gathered: there the end marker is waited for at most a second.
        let r = x.plain("chat").await;
        r.answered().tags("A/a1", false).attempts(1);
        x.near(r.took(), ms(took));
        x.breaker_is("A/a1", "closed", 0).await;
        x.calls([3, 0, 0]);
        assert!(x.metric("sluice_attempts_total", &[("result", "ok")]).await >= 3.0, "{name}");
        x.end().await;
    }
}

#[tokio::test]
async fn an_error_inside_an_answer_is_read_by_its_status_too() {
    let x = Setup::new().set("/breaker/cooldown/auth", ms(1)).start().await;
    let error =
        |status: Value| json!({"error": {"message": "m", "type": "t", "code": "odd_one", "status": status}});
    let table = [
        (json!(503), 503, "retryable_upstream"),
        (json!("529"), 503, "retryable_upstream"),
        (json!(500), 502, "retryable_upstream"),
        (json!("UNAVAILABLE_SOMEHOW"), 502, "retryable_upstream"),
        (json!(504), 504, "retryable_timeout"),
    ];
    for (inner, status, code) in table {
        x.a.play([ROLE, EVENT(&error(inner.clone())), DONE]);
        x.call("solo").await.refused(status, code);
        x.a.play(JSON(200, &error(inner)));
        x.plain("solo").await.refused(status, code);
        // What serves in between keeps the breaker closed.
        x.a.healthy();
        x.call("solo").await.answered();
    }
    x.a.play([ROLE, EVENT(&error(json!(429))), DONE]);
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true);
    assert_eq!(r.header("x-sluice-failure-kind"), Some("retryable_rate_limit"), "{r:?}");
    x.end().await;
}

#[tokio::test]
async fn the_head_of_an_error_keeps_its_word_when_its_body_stalls_until_a_limit() {
    let limited =
        || Script(vec![HEAD(429, &[("retry-after", "20"), ("content-length", "500")]), RAW("{"), SILENT]);
    let x = Setup::new().set("/defaults/attempt", ms(400)).start().await;
    x.a.play(limited());
    for call in [x.call("chat"), x.plain("chat")] {
        let r = call.await;
        r.answered().tags("B/b1", true);
        assert_eq!(r.header("x-sluice-failure-kind"), Some("retryable_rate_limit"), "{r:?}");
    }
    x.calls([1, 2, 0]);
    x.breaker_is("A/a1", "closed", 0).await;
    let left = x.metric("sluice_target_cooldown_seconds", &[("target", "A/a1")]).await;
    assert!((15.0..=20.0).contains(&left), "the hint is kept: {left}");
    x.end().await;
    // Where the deadline ends the wait, the head is the answer as well.
    let x = Setup::new().set("/defaults/budget", ms(600)).start().await;
    x.a.play(limited());
    let r = x.call("solo").await;
    r.refused(429, "retryable_rate_limit").attempts(1);
    x.near(r.took(), ms(550));
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

fn denying(name: &str, header: &str) -> Setup {
    let plugins = json!({
        "dir": "./plugins.d", "settle": "50ms", "rescan": "1s", "deadline": "150ms", "headers": [header],
    });
    Setup::new()
        .set("/plugins", plugins)
        .file("plugins.d/p.wasm", guest(name))
        .file("plugins.d/p.yaml", "on_error: deny\n")
}

#[tokio::test]
async fn an_attempt_whose_classifier_must_decide_and_cannot_has_failed_and_is_counted() {
    let x = denying("soft-classifier", "x-trap-classifier").start().await;
    x.a.play(STATUS(503));
    let r = x.plain("chat").header("x-trap-classifier", "1").await;
    r.refused(503, "plugin_denied");
    let attempt = json!({"kind": "retryable_upstream", "status": 503});
    has(&r.error()["attempts"], &json!([attempt]));
    has(&x.record(&r).await, &json!({"outcome": "denied", "attempts": [attempt]}));
    let metrics = x.metrics().await;
    assert_eq!(metrics.sum("sluice_attempts_total", &[("result", "retryable_upstream")]).to_string(), "1");
    assert_eq!(metrics.sum("sluice_attempts_total", &[]).to_string(), "1");
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn an_answer_that_a_tagger_takes_back_was_served_by_nobody_and_closes_no_breaker() {
    let x = denying("note-tagger", "x-trap-tagger").set("/breaker/open", ms(300)).start().await;
    for call in [x.call("chat"), x.plain("chat")] {
        let r = call.header("x-trap-tagger", "1").await;
        r.refused(503, "plugin_denied");
        for header in ["x-sluice-upstream", "x-sluice-served-model"] {
            assert_eq!(r.header(header), None, "{r:?}");
        }
        let asked: Vec<_> = policy(&r).1.into_iter().filter(|(kind, _, _)| kind == "tagger").collect();
        let names: Vec<_> = asked.iter().map(|(_, name, _)| name.as_str()).collect();
        assert_eq!(names, ["p", "standard-tagger"], "who was asked, and who wrote");
        let record = x.record(&r).await;
        let nobody = json!({
            "served_model": null, "upstream": null, "latency_ms": null, "ttft_ms": null, "outcome": "denied",
            "attempts": [{"kind": null, "ttft_ms": null}],
        });
        has(&record, &nobody);
        assert!(record["tokens"]["input"].is_u64(), "the tokens were paid: {record}");
    }
    let metrics = x.metrics().await;
    assert_eq!(metrics.sum("sluice_attempts_total", &[("result", "cancelled")]).to_string(), "2");
    assert_eq!(metrics.sum("sluice_requests_total", &[("served_model", "none")]).to_string(), "2");
    // A probe that shows nothing teaches nothing.
    x.open_a().await;
    let before = x.a.calls();
    let probed = x.poll(harness::PATIENCE, async || {
        x.call("chat").header("x-trap-tagger", "1").await.refused(503, "plugin_denied");
        x.a.calls() > before
    });
    assert!(probed.await, "no probe");
    assert_ne!(x.breaker("A/a1").await["state"], "closed");
    assert_eq!(x.gateway.events("provider_probe_succeeded").len(), 0);
    x.call("chat").await.answered();
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn the_policy_line_names_the_bundled_tagger_that_wrote_in_the_place_of_another() {
    let x =
        denying("note-tagger", "x-trap-tagger").file("plugins.d/p.yaml", "on_error: bundled\n").start().await;
    let r = x.plain("chat").header("x-trap-tagger", "1").await;
    r.answered();
    let names: Vec<_> =
        policy(&r).1.into_iter().filter(|part| part.0 == "tagger").map(|part| part.1).collect();
    assert_eq!(names, ["p", "standard-tagger"]);
    x.end().await;
}

#[tokio::test]
async fn the_time_to_first_content_is_told_of_streams_with_content_and_of_all_of_them() {
    let x = Setup::new().start().await;
    let count = async || x.metric("sluice_time_to_first_token_seconds_count", &[]).await.to_string();
    for commit in ["first_content", "complete"] {
        let x = Setup::new().set("/defaults/commit", commit).start().await;
        x.a.play([ROLE, FIN("stop"), DONE, END]);
        let r = x.call("solo").await;
        assert_eq!((r.status, r.dones()), (200, 1), "{r:?}");
        has(&x.record(&r).await, &json!({"ttft_ms": null, "attempts": [{"ttft_ms": null}]}));
        assert!(x.metric("sluice_time_to_first_token_seconds_count", &[]).await < 0.5);
        x.end().await;
    }
    // More is held than may be, so that it is shown before there is any content.
    let roles = std::iter::repeat_n(ROLE, 66);
    let rest = [SLEEP(300), TXT("one "), SLEEP(300), TXT("two three"), FIN("stop"), DONE, END];
    x.a.play(Script(roles.chain(rest).collect()));
    let r = x.call("solo").await;
    let record = x.record(&r).await;
    let (latency, first) = (record["latency_ms"].as_u64().unwrap(), record["ttft_ms"].as_u64().unwrap());
    assert!(latency < 300 && (300..590).contains(&first), "{record}");
    assert!((290..590).contains(&record["attempts"][0]["ttft_ms"].as_u64().unwrap()), "{record}");
    assert_eq!(count().await, "1");
    let page = x.gateway.admin_json("/debug/upstreams").await;
    let target =
        page["targets"].as_array().unwrap().iter().find(|target| target["target"] == "A/a1").unwrap();
    assert!(target["first_content_ms"]["p50"].as_f64().unwrap() >= 290.0, "{target}");
    x.end().await;
}

#[tokio::test]
async fn two_wishes_for_the_budget_are_none() {
    let x = Setup::new().start().await;
    for second in ["abc", "5000", "4000"] {
        let call = x.plain("chat").header("x-sluice-budget-ms", "5000").header("x-sluice-budget-ms", second);
        call.await.refused(400, "invalid_request");
    }
    x.plain("chat").header("x-sluice-budget-ms", "4000").await.answered();
    x.calls([1, 0, 0]);
    x.end().await;
}
