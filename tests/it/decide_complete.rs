//! `commit: complete`: nothing is shown before all of it is there, so that anything can still be made good.

use crate::expect::LATE;
use harness::prelude::*;

fn complete() -> Setup {
    Setup::new().set("/defaults/commit", "complete")
}

/// Content, every 200 ms, for so many times, and a good end.
fn dribble(times: usize) -> Script {
    let pieces = (0..times).flat_map(|_| [TXT("x"), SLEEP(200)]);
    Script([ROLE].into_iter().chain(pieces).chain([FIN("stop"), DONE, END]).collect())
}

#[tokio::test]
async fn whatever_breaks_before_the_end_is_made_good_by_another_target() {
    let broken: [(&str, Script, &str); 5] = [
        ("cut", [ROLE, TXT("one "), TXT("two "), CUT].into(), "retryable_upstream"),
        ("reset", [ROLE, TXT("one "), SLEEP(50), RST].into(), "retryable_upstream"),
        ("error", [ROLE, TXT("one "), ERR("server_error"), DONE, END].into(), "retryable_upstream"),
        ("no end", [ROLE, TXT("one "), END].into(), "retryable_upstream"),
        ("stall", [ROLE, TXT("one "), SILENT].into(), "retryable_timeout"),
    ];
    for (name, script, kind) in broken {
        let x = complete().start().await;
        x.a.play(script);
        let r = x.call("chat").await;
        r.answered().tags("B/b1", true).attempts(2);
        assert_eq!(r.header("x-sluice-failure-kind"), Some(kind), "{name}");
        x.calls([1, 1, 0]);
        x.breaker_is("A/a1", "closed", 1).await;
        assert_eq!(x.metric("sluice_streams_interrupted_total", &[]).await.to_string(), "0", "{name}");
        if name == "stall" {
            x.near(x.closed_after(&x.a, 0, r.sent).await, ms(1000));
        }
        x.end().await;
    }
}

#[tokio::test]
async fn with_nobody_left_a_break_is_a_real_error_and_not_half_an_answer() {
    let x = complete().start().await;
    x.a.play([ROLE, TXT("one "), CUT]);
    x.call("solo").await.refused(502, "retryable_upstream");
    x.a.play([ROLE, TXT("one "), ERR_OF("invalid_request_error", 400), DONE, END]);
    x.call("chat").await.refused(400, "400");
    x.calls([2, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_good_stream_comes_all_at_once_when_it_has_ended() {
    let x = complete().start().await;
    x.a.play([ROLE, TXT("one "), SLEEP(300), TXT("two "), SLEEP(300), TXT("three"), FIN("stop"), DONE, END]);
    let r = x.call("chat").await;
    r.answered().tags("A/a1", false).attempts(1);
    x.near(r.head_took().unwrap(), ms(600));
    let apart = r.events.last().unwrap().at - r.events[0].at;
    assert!(apart < LATE, "{apart:?}");
    assert_eq!(r.header("content-type"), Some("text/event-stream"));
    let record = x.record(&r).await;
    assert!(record["ttft_ms"].as_u64().unwrap() >= 540, "{record}");
    x.end().await;
}

#[tokio::test]
async fn comments_do_not_keep_a_held_stream_alive() {
    // Nothing else may end it in that time.
    let x = complete().set("/defaults/attempt", ms(4000)).start().await;
    let comments = (0..20).flat_map(|_| [CMT("ping"), SLEEP(300)]);
    x.a.play(Script([ROLE, TXT("one ")].into_iter().chain(comments).collect()));
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true);
    x.between(r.took(), ms(1000), ms(1300));
    x.end().await;
}

#[tokio::test]
async fn the_attempt_limit_covers_the_answer_to_its_end() {
    let x = complete().set("/defaults/attempt", ms(700)).start().await;
    x.a.play(dribble(15));
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true);
    x.near(x.closed_after(&x.a, 0, r.sent).await, ms(700));
    x.breaker_is("A/a1", "closed", 1).await;
    // The last target may use what is left of the budget.
    let r = x.call("solo").await;
    assert_eq!((r.status, r.text().len(), r.dones()), (200, 15, 1), "{r:?}");
    x.between(r.took(), ms(3000), ms(3400));
    x.end().await;
}

#[tokio::test]
async fn the_first_content_of_a_held_stream_has_its_own_limit() {
    let x =
        complete().set("/defaults/first_content", ms(300)).set("/defaults/attempt", ms(3000)).start().await;
    x.a.play([ROLE, SLEEP(5000), TXT("late")]);
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true);
    x.near(x.closed_after(&x.a, 0, r.sent).await, ms(300));
    x.breaker_is("A/a1", "closed", 1).await;
    // Once there is content, only gaps and the end are bounded.
    x.a.play(dribble(4));
    let r = x.call("chat").await;
    r.tags("A/a1", false);
    x.between(r.took(), ms(800), ms(1000));
    x.end().await;
}

#[tokio::test]
async fn the_budget_covers_the_whole_answer() {
    let x = complete().set("/defaults/budget", ms(1500)).set("/defaults/attempt", ms(1400)).start().await;
    x.a.play(dribble(20));
    let r = x.call("solo").await;
    r.refused(504, "budget_exhausted").attempts(1);
    x.near(r.took(), ms(1450));
    // It had its own full limit.
    x.breaker_is("A/a1", "closed", 1).await;
    let r = x.call("solo").header("x-sluice-budget-ms", "800").await;
    r.refused(504, "budget_exhausted");
    x.near(r.took(), ms(750));
    x.breaker_is("A/a1", "closed", 1).await;
    x.end().await;
}

#[tokio::test]
async fn what_is_held_is_bounded() {
    let x = complete().set("/limits/answer", "8KiB").start().await;
    let piece = "y".repeat(1000);
    let pieces = (0..10).map(|_| TXT(&piece));
    x.a.play(Script([ROLE].into_iter().chain(pieces).chain([FIN("stop"), DONE, END]).collect()));
    x.call("chat").await.answered().tags("B/b1", true);
    x.call("solo").await.refused(502, "retryable_upstream");
    x.end().await;
}

#[tokio::test]
async fn a_finish_reason_without_an_end_marker_ends_well_after_the_idle_time() {
    let x = complete().set("/defaults/attempt", ms(3000)).start().await;
    x.a.play([ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), SILENT]);
    let r = x.call("chat").await;
    r.answered().tags("A/a1", false);
    x.near(r.took(), ms(1000));
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_while_its_answer_is_held_ends_the_exchange() {
    let x = complete().start().await;
    x.a.play(dribble(20));
    let client = x.call("chat").begin().await;
    x.a.wait_for_attempts(1).await;
    client.pause(ms(300)).await;
    let left = now();
    client.close();
    assert!(x.closed_after(&x.a, 0, left).await < ms(500));
    x.outcome("client_cancelled", 1).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.calls([1, 0, 0]);
    x.end().await;
}
