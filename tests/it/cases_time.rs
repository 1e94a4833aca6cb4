//! Worked cases: hints of when to come back, and one budget for everything.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::expect::{GONE, LATE, has, no_more_than};
use crate::running::start;
use harness::prelude::*;

/// So many seconds from now, as HTTP writes a date.
fn http_date(ahead: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [(&str, u64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    #[expect(clippy::disallowed_methods, reason = "a date is of the wall's clock")]
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + ahead;
    let (days, seconds) = (wall / 86_400, wall % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    let length = |month: usize, year| MONTHS[month].1 + u64::from(month == 1 && leap(year));
    while day >= length(month, year) {
        day -= length(month, year);
        month += 1;
    }
    let weekday = DAYS[usize::try_from(days % 7).unwrap()];
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{weekday}, {:02} {} {year} {h:02}:{m:02}:{s:02} GMT", day + 1, MONTHS[month].0)
}

/// The moment of the case at which a client calls.
async fn until(began: Instant, after: Duration) {
    tokio::time::sleep_until((began + after).into()).await;
}

fn seconds(r: &Response) -> u64 {
    r.header("retry-after").and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{r:?}"))
}

#[tokio::test]
async fn b043_every_form_of_retry_after_is_read_and_told_in_whole_seconds() {
    let x = Setup::new().start().await;
    x.a.play(LIMITED(&[("retry-after", "7")]));
    x.b.decide(|_| Some(LIMITED(&[("retry-after", &http_date(4))])));
    let began = now();
    let r = x.call("chat").await;
    r.refused(429, "retryable_rate_limit").route_tags(true).attempts(2);
    let first = seconds(&r);
    assert!((3..=4).contains(&first), "the earliest target, rounded up: {r:?}");
    until(began, ms(1000)).await;
    let r = x.call("chat").await;
    r.refused(429, "rate_limited").attempts(0);
    assert_eq!(r.error()["type"], "rate_limit_error");
    assert!(r.took() < ms(50) + LATE, "{r:?}");
    assert!((first - 1..=first).contains(&seconds(&r)) && seconds(&r) < 4, "{r:?}");
    x.calls([1, 1, 0]);
    x.b.healthy();
    until(began, ms(4500)).await;
    x.call("chat").await.answered().tags("B/b1", true).attempts(1);
    x.calls([1, 2, 0]);
    x.breaker_is("A/a1", "closed", 0).await;
    x.breaker_is("B/b1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn b043_milliseconds_are_rounded_up() {
    let x = Setup::new().start().await;
    x.a.play(LIMITED(&[("retry-after", "7")]));
    x.b.play(LIMITED(&[("retry-after-ms", "1500")]));
    let began = now();
    let r = x.call("chat").await;
    r.refused(429, "retryable_rate_limit").attempts(2);
    assert_eq!(seconds(&r), 2, "{r:?}");
    until(began, ms(700)).await;
    let r = x.call("chat").await;
    r.refused(429, "rate_limited").attempts(0);
    assert_eq!(seconds(&r), 1, "{r:?}");
    x.calls([1, 1, 0]);
    x.b.healthy();
    until(began, ms(1700)).await;
    x.call("chat").await.answered().tags("B/b1", true).attempts(1);
    x.end().await;
}

#[tokio::test]
async fn b043_what_clients_are_told_is_a_whole_number_from_1_to_60() {
    let table = [
        ("0", 1..=1),
        ("0.2", 1..=1),
        ("61", 60..=60),
        ("86400", 60..=60),
        ("99999999999999999999", 60..=60),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 60..=60),
    ];
    for (hint, want) in table {
        let x = Setup::new().start().await;
        x.a.play(LIMITED(&[("retry-after", hint)]));
        let r = x.call("solo").await;
        r.refused(429, "retryable_rate_limit").attempts(1);
        assert!(want.contains(&seconds(&r)), "{hint}: {r:?}");
        x.calls([1, 0, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn b045_one_budget_for_everything() {
    let x = Setup::new().set("/defaults/budget", ms(2500)).start().await;
    for up in [&x.a, &x.b, &x.c] {
        up.play(SILENT);
    }
    let r = x.call("chat3").await;
    r.refused(504, "budget_exhausted").route_tags(true).attempts(3);
    x.between(r.took(), ms(2400), ms(2600));
    assert!(r.error()["message"].as_str().unwrap().contains("budget"), "{r:?}");
    has(
        &r.error()["attempts"],
        &json!([{"target": "A/a1", "role": "primary"}, {"target": "B/b1"}, {"target": "C/c1"}]),
    );
    for (upstream, at) in [(&x.a, 1000), (&x.b, 2000), (&x.c, 2450)] {
        x.near(x.closed_after(upstream, 0, r.sent).await, ms(at));
    }
    x.calls([1, 1, 1]);
    x.breaker_is("C/c1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn b045_time_in_a_queue_is_time_of_the_budget() {
    let x = Setup::new()
        .set("/defaults/budget", ms(2500))
        .set("/upstreams/A/max_in_flight", 1)
        .set("/upstreams/A/queue_wait", ms(2000))
        .start()
        .await;
    for up in [&x.a, &x.b, &x.c] {
        up.play(SILENT);
    }
    let latch = Latch::new();
    x.a.queue([ROLE, TXT("one two three"), FIN("stop"), HOLD(&latch), DONE]);
    let busy = start(x.call("solo"));
    x.a.wait_for_attempts(1).await;
    let waiting = start(x.call("chat3"));
    x.metric_becomes("sluice_gate_queue_depth", &[("gate", "upstream:A")], 1.0).await;
    let queued = now();
    until(queued, ms(900)).await;
    latch.open();
    let r = waiting.answer().await;
    busy.answer().await.answered();
    r.refused(504, "budget_exhausted").attempts(2);
    x.between(r.took(), ms(2400), ms(2600));
    let a = x.a.attempt(1).at - r.sent;
    x.near(x.closed_after(&x.a, 1, r.sent).await, a + ms(1000));
    x.near(x.closed_after(&x.b, 0, r.sent).await, ms(2450));
    x.calls([2, 1, 0]);
    no_more_than(&x.c, 0, ms(500)).await;
    x.end().await;
}

/// A client of `chat` leaves so long after it has called, and nothing more is done for it.
async fn leaves(script: Script, after: Duration, failures: u64) {
    let retry = json!({"upstream": 2, "rate_limit": 0, "backoff": "500ms"});
    let x = Setup::new().set("/defaults/retry", retry).start().await;
    x.a.play(script);
    let client = x.call("chat").begin().await;
    client.pause(after).await;
    let left = now();
    client.close();
    if failures == 0 {
        let closed = x.closed_after(&x.a, 0, left).await;
        assert!(closed <= GONE + LATE, "the upstream worked on for {closed:?}");
    }
    let record = x.gateway.wait_for_event("request", |_| true).await;
    has(&record, &json!({"outcome": "client_cancelled", "status_code": 499}));
    tokio::join!(no_more_than(&x.a, 1, ms(10_000)), no_more_than(&x.b, 0, ms(10_000)));
    x.calls([1, 0, 0]);
    // A's own 503 is its own; the leave adds nothing to it.
    x.breaker_is("A/a1", "closed", failures).await;
    x.outcome("client_cancelled", 1).await;
    x.end().await;
}

#[tokio::test]
async fn b065_a_client_that_leaves_while_we_wait_or_back_off() {
    tokio::join!(leaves(SILENT.into(), ms(300), 0), leaves(STATUS(503), ms(200), 1));
}
