//! Settled readings of names and rules, one test for a row that no worked case covers whole: what counts as
//! first choice, switch, last target, success, and what a target has to do to be asked again.

use crate::expect::{able_again, has};
use crate::guests::{generation, guest, put, take_out};
use crate::running::start;
use harness::prelude::*;

#[tokio::test]
async fn reading_first_choice_is_the_first_that_is_capable_and_not_excluded() {
    let setup = Setup::new()
        .set("/plugins", json!({"dir": "./plugins.d", "headers": ["x-exclude"], "settle": "50ms"}))
        .set("/upstreams/C/models/c1", json!({"supports": ["images"]}));
    let x = setup.set("/routes/chat3/targets", json!(["C/c1", "A/a1", "B/b1"])).start().await;
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let call = || x.call("chat3").set("tools", tools.clone());
    // C has no tools; A, who is next, is the first choice, and B in its place is a fallback.
    call().await.answered().tags("A/a1", false);
    x.a.queue(STATUS(503));
    call().await.answered().tags("B/b1", true);
    let before = generation(&x).await;
    put(&x, "exclude.wasm", &guest("exclude-router"));
    let swapped = x.poll(harness::PATIENCE, async || generation(&x).await > before);
    assert!(swapped.await, "the router does not run");
    call().header("x-exclude", "A/a1").await.answered().tags("B/b1", false);
    // What a router left out is no better place: not even where the rest is open.
    let r = call().header("x-exclude", "A/a1,B/b1").await;
    r.refused(403, "excluded_by_policy").attempts(0);
    assert_eq!(r.error()["type"], "permission_error");
    x.outcome("denied", 1).await;
    x.calls([2, 2, 0]);
    take_out(&x, "exclude.wasm");
    let gone = x.poll(harness::PATIENCE, async || x.call("chat").await.status == 200);
    assert!(gone.await, "the router still runs");
    x.end().await;
}

/// The kind in head and record, for calls whose first choice was left out before anything was tried.
async fn left_out(x: &Case, kind: &str) {
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true).attempts(1);
    assert_eq!(r.header("x-sluice-failure-kind"), Some(kind));
    let attempts = json!([{"target": "B/b1", "role": "fallback", "kind": null}]);
    let record = x.record(&r).await;
    has(&record, &json!({"failure_kind": kind, "outcome": "fallback_success", "attempts": attempts}));
}

#[tokio::test]
async fn reading_degraded_tells_why_the_first_choice_was_left_out() {
    let quota = JSON(429, &json!({"error": {"message": "m", "type": "t", "code": "insufficient_quota"}}));
    let missing = JSON(404, &json!({"error": {"message": "m", "type": "t", "code": "model_not_found"}}));
    let table: [(Script, usize, &str); 6] = [
        (STATUS(503), 3, "retryable_upstream"),
        (STATUS(504), 3, "retryable_timeout"),
        (LIMITED(&[]), 3, "retryable_rate_limit"),
        (LIMITED(&[("retry-after", "30")]), 1, "retryable_rate_limit"),
        (missing, 1, "model_unavailable"),
        (quota, 1, "quota_exhausted"),
    ];
    for (script, failures, kind) in table {
        let x = Setup::new().set("/breaker/cooldown/quota", ms(2000)).start().await;
        x.a.play(script);
        for _ in 0..failures {
            x.call("chat").await.answered().tags("B/b1", true).attempts(2);
        }
        left_out(&x, kind).await;
        x.calls([failures, failures + 1, 0]);
        let skipped = [("event", "provider_skipped_unhealthy"), ("target", "A/a1")];
        x.metric_becomes("sluice_provider_events_total", &skipped, 1.0).await;
        if kind == "retryable_rate_limit" && failures == 1 {
            continue;
        }
        x.end().await;
    }
}

#[tokio::test]
async fn reading_a_switch_is_no_target_that_was_left_out() {
    let x = Setup::new().set("/routes/chat3/max_switches", 1).start().await;
    x.open_a().await;
    x.b.play(STATUS(503));
    // A is left out, which costs nothing: the one switch leads from B to C.
    x.call("chat3").await.answered().tags("C/c1", true).attempts(2);
    x.calls([3, 4, 1]);
    x.c.play(STATUS(503));
    x.call("chat3").await.refused(503, "retryable_upstream").attempts(2);
    x.end().await;
}

#[tokio::test]
async fn reading_the_last_target_is_who_has_nobody_to_switch_to() {
    let late =
        || Script::from([SLEEP(1500), ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let none = json!({"ratio": 0.0, "min_per_second": 0});
    let few = json!(["A/a1", {"target": "B/b1", "min_budget": "4900ms"}]);
    let alone: [(&str, Setup); 3] = [
        ("no switches", Setup::new().set("/routes/chat/max_switches", 0)),
        ("no retry budget", Setup::new().set("/retry_budget", none)),
        ("too little left for the next", Setup::new().set("/routes/chat/targets", few)),
    ];
    for (why, setup) in alone {
        let x = setup.start().await;
        x.a.play(late());
        let r = x.call("chat").await;
        r.answered().tags("A/a1", false).attempts(1);
        assert!(r.took() >= ms(1450), "{why}: {r:?}");
        x.calls([1, 0, 0]);
        // It had run for its own full limit, and still it served.
        x.breaker_is("A/a1", "closed", 0).await;
        x.end().await;
    }
    let x = Setup::new().set("/breaker/open", ms(8000)).set("/breaker/open_max", ms(8000)).start().await;
    x.b.play(STATUS(503));
    for _ in 0..3 {
        x.call("other").await;
    }
    x.breaker_is("B/b1", "open", 3).await;
    x.a.play(late());
    x.call("chat").await.answered().tags("A/a1", false).attempts(1);
    x.calls([1, 3, 0]);
    x.end().await;
}

#[tokio::test]
async fn reading_the_least_budget_is_never_asked_of_the_first_attempt() {
    let x = Setup::new().set("/defaults/min_budget", ms(4000)).start().await;
    let r = x.call("chat").header("x-sluice-budget-ms", "1000").await;
    r.answered().tags("A/a1", false).attempts(1);
    x.a.play(STATUS(503));
    let call = x.call("chat").header("x-sluice-budget-ms", "1000");
    call.await.refused(503, "retryable_upstream").attempts(1);
    x.calls([2, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn reading_nothing_begins_after_the_deadline_whatever_the_time_went_into() {
    let x = Setup::new().set("/defaults/budget", ms(600)).start().await;
    let bytes = x.call("chat").bytes();
    let (front, back) = bytes.split_at(bytes.len() - 8);
    let mut client = x.connect().await;
    client.send(front).await;
    // The caller takes longer to ask than it may wait for the answer.
    client.pause(ms(800)).await;
    client.send(back).await;
    let r = client.finish().await;
    r.refused(504, "budget_exhausted").route_tags(false).attempts(0);
    assert_eq!(r.error()["budget_left_ms"], 0, "{r:?}");
    x.calls([0, 0, 0]);
    x.outcome("budget_exhausted", 1).await;
    x.metric_becomes("sluice_attempts_total", &[], 0.0).await;
    x.end().await;
}

#[tokio::test]
async fn reading_a_closed_breaker_learns_of_a_stream_when_it_ends() {
    let cut = [ROLE, TXT("one "), CUT];
    let x = Setup::new().start().await;
    x.a.queue(STATUS(503)).queue(STATUS(503)).queue(cut.clone());
    for _ in 0..2 {
        x.call("chat").await.answered().tags("B/b1", true);
    }
    // Its commit does not take back what was counted, and its break counts one more.
    x.call("chat").await.broken_stream("one ").tags("A/a1", false);
    x.breaker_is("A/a1", "open", 3).await;
    x.end().await;

    let x = Setup::new().start().await;
    x.a.queue(STATUS(503)).queue(STATUS(503)).queue(OK).queue(cut);
    for _ in 0..2 {
        x.call("chat").await.answered().tags("B/b1", true);
    }
    x.call("chat").await.answered().tags("A/a1", false);
    x.breaker_is("A/a1", "closed", 0).await;
    x.call("chat").await.broken_stream("one ");
    x.breaker_is("A/a1", "closed", 1).await;
    x.end().await;
}

#[tokio::test]
async fn reading_two_results_of_one_probe() {
    let x = Setup::new().start().await;
    x.open_a().await;
    able_again(&x, "A/a1").await;
    let latch = Latch::new();
    x.a.play([ROLE, TXT("one "), HOLD(&latch), CUT]);
    let mut probe = x.call("chat").begin().await;
    probe.contents(1).await;
    // Its commit has closed the breaker; the rest is one of many.
    x.breaker_is("A/a1", "closed", 0).await;
    latch.open();
    probe.finish().await.broken_stream("one ").tags("A/a1", false);
    x.breaker_is("A/a1", "closed", 1).await;
    x.metric_becomes("sluice_breaker_transitions_total", &[("target", "A/a1"), ("to", "open")], 1.0).await;
    x.end().await;
}

#[tokio::test]
async fn reading_readiness_counts_cooling_and_not_saturation() {
    let gate = json!({"base_url": "", "credentials": ["env:KEY_A"], "max_in_flight": 1, "queue": 0, "models": {"a1": {}}});
    let x = Setup::new()
        .edit(move |config, peers| {
            config["upstreams"]["A"] = gate;
            config["upstreams"]["A"]["base_url"] = peers.a.base_url().into();
        })
        .start()
        .await;
    let able = async || x.get("/readyz").await.json()["routes"]["solo"].clone();
    let latch = Latch::new();
    x.a.queue([HOLD(&latch), OK]);
    let busy = start(x.call("solo"));
    x.a.wait_for_attempts(1).await;
    x.call("solo").await.refused(503, "queue_full").attempts(0);
    assert_eq!(able().await, 1, "a saturated gate makes nobody unable");
    latch.open();
    busy.answer().await.answered();
    x.a.queue(LIMITED(&[("retry-after", "2")]));
    x.call("solo").await.refused(429, "retryable_rate_limit");
    let page = x.get("/readyz").await.json();
    has(&page, &json!({"routes": {"solo": 0, "chat": 1}, "blocked": [{"target": "A/a1", "why": "cooling"}]}));
    x.breaker_is("A/a1", "closed", 0).await;
    able_again(&x, "A/a1").await;
    assert_eq!(able().await, 1);
    x.end().await;
}

#[tokio::test]
async fn reading_nothing_can_be_tried_is_a_rate_limit_only_where_all_are_limited() {
    let x = Setup::new().start().await;
    x.a.play(LIMITED(&[("retry-after", "3")]));
    x.call("chat").await.answered().tags("B/b1", true);
    x.b.play(STATUS(503));
    for _ in 0..3 {
        x.call("other").await;
    }
    x.breaker_is("B/b1", "open", 3).await;
    let r = x.call("chat").await;
    r.refused(503, "no_healthy_target").attempts(0);
    // B, who is open for two seconds, is the first that may be tried.
    assert!(matches!(r.header("retry-after"), Some("1" | "2")), "{r:?}");
    x.call("solo").await.refused(429, "rate_limited").attempts(0);
    x.call("other").await.refused(503, "no_healthy_target").attempts(0);
    x.end().await;
}

#[tokio::test]
async fn reading_idle_runs_only_while_the_upstream_is_waited_for() {
    // From the moment the gateway has handed everything on, this is also what the client has to read it.
    let x = Setup::new().set("/defaults/idle", ms(2000)).start().await;
    // One event that fills every socket on its way, so that nothing more of the upstream is left to be read.
    let large = "z".repeat(12 << 20);
    let latch = Latch::new();
    x.a.play([ROLE, TXT(&large), HOLD(&latch), TXT("end"), FIN("stop"), DONE]);
    let mut client = x.call("solo").receive_buffer(4096).begin().await;
    client.head().await;
    // Longer than the largest gap: all the while it is the client who is waited for.
    client.pause(ms(3000)).await;
    client.read_until(harness::PATIENCE, |r| !r.contents().is_empty()).await;
    assert_eq!((client.response().contents().len(), client.response().errors().len()), (1, 0));
    latch.open();
    let r = client.finish().await;
    assert_eq!((r.status, r.end, r.dones(), r.errors().len()), (200, End::Complete, 1, 0));
    assert_eq!(r.text().len(), large.len() + 3);
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn reading_after_the_end_marker_the_connection_can_be_used_again() {
    let x = Setup::new().start().await;
    // The end of the body comes behind the marker, a little later.
    x.a.play([ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE, SLEEP(30), END]);
    // When it is back nobody says; a call that comes too soon for it gets another.
    let used_again = x.poll(ms(2000), async || {
        x.call("solo").await.answered();
        x.a.attempts().last().is_some_and(|attempt| attempt.reused)
    });
    assert!(used_again.await, "{} connections for {} calls", x.a.connections(), x.a.calls());
    x.end().await;
}
