//! What calls cost their caller: estimated when they come in, settled when they end, however they end.

use crate::running::start;
use harness::prelude::*;
use harness::setup::caller_key;

/// Tokens of the input of a call, as they are estimated.
const INPUT: u64 = 5;
/// Tokens of a healthy answer without streaming, as the upstream counts them: 5 and 3.
const REAL: u64 = 8;

fn web(limits: Value) -> Setup {
    Setup::new().caller("ops", json!({})).caller("web", limits).calls_as("ops")
}

fn call(x: &Case, route: &str) -> harness::call::Call {
    x.plain(route).key(caller_key("web").as_str())
}

/// What is left, with a further call running that has taken its input.
fn left(response: &Response) -> u64 {
    let left = response.header("x-ratelimit-remaining-tokens").and_then(|left| left.parse().ok());
    left.unwrap_or_else(|| panic!("no tokens left: {response:?}"))
}

/// A call that is not charged and tells what is left.
async fn look(x: &Case) -> u64 {
    let r = call(x, "solo").set("max_tokens", 1_000_000).await;
    r.refused(429, "caller_limit");
    left(&r)
}

/// Waits until so many are left. A client hears the end of an answer a moment before the books are closed.
async fn left_becomes(x: &Case, want: u64) {
    let mut last = 0;
    let settled = x.poll(ms(2000), async || {
        last = look(x).await;
        last == want
    });
    let settled = settled.await;
    assert!(settled, "{last} tokens are left, not {want}");
}

#[tokio::test]
async fn an_estimate_is_taken_at_first_and_what_it_really_was_in_the_end() {
    let x = web(json!({"tokens_per_minute": 100})).start().await;
    let latch = Latch::new();
    x.a.play([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), USAGE, DONE]);
    let key = caller_key("web");
    let mut first = x.call("solo").key(key.as_str()).set("max_tokens", 50).begin().await;
    assert_eq!(left(first.contents(1).await), 100 - INPUT - 50);
    let second = call(&x, "other").set("max_tokens", 41).await;
    second.refused(429, "caller_limit");
    assert_eq!(left(&second), 100 - INPUT - 50);
    assert!(second.header("x-should-retry").is_none(), "it will fit later: {second:?}");
    // Two answers of twenty tokens are forty; they just fit.
    let fits = call(&x, "other").set("max_completion_tokens", 20).set("n", 2).await;
    assert_eq!(left(fits.answered()), 0);
    left_becomes(&x, 100 - INPUT - 50 - REAL).await;
    latch.open();
    first.finish().await.answered();
    left_becomes(&x, 100 - 2 * REAL).await;
    x.calls([1, 1, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_request_that_never_fits_is_told_so() {
    let x = web(json!({"tokens_per_minute": 100})).start().await;
    let r = call(&x, "solo").set("max_tokens", 96).await;
    r.refused(429, "caller_limit");
    assert_eq!((r.header("x-should-retry"), r.header("retry-after")), (Some("false"), Some("60")));
    call(&x, "solo").set("max_tokens", 95).await.answered();
    x.end().await;
}

#[tokio::test]
async fn what_an_answer_was_longer_than_estimated_holds_up_the_next_call() {
    let x = web(json!({"tokens_per_minute": 40})).start().await;
    let text = "x".repeat(400);
    x.a.play([ROLE, TXT(&text), FIN("stop"), DONE]);
    let r = x.call("solo").key(caller_key("web").as_str()).await;
    assert_eq!((r.status, r.dones(), left(&r)), (200, 1, 40 - INPUT));
    left_becomes(&x, 0).await;
    let r = call(&x, "other").await;
    r.refused(429, "caller_limit");
    let wait: u64 = r.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a wait");
    assert!(wait > 50, "it counts for a minute: {r:?}");
    x.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_what_was_done() {
    let x = web(json!({"tokens_per_minute": 1000})).start().await;
    let key = caller_key("web");
    let stream = || x.call("solo").key(key.as_str()).set("max_tokens", 500);
    // In mid-stream: the input, and the text that had come.
    x.a.play([ROLE, TXT("12345678"), TXT("9012"), SILENT]);
    let mut client = stream().begin().await;
    client.contents(2).await;
    assert_eq!(left(client.response()), 1000 - INPUT - 500);
    client.close();
    left_becomes(&x, 1000 - INPUT - 3).await;
    // Before the head: the upstream has read the input all the same.
    x.a.play(SILENT);
    let client = stream().begin().await;
    x.a.wait_for_attempts(2).await;
    client.reset();
    left_becomes(&x, 1000 - INPUT - 3 - INPUT).await;
    x.end().await;
}

#[tokio::test]
async fn what_failed_or_never_began_costs_no_tokens() {
    let x = web(json!({"tokens_per_minute": 1000, "max_in_flight": 1, "queue": 0})).start().await;
    x.a.play(STATUS(503));
    call(&x, "solo").set("max_tokens", 500).await.refused(503, "retryable_upstream");
    left_becomes(&x, 1000).await;
    let latch = Latch::new();
    x.b.play([ROLE, TXT("one "), HOLD(&latch), FIN("stop"), USAGE, DONE]);
    let running = start(x.call("other").key(caller_key("web").as_str()));
    x.b.wait_for_attempts(1).await;
    let refused = call(&x, "other").set("max_tokens", 500).await;
    refused.refused(429, "caller_limit");
    assert_eq!(left(&refused), 1000 - INPUT);
    latch.open();
    running.answer().await;
    left_becomes(&x, 1000 - REAL).await;
    x.end().await;
}

/// Prices at which a token costs this much.
fn price(each: f64) -> Value {
    json!({"price": {"input": each * 1e6, "output": each * 1e6}})
}

#[tokio::test]
async fn a_day_costs_what_the_served_models_cost_and_then_it_is_over() {
    let setup = web(json!({"budget_per_day": 1.0}));
    let x = setup
        .set("/upstreams/A/models/a1", price(0.1))
        .set("/upstreams/B/models/b1", price(0.01))
        .start()
        .await;
    x.a.play(STATUS(503));
    // Estimated by the dearest target, 0.5 each; paid to the one that served, 0.08 each.
    for _ in 0..7 {
        call(&x, "chat").await.answered().tags("B/b1", true);
    }
    let r = call(&x, "chat").await;
    r.refused(429, "caller_budget");
    assert_eq!(r.error()["type"], "rate_limit_error");
    // What is left still does for a cheaper route.
    for _ in 0..4 {
        call(&x, "other").await.answered();
    }
    assert_eq!(x.b.calls(), 11);
    x.call("chat").await.answered();
    x.outcome("denied", 1).await;
    x.end().await;
}

#[tokio::test]
async fn calls_at_the_same_time_cannot_overdraw_a_day() {
    let x = web(json!({"budget_per_day": 1.0})).set("/upstreams/A/models/a1", price(0.1)).start().await;
    let latch = Latch::new();
    x.a.play([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), USAGE, DONE]);
    let key = caller_key("web");
    let first = start(x.call("solo").key(key.as_str()));
    x.a.wait_for_attempts(1).await;
    let r = x.call("solo").key(key.as_str()).set("max_tokens", 1).await;
    r.refused(429, "caller_budget");
    // The running call may turn out cheaper; that is soon known.
    assert_eq!((r.header("retry-after"), r.header("x-should-retry")), (Some("1"), None));
    let never = x.call("solo").key(key.as_str()).set("max_tokens", 6).await;
    never.refused(429, "caller_budget");
    assert_eq!((never.header("retry-after"), never.header("x-should-retry")), (Some("60"), Some("false")));
    latch.open();
    first.answer().await.answered();
    x.calls([1, 0, 0]);
    x.end().await;
}
