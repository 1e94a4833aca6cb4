//! Several keys of one account: which is used, which is set aside, and what a call may do with the others.

use crate::running::start;
use harness::prelude::*;
use harness::setup::key_of;

const SECOND: &str = "sk-scripted-A-second-1d0f7c2b9a8e4653";
const THIRD: &str = "sk-scripted-A-third-77c1e0d2f4b8a965";

/// A with two keys, or three.
fn keys(count: usize) -> Setup {
    let references: Vec<&str> = ["env:KEY_A", "env:KEY_A2", "env:KEY_A3"].into_iter().take(count).collect();
    let both = Setup::new().env("KEY_A2", SECOND);
    let all = if count > 2 { both.env("KEY_A3", THIRD) } else { both };
    all.set("/upstreams/A/credentials", json!(references))
}

/// The first key is answered like this, the others are served.
fn first_key(x: &Case, script: Script) {
    let first = key_of("A");
    x.a.decide(move |attempt| (attempt.key() == Some(first.as_str())).then(|| script.clone()));
}

fn used(x: &Case) -> Vec<String> {
    x.a.attempts().iter().filter_map(|attempt| Some(attempt.key()?.to_owned())).collect()
}

async fn credentials(x: &Case) -> Vec<String> {
    let page = x.gateway.admin_json("/debug/upstreams").await;
    let a = page["upstreams"].as_array().unwrap().iter().find(|entry| entry["upstream"] == "A").unwrap();
    let states = a["credentials"].as_array().unwrap().iter();
    states.map(|credential| credential["state"].as_str().unwrap().to_owned()).collect()
}

fn quota() -> Script {
    JSON(429, &json!({"error": {"message": "m", "type": "insufficient_quota", "code": "insufficient_quota"}}))
}

#[tokio::test]
async fn a_short_hint_is_waited_out_on_the_same_target() {
    let x = Setup::new().set("/defaults/retry/rate_limit", 1).start().await;
    x.a.queue(LIMITED(&[("retry-after", "1")]));
    let r = x.call("chat").await;
    r.answered().tags("A/a1", false).attempts(2);
    x.calls([2, 0, 0]);
    let attempts = x.a.attempts();
    x.between(attempts[1].at - attempts[0].at, ms(1000), ms(1150));
    x.end().await;
}

#[tokio::test]
async fn a_target_that_asks_for_more_while_its_hint_is_waited_out_is_left_by_a_switch() {
    let setup = Setup::new().set("/defaults/retry/rate_limit", 1).set("/routes/chat/max_switches", 0);
    let x = setup.start().await;
    x.a.queue(LIMITED(&[("retry-after", "1")]));
    x.a.queue(LIMITED(&[("retry-after", "30")]));
    let mut first = x.call("chat").begin().await;
    x.a.wait_for_attempts(1).await;
    // No switch may be made, so the hint of its own attempt is the last word.
    first.finish().await.refused(429, "retryable_rate_limit");
    x.calls([2, 0, 0]);
    x.a.healthy();
}

#[tokio::test]
async fn with_a_hint_another_key_goes_first_and_the_limited_one_is_left_alone() {
    let x = keys(2).set("/defaults/retry/rate_limit", 1).start().await;
    first_key(&x, LIMITED(&[("retry-after", "30")]));
    let r = x.call("chat").await;
    r.answered().tags("A/a1", false).attempts(2);
    assert!(r.took() < ms(900), "{r:?}");
    assert_eq!(used(&x), [key_of("A"), SECOND.to_owned()]);
    assert_eq!(credentials(&x).await, ["rate_limited", "ok"]);
    x.breaker_is("A/a1", "closed", 0).await;
    x.call("chat").await.answered().tags("A/a1", false).attempts(1);
    assert_eq!(used(&x)[2..], [SECOND.to_owned()]);
    x.end().await;
}

#[tokio::test]
async fn without_a_hint_another_key_goes_first_and_the_failure_counts() {
    let x = keys(2).set("/routes/solo/idle", "off").start().await;
    x.a.play(LIMITED(&[]));
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true).attempts(3);
    x.calls([2, 1, 0]);
    assert_eq!(used(&x), [key_of("A"), SECOND.to_owned()]);
    assert_eq!(credentials(&x).await, ["rate_limited", "ok"], "the last key left is not set aside");
    x.breaker_is("A/a1", "closed", 2).await;
    x.end().await;
}

#[tokio::test]
async fn each_key_is_tried_at_most_once_a_call_and_none_is_seen() {
    let x = keys(3).start().await;
    x.a.play(JSON(
        401,
        &json!({"error": {"message": format!("bad key {SECOND}"), "type": "t", "code": null}}),
    ));
    let r = x.call("chat").await;
    r.refused(502, "auth_denied").attempts(3);
    assert_eq!(r.header("x-should-retry"), Some("false"));
    assert_eq!(used(&x), [key_of("A"), SECOND.to_owned(), THIRD.to_owned()]);
    assert_eq!(credentials(&x).await, ["denied", "denied", "denied"]);
    x.breaker_is("A/a1", "closed", 0).await;
    // While they are denied, calls whose first choice it is are told at once.
    let r = x.call("chat").await;
    r.refused(502, "auth_denied").attempts(0);
    assert!(r.took() < ms(500), "{r:?}");
    x.calls([3, 0, 0]);
    x.call("other").await.answered();
    x.end().await;
}

#[tokio::test]
async fn a_denied_key_is_tried_again_when_its_time_is_over() {
    let x = Setup::new().set("/breaker/cooldown/auth", ms(600)).start().await;
    x.a.play(STATUS(403));
    x.call("chat").await.refused(502, "auth_denied").attempts(1);
    x.a.healthy();
    x.call("chat").await.refused(502, "auth_denied").attempts(0);
    let back = x.poll(ms(3000), async || x.call("chat").await.status == 200).await;
    assert!(back);
    assert!(x.a.attempt(1).at - x.a.attempt(0).at >= x.t(ms(600)));
    x.end().await;
}

#[tokio::test]
async fn keys_without_quota_are_passed_over_without_any_retry_budget() {
    let none = json!({"ratio": 0.0, "min_per_second": 0});
    let x = keys(2).set("/retry_budget", none).start().await;
    first_key(&x, quota());
    x.call("chat").await.answered().tags("A/a1", false).attempts(2);
    assert_eq!(credentials(&x).await, ["quota", "ok"]);
    x.breaker_is("A/a1", "closed", 0).await;
    // The second key runs out too: the next target, which takes nothing from the budget either.
    x.a.play(quota());
    x.a.decide(|_| None);
    x.call("chat").await.answered().tags("B/b1", true).attempts(2);
    x.call("chat").await.answered().tags("B/b1", true).attempts(1);
    x.calls([3, 2, 0]);
    let r = x.call("solo").await;
    r.refused(429, "rate_limited").attempts(0);
    assert_eq!(r.header("retry-after"), Some("60"), "capped");
    x.end().await;
}

#[tokio::test]
async fn a_rate_limited_key_is_not_replaced_without_retry_budget() {
    let none = json!({"ratio": 0.0, "min_per_second": 0});
    let x = keys(2).set("/retry_budget", none).start().await;
    first_key(&x, LIMITED(&[("retry-after", "1")]));
    x.call("chat").await.refused(429, "retryable_rate_limit").attempts(1);
    x.metric_becomes("sluice_retry_budget_denied_total", &[("target", "A/a1")], 1.0).await;
    x.calls([1, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn calls_at_once_are_spread_over_the_keys() {
    let x = keys(3).start().await;
    x.a.play(Script([vec![SLEEP(400)], Script::from(OK).0].concat()));
    let calls: Vec<_> = (0..6).map(|_| start(x.call("solo"))).collect();
    for call in calls {
        call.answer().await.answered();
    }
    let mut used = used(&x);
    used.sort();
    let mut want = vec![[key_of("A"), SECOND.to_owned(), THIRD.to_owned()]; 2].concat();
    want.sort();
    assert_eq!(used, want);
    x.end().await;
}
