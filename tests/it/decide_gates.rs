//! Who runs, who waits, and what a call holds while it waits.

use crate::expect::{LATE, right_after};
use crate::running::start;
use harness::prelude::*;

/// A healthy answer that takes so long.
fn slow(millis: u64) -> Script {
    [SSE, SLEEP(millis), ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE, END].into()
}

async fn queued(x: &Case, gate: &str, want: f64) {
    x.metric_becomes("sluice_gate_queue_depth", &[("gate", gate)], want).await;
}

#[tokio::test]
async fn a_target_has_a_gate_of_its_own_beside_its_upstreams() {
    let setup = Setup::new().set("/upstreams/A/models/a2", json!({})).set("/gates/queue_wait", ms(3000));
    let one = json!([{"target": "A/a1", "max_in_flight": 1}]);
    let other = json!({"targets": ["A/a2"]});
    let x = setup.set("/routes/solo/targets", one).set("/routes/small", other).start().await;
    x.a.play_for("a1", slow(400));
    let calls: Vec<_> = (0..3).map(|_| start(x.call("solo"))).collect();
    queued(&x, "target:A/a1", 2.0).await;
    // The other model of the same account is not held up.
    let r = x.call("small").await;
    r.answered().tags("A/a2", false);
    assert!(r.took() < x.t(ms(300)), "{r:?}");
    for call in calls {
        call.answer().await.answered();
    }
    let times: Vec<_> = x.a.attempts().iter().filter(|a| a.model() == "a1").map(|a| (a.at, a.over)).collect();
    for pair in times.windows(2) {
        assert!(pair[1].0 >= pair[0].1.unwrap().0, "two at once");
    }
    x.end().await;
}

#[tokio::test]
async fn a_saturated_target_is_a_reason_to_switch_and_nobody_is_blamed() {
    let targets = json!([{"target": "A/a1", "max_in_flight": 1}, "B/b1"]);
    let x = Setup::new().set("/routes/chat/targets", targets).set("/gates/queue_wait", ms(300)).start().await;
    x.a.play(slow(1500));
    let first = start(x.call("chat"));
    x.a.wait_for_attempts(1).await;
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true).attempts(1);
    x.near(r.took(), ms(350));
    assert_eq!(r.header("x-sluice-failure-kind"), Some("gateway_saturated"));
    x.breaker_is("A/a1", "closed", 0).await;
    first.answer().await;
    x.end().await;
}

#[tokio::test]
async fn waiters_run_in_the_order_they_came() {
    let setup = Setup::new().set("/upstreams/A/max_in_flight", 1).set("/gates/queue_wait", ms(4000));
    let x = setup.start().await;
    x.a.play(slow(100));
    let mut calls = Vec::new();
    for n in 0..6 {
        calls.push(start(x.call("solo").set("seed", n)));
        match n {
            0 => drop(x.a.wait_for_attempts(1).await),
            n => queued(&x, "upstream:A", f64::from(n)).await,
        }
    }
    for call in calls {
        call.answer().await.answered();
    }
    let order: Vec<_> = x.a.attempts().iter().map(|a| a.json()["seed"].as_i64().unwrap()).collect();
    assert_eq!((order, x.a.peak()), ((0..6).collect(), 1));
    x.end().await;
}

#[tokio::test]
async fn calls_that_queue_for_a_saturated_upstream_leave_room_for_the_others() {
    let gates = json!({"max_in_flight": 3, "queue": 10, "queue_wait": "5s"});
    let x = Setup::new().set("/gates", gates).set("/upstreams/A/max_in_flight", 1).start().await;
    x.a.play(slow(1500));
    let calls: Vec<_> = (0..6).map(|_| start(x.call("solo"))).collect();
    queued(&x, "upstream:A", 5.0).await;
    x.metric_becomes("sluice_gate_in_flight", &[("gate", "global")], 1.0).await;
    for _ in 0..4 {
        let r = x.call("other").await;
        r.answered().tags("B/b1", false);
        assert!(r.took() < x.t(ms(400)), "held up by calls that wait for another upstream: {r:?}");
    }
    assert_eq!(x.a.calls(), 1, "A was saturated all the while");
    for call in calls {
        // Not all of them fit into their time; each is told so in its own words.
        let r = call.answer().await;
        assert!(matches!(r.status, 200 | 503 | 504), "{r:?}");
    }
    x.end().await;
}

#[tokio::test]
async fn a_call_that_comes_back_from_a_queue_goes_ahead_of_newcomers() {
    let gates = json!({"max_in_flight": 2, "queue": 10, "queue_wait": "4s"});
    let setup = Setup::new().set("/gates", gates).set("/upstreams/A/max_in_flight", 1);
    let x = setup.set("/upstreams/A/queue_wait", ms(4000)).start().await;
    x.a.play(slow(500));
    x.b.play(slow(900));
    let call = |route: &str, seed: i64| start(x.call(route).set("seed", seed));
    let mut calls = vec![call("solo", 1)];
    x.a.wait_for_attempts(1).await;
    // It queues for A and gives its place in the gateway back, which the third then has.
    calls.push(call("solo", 2));
    queued(&x, "upstream:A", 1.0).await;
    calls.push(call("other", 3));
    x.b.wait_for_attempts(1).await;
    for (seed, waiting) in [(4, 1.0), (5, 2.0)] {
        calls.push(call("other", seed));
        queued(&x, "global", waiting).await;
    }
    for call in calls {
        call.answer().await.answered();
    }
    let order: Vec<_> = x.b.attempts().iter().map(|a| a.json()["seed"].as_i64().unwrap()).collect();
    assert_eq!(order, [3, 4, 5]);
    assert!(x.a.attempt(1).at < x.b.attempt(2).at, "a newcomer went ahead");
    x.end().await;
}

#[tokio::test]
async fn a_permit_covers_the_body_and_a_plain_answer_only_until_it_is_read() {
    let setup = Setup::new().set("/upstreams/A/max_in_flight", 1).set("/gates/queue_wait", ms(3000));
    let x = setup.start().await;
    x.a.play([ROLE, TXT("one "), SLEEP(700), TXT("two "), TXT("three"), FIN("stop"), DONE, END]);
    let mut first = x.call("solo").begin().await;
    first.contents(1).await;
    let second = start(x.call("solo"));
    first.finish().await.answered();
    second.answer().await.answered();
    let (one, two) = (x.a.attempt(0), x.a.attempt(1));
    assert!(two.at >= one.over.unwrap().0, "let in before the first had ended");
    assert_eq!(x.a.peak(), 1);
    // Not until the client has read it: a client that reads nothing holds no place.
    x.a.play(ANSWER(200, "application/json", large_completion()));
    let mut idle = x.plain("solo").receive_buffer(4096).begin().await;
    x.a.wait_for_attempts(3).await;
    x.a.healthy();
    let r = x.plain("solo").await;
    r.answered();
    assert!(r.took() < x.t(ms(1500)), "{:?}", r.took());
    assert_eq!(idle.finish().await.status, 200);
    x.end().await;
}

fn large_completion() -> String {
    let message = json!({"role": "assistant", "content": "z".repeat(16 << 20)});
    json!({"id": "c", "object": "chat.completion", "model": "a1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    .to_string()
}

#[tokio::test]
async fn waiters_that_leave_are_not_served_and_cost_the_others_nothing() {
    let setup = Setup::new().set("/upstreams/A/max_in_flight", 1).set("/gates/queue_wait", ms(3000));
    let x = setup.start().await;
    x.a.play(slow(600));
    let first = start(x.call("solo"));
    x.a.wait_for_attempts(1).await;
    let mut leavers = Vec::new();
    for _ in 0..8 {
        leavers.push(x.call("solo").begin().await);
    }
    queued(&x, "upstream:A", 8.0).await;
    let last = start(x.call("solo"));
    queued(&x, "upstream:A", 9.0).await;
    leavers.into_iter().for_each(harness::client::Client::close);
    queued(&x, "upstream:A", 1.0).await;
    first.answer().await.answered();
    last.answer().await.answered();
    x.calls([2, 0, 0]);
    right_after(&x.a.attempt(0), &x.a.attempt(1));
    x.outcome("client_cancelled", 8).await;
    assert!(x.metric("sluice_gate_refused_total", &[]).await < 1.0);
    x.end().await;
}

#[tokio::test]
async fn a_full_queue_and_a_queue_that_takes_too_long_have_their_own_words() {
    let setup = Setup::new().set("/upstreams/A/max_in_flight", 1).set("/upstreams/A/queue", 1);
    let x = setup.set("/upstreams/A/queue_wait", ms(800)).start().await;
    x.a.play(slow(2000));
    let first = start(x.call("solo"));
    x.a.wait_for_attempts(1).await;
    let waiting = start(x.call("solo"));
    queued(&x, "upstream:A", 1.0).await;
    let r = x.call("solo").await;
    r.refused(503, "queue_full").attempts(0);
    assert!(r.took() < LATE, "it waited for a place in the queue: {r:?}");
    let r = waiting.answer().await;
    r.refused(503, "queue_timeout").attempts(0);
    x.near(r.took(), ms(800));
    first.answer().await;
    x.outcome("refused", 2).await;
    x.end().await;
}

#[tokio::test]
async fn a_waiter_is_told_when_its_target_opens() {
    let setup = Setup::new().set("/upstreams/A/max_in_flight", 1).set("/gates/queue_wait", ms(4000));
    let x = setup.set("/breaker/consecutive", 1).start().await;
    x.a.play([SLEEP(500), CUT]);
    let first = start(x.call("chat"));
    x.a.wait_for_attempts(1).await;
    let second = start(x.call("chat"));
    queued(&x, "upstream:A", 1.0).await;
    for call in [first, second] {
        let r = call.answer().await;
        r.answered().tags("B/b1", true);
        let record = x.record(&r).await;
        assert!(r.took() < x.t(ms(900)), "{record} {:?}", x.a.attempts());
    }
    x.calls([1, 2, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_call_that_comes_back_from_a_queue_leaves_a_target_that_opened_meanwhile() {
    let gates = json!({"max_in_flight": 3, "queue": 10, "queue_wait": "30s"});
    let x = Setup::new()
        .set("/gates", gates)
        .set("/upstreams/A/max_in_flight", 2)
        .set("/breaker", json!({"consecutive": 2, "open": "60s"}))
        .set("/defaults", json!({"budget": "30s", "attempt": "30s", "first_content": "30s", "idle": "30s"}))
        .start()
        .await;
    let [first, second, rest] = [(); 3].map(|()| Latch::new());
    x.a.queue([&[HOLD(&first)], &STATUS(503).0[..]].concat());
    x.a.queue([&[HOLD(&second)], &STATUS(503).0[..]].concat());
    let held = [ROLE, TXT("one "), HOLD(&rest), TXT("two "), TXT("three"), FIN("stop"), DONE];
    x.b.queue(held.clone());
    x.b.queue(held);
    // Two have A. A third queues there and gives its place among all back, which a fourth takes.
    let mut goes_on = x.call("chat").begin().await;
    x.a.wait_for_attempts(1).await;
    let fails = start(x.call("solo"));
    x.a.wait_for_attempts(2).await;
    let waits = start(x.call("chat"));
    queued(&x, "upstream:A", 1.0).await;
    let mut other = x.call("other").begin().await;
    other.contents(1).await;
    // The first fails and goes on to B with its place among all: the third has its place at A, and waits for the other one.
    first.open();
    goes_on.contents(1).await;
    queued(&x, "global", 1.0).await;
    queued(&x, "upstream:A", 0.0).await;
    // A opens, and with that a place among all comes free.
    second.open();
    fails.answer().await.refused(503, "retryable_upstream");
    x.breaker_is("A/a1", "open", 2).await;
    waits.answer().await.answered().tags("B/b1", true).attempts(1);
    x.calls([2, 3, 0]);
    rest.open();
    goes_on.finish().await.answered();
    other.finish().await.answered();
    x.end().await;
}
