//! Time: what each target gets of it, whom its end is blamed on, and what a caller may say about it.

use crate::running::start;
use harness::prelude::*;

#[tokio::test]
async fn each_target_has_its_own_limits_and_leaves_the_rest_to_the_next() {
    let targets = json!([{"target": "A/a1", "attempt": "900ms", "first_content": "400ms"}, "B/b1"]);
    let x = Setup::new().set("/routes/chat/targets", targets).start().await;
    x.a.play(SILENT);
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true);
    x.near(r.took(), ms(430));
    let r = x.plain("chat").await;
    r.answered().tags("B/b1", true);
    x.near(r.took(), ms(930));
    x.breaker_is("A/a1", "closed", 2).await;
    x.end().await;
}

#[tokio::test]
async fn the_last_target_may_use_what_is_left_and_is_to_blame_only_for_its_own_full_time() {
    let x = Setup::new().set("/defaults/budget", ms(2500)).start().await;
    for up in [&x.a, &x.b] {
        up.play(SILENT);
    }
    let r = x.call("chat").await;
    r.refused(504, "budget_exhausted").attempts(2);
    x.near(r.took(), ms(2450));
    x.near(x.closed_after(&x.a, 0, r.sent).await, ms(1000));
    x.near(x.closed_after(&x.b, 0, r.sent).await, ms(2450));
    x.breaker_is("A/a1", "closed", 1).await;
    x.breaker_is("B/b1", "closed", 1).await;
    assert_eq!(r.error()["budget_left_ms"], 0, "{r:?}");
    // A deadline shorter than its own limit blames nobody.
    let r = x.call("chat").header("x-sluice-budget-ms", "700").await;
    r.refused(504, "budget_exhausted").attempts(1);
    x.near(r.took(), ms(650));
    x.breaker_is("A/a1", "closed", 1).await;
    x.end().await;
}

#[tokio::test]
async fn a_late_first_content_of_the_last_target_is_still_good() {
    let x = Setup::new().start().await;
    x.a.play([SLEEP(1600), ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let r = x.call("solo").await;
    r.answered().tags("A/a1", false);
    x.breaker_is("A/a1", "closed", 0).await;
    // No switch allowed makes it the last one too.
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true);
    x.end().await;
}

#[tokio::test]
async fn a_caller_may_shorten_its_budget_and_never_lengthen_it() {
    let x = Setup::new().set("/defaults/budget", ms(1000)).start().await;
    x.a.play(SILENT);
    for (wish, took) in [("400", 350), ("999999999999999999999", 950), ("100", 75)] {
        let r = x.call("solo").header("x-sluice-budget-ms", wish).await;
        r.refused(504, "budget_exhausted");
        x.near(r.took(), ms(took));
    }
    let calls = x.a.calls();
    for bad in ["0", "-5", "1.5", "2s", "", "ten"] {
        let r = x.call("solo").header("x-sluice-budget-ms", bad).await;
        r.refused(400, "invalid_request");
        assert!(r.error()["message"].as_str().unwrap().contains("x-sluice-budget-ms"), "{r:?}");
    }
    assert_eq!(x.a.calls(), calls);
    x.end().await;
}

#[tokio::test]
async fn the_reserve_is_at_most_a_quarter_of_the_budget_in_force() {
    let x = Setup::new().set("/defaults/budget", ms(2000)).set("/defaults/reserve", ms(1500)).start().await;
    x.a.play(SILENT);
    let r = x.call("solo").await;
    r.refused(504, "budget_exhausted");
    x.near(r.took(), ms(1500));
    let r = x.call("solo").header("x-sluice-budget-ms", "800").await;
    x.near(r.took(), ms(600));
    x.end().await;
}

#[tokio::test]
async fn a_switch_needs_the_next_targets_own_minimum() {
    let targets =
        json!(["A/a1", {"target": "B/b1", "min_budget": "700ms"}, {"target": "C/c1", "min_budget": "0ms"}]);
    let x = Setup::new().set("/routes/chat/targets", targets).start().await;
    x.a.play([SLEEP(300), CUT]);
    // 950 ms to use, 650 left: too little for B, and enough for C behind it.
    x.call("chat").header("x-sluice-budget-ms", "1000").await.answered().tags("C/c1", true).attempts(2);
    x.call("chat").header("x-sluice-budget-ms", "1400").await.answered().tags("B/b1", true);
    x.calls([2, 1, 1]);
    x.end().await;
}

#[tokio::test]
async fn a_minimum_of_p95_follows_what_the_target_took_lately() {
    let setup = Setup::new().set("/defaults/min_budget", "p95").set("/defaults/min_budget_floor", ms(100));
    let x = setup.start().await;
    // Nothing is known about B yet: the floor.
    x.a.play(STATUS(503));
    x.call("chat").header("x-sluice-budget-ms", "400").await.answered().tags("B/b1", true);
    x.b.play([SLEEP(600), ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    for _ in 0..3 {
        x.call("other").await.answered();
    }
    // 350 ms are less than B has taken of late: not begun, and A's own failure is the answer.
    let calls = x.b.calls();
    x.call("chat").header("x-sluice-budget-ms", "400").await.refused(503, "retryable_upstream").attempts(1);
    assert_eq!(x.b.calls(), calls);
    x.call("chat").header("x-sluice-budget-ms", "2000").await.answered().tags("B/b1", true);
    x.end().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_dropped_and_nobody_is_blamed() {
    let x = Setup::new().set("/defaults/client_write", ms(500)).set("/defaults/idle", "off").start().await;
    let piece = "z".repeat(64 << 10);
    let flood = (0..2000).map(|_| TXT(&piece));
    x.a.play(Script([ROLE].into_iter().chain(flood).chain([FIN("stop"), DONE, END]).collect()));
    let mut client = x.call("solo").receive_buffer(4096).begin().await;
    client.contents(1).await;
    let stopped = now();
    let closed = x.closed_after(&x.a, 0, stopped).await;
    assert!(closed >= ms(400) && closed < ms(5000), "{closed:?}");
    x.outcome("client_cancelled", 1).await;
    x.breaker_is("A/a1", "closed", 0).await;
    assert!(x.a.attempt(0).written < 100 << 20, "it was held back");
    client.close();
    x.end().await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_is_not_taken_for_one_that_does_not() {
    let x = Setup::new().set("/defaults/client_write", ms(1000)).set("/defaults/idle", "off").start().await;
    let piece = "z".repeat(4 << 10);
    let flood = (0..2000).map(|_| TXT(&piece));
    x.a.play(Script([ROLE].into_iter().chain(flood).chain([FIN("stop"), DONE, END]).collect()));
    let mut client = x.call("solo").receive_buffer(8 << 10).begin().await;
    // 400 KB a second, for three times as long as it may read nothing.
    for _ in 0..30 {
        client.bytes(40 << 10).await;
        client.pause(ms(100)).await;
    }
    let r = client.finish().await;
    assert_eq!((r.status, r.end, r.dones()), (200, End::Complete, 1), "{} bytes came", r.raw.len());
    x.outcome("success", 1).await;
    x.end().await;
}

#[tokio::test]
async fn queueing_and_pausing_are_inside_the_budget() {
    let setup = Setup::new().set("/defaults/budget", ms(1500)).set("/upstreams/A/max_in_flight", 1);
    let retry = json!({"upstream": 3, "rate_limit": 0, "backoff": "700ms", "backoff_max": "700ms"});
    let setup = setup.set("/gates/queue_wait", ms(3000)).set("/routes/other/retry", retry);
    let x = setup.start().await;
    x.a.play(SILENT);
    let first = start(x.call("solo"));
    x.a.wait_for_attempts(1).await;
    let r = x.call("solo").header("x-sluice-budget-ms", "800").await;
    r.refused(504, "budget_exhausted").attempts(0);
    x.near(r.took(), ms(750));
    first.answer().await.refused(504, "budget_exhausted");
    // Pauses of 350 to 700 ms: as many tries as the deadline holds, and no pause that it would cut short.
    x.b.play(STATUS(500));
    let r = x.call("other").await;
    r.refused(502, "retryable_upstream");
    assert!(r.took() <= x.t(ms(1450)), "{r:?}");
    assert!((2..=4).contains(&x.b.calls()), "{}", x.b.calls());
    x.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_during_a_pause_ends_the_call() {
    let retry = json!({"upstream": 2, "rate_limit": 0, "backoff": "500ms"});
    let x = Setup::new().set("/routes/chat/retry", retry).start().await;
    x.a.play(STATUS(503));
    let client = x.call("chat").begin().await;
    x.a.wait_for_attempts(1).await;
    client.pause(ms(100)).await;
    client.close();
    x.outcome("client_cancelled", 1).await;
    client_is_forgotten(&x).await;
    x.end().await;
}

/// Longer than any pause of the call, nothing more is tried for it.
async fn client_is_forgotten(x: &Case) {
    let more = x.a.wait(x.t(ms(1500)), |up| up.calls() > 1).await;
    assert!(!more, "tried again for a client that had left");
    x.calls([1, 0, 0]);
}

#[tokio::test]
async fn every_form_of_a_hint_is_understood_and_told_in_whole_seconds() {
    let cases = [
        (vec![("retry-after", "7")], 7..=7),
        (vec![("retry-after-ms", "1500")], 2..=2),
        (vec![("x-ratelimit-reset-requests", "2m30s"), ("x-ratelimit-remaining-requests", "0")], 60..=60),
        (vec![("x-ratelimit-reset", "12")], 12..=12),
        (vec![("retry-after", "86400")], 60..=60),
    ];
    for (headers, want) in cases {
        // The date form is B043's.
        let x = Setup::new().start().await;
        x.a.play(LIMITED(&headers));
        let r = x.call("solo").await;
        r.refused(429, "retryable_rate_limit");
        let told: u64 = r.header("retry-after").unwrap().parse().unwrap();
        assert!(want.contains(&told), "{headers:?}: {told}");
        // It is left alone until then, and calls in between are told at once.
        let r = x.call("solo").await;
        r.refused(429, "rate_limited").attempts(0);
        x.calls([1, 0, 0]);
        x.breaker_is("A/a1", "closed", 0).await;
    }
}
