//! How much a caller may do at a time and in a minute.

use crate::expect::{has, no_more_than};
use crate::running::start;
use harness::prelude::*;
use harness::setup::caller_key;

fn web(limits: Value) -> Setup {
    Setup::new().caller("ops", json!({})).caller("web", limits).calls_as("ops")
}

fn call(x: &Case, route: &str) -> harness::call::Call {
    x.call(route).key(caller_key("web").as_str())
}

/// A healthy answer that waits in its middle.
fn held(latch: &Latch) -> Script {
    [ROLE, TXT("one "), HOLD(latch), TXT("two "), TXT("three"), FIN("stop"), DONE].into()
}

const GATE: [(&str, &str); 1] = [("gate", "caller:web")];

#[tokio::test]
async fn a_caller_has_so_many_calls_at_a_time_and_a_line_of_its_own() {
    let x = web(json!({"max_in_flight": 2, "queue": 1, "queue_wait": "5s"})).start().await;
    let latch = Latch::new();
    x.a.play(held(&latch));
    let mut streams = [call(&x, "solo").begin().await, call(&x, "solo").begin().await];
    for client in &mut streams {
        client.contents(1).await;
    }
    // Both have committed long ago; what counts is that they run.
    let third = start(call(&x, "solo"));
    x.metric_becomes("sluice_gate_queue_depth", &GATE, 1.0).await;
    let r = call(&x, "solo").await;
    r.refused(429, "caller_limit");
    assert_eq!(r.error()["type"], "rate_limit_error");
    has(&x.record(&r).await, &json!({"caller": "web", "outcome": "denied", "attempts": []}));
    let refused = [GATE[0], ("reason", "queue_full")];
    x.metric_becomes("sluice_gate_refused_total", &refused, 1.0).await;
    x.metric_becomes("sluice_gate_in_flight", &GATE, 2.0).await;
    x.metric_becomes("sluice_gate_limit", &GATE, 2.0).await;
    let page = x.gateway.admin_json("/debug/upstreams").await;
    let gates = page["gates"].as_array().expect("a list").clone();
    let row = gates.iter().find(|row| row["gate"] == "caller:web").expect("the gate of the caller");
    assert_eq!(*row, json!({"gate": "caller:web", "in_flight": 2, "limit": 2, "queue": 1}));
    // Others are not held up.
    x.call("other").await.answered();
    assert_eq!(x.a.calls(), 2);
    latch.open();
    for mut client in streams {
        client.finish().await.answered();
    }
    third.answer().await.answered();
    assert_eq!(x.a.peak(), 2);
    x.end().await;
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_a_429_and_one_that_is_left_is_never_granted() {
    let x = web(json!({"max_in_flight": 1, "queue_wait": "300ms", "requests_per_minute": 3})).start().await;
    let latch = Latch::new();
    x.a.play(held(&latch));
    let mut first = call(&x, "solo").begin().await;
    first.contents(1).await;
    let r = call(&x, "solo").await;
    r.refused(429, "caller_limit");
    x.near(r.took(), ms(300));
    // It was not let in, and so it has used none of the requests.
    assert_eq!(r.header("x-ratelimit-remaining-requests"), Some("2"), "{r:?}");
    let leaves = call(&x, "solo").begin().await;
    x.metric_becomes("sluice_gate_queue_depth", &GATE, 1.0).await;
    leaves.close();
    x.metric_becomes("sluice_gate_queue_depth", &GATE, 0.0).await;
    latch.open();
    first.finish().await.answered();
    x.metric_becomes("sluice_gate_in_flight", &GATE, 0.0).await;
    no_more_than(&x.a, 1, ms(200)).await;
    let last = call(&x, "solo").await;
    assert_eq!(last.answered().header("x-ratelimit-remaining-requests"), Some("1"), "{last:?}");
    x.end().await;
}

#[tokio::test]
async fn clients_that_leave_give_the_place_of_their_caller_back() {
    let x = web(json!({"max_in_flight": 1, "queue_wait": "3s"})).start().await;
    x.a.play([ROLE, TXT("one "), SILENT]);
    for n in 0..6 {
        let mut client = call(&x, "solo").begin().await;
        client.contents(1).await;
        x.metric_becomes("sluice_gate_in_flight", &GATE, 1.0).await;
        if n % 2 == 0 {
            client.close()
        } else {
            client.reset()
        }
        x.metric_becomes("sluice_gate_in_flight", &GATE, 0.0).await;
    }
    x.a.healthy();
    call(&x, "solo").await.answered();
    x.end().await;
}

#[tokio::test]
async fn so_many_requests_a_minute_and_each_answer_says_how_many_are_left() {
    let x = web(json!({"requests_per_minute": 3, "routes": ["chat", "solo"]})).start().await;
    let left = |r: &Response| {
        let header = |name: &str| r.header(name).unwrap_or_else(|| panic!("no {name}: {r:?}")).to_owned();
        let reset = header("x-ratelimit-reset-requests");
        let seconds: u32 = reset.strip_suffix('s').and_then(|s| s.parse().ok()).expect("seconds");
        assert!((1..=60).contains(&seconds), "{reset}");
        (header("x-ratelimit-limit-requests"), header("x-ratelimit-remaining-requests"))
    };
    let of_three = |left: &str| ("3".to_owned(), left.to_owned());
    // What never was a call of the route takes nothing.
    call(&x, "other").await.refused(403, "route_not_allowed");
    call(&x, "nowhere").await.refused(404, "model_not_found");
    call(&x, "chat").body("{").await.refused(400, "invalid_json");
    let r = call(&x, "chat").await;
    assert_eq!(left(r.answered()), of_three("2"));
    let r = call(&x, "chat").plain().await;
    assert_eq!(left(r.answered()), of_three("1"));
    // One that fails was a request all the same.
    x.a.play(STATUS(400));
    let r = call(&x, "solo").await;
    assert_eq!((r.status, left(&r)), (400, of_three("0")));
    x.a.healthy();
    for _ in 0..2 {
        let r = call(&x, "chat").await;
        r.refused(429, "caller_limit").route_tags(false);
        assert_eq!(left(&r), of_three("0"));
        assert!(r.header("x-should-retry").is_none(), "{r:?}");
        has(&x.record(&r).await, &json!({"caller": "web", "outcome": "denied", "attempts": []}));
    }
    x.calls([3, 0, 0]);
    let r = x.call("chat").await;
    assert!(r.answered().header("x-ratelimit-limit-requests").is_none(), "a caller without limits: {r:?}");
    x.end().await;
}

#[tokio::test]
async fn an_upstreams_word_about_its_own_limits_is_not_taken_for_ours() {
    let limit = "x-ratelimit-limit-requests";
    let x = web(json!({"requests_per_minute": 30})).set("/return_headers", json!([limit])).start().await;
    let head = HEAD(200, &[("content-type", "text/event-stream"), (limit, "10000")]);
    x.a.play([head, ROLE, TXT("one two three"), FIN("stop"), DONE]);
    let r = call(&x, "solo").await;
    assert_eq!((r.answered().header(limit), r.header_count(limit)), (Some("30"), 1));
    assert_eq!(x.call("solo").await.header(limit), Some("10000"), "it was asked for");
    x.end().await;
}
