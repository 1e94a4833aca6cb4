//! Worked cases: a place covers the work to its end, and is given to nobody who has left.

use crate::expect::{LATE, right_after};
use crate::running::start;
use harness::prelude::*;

fn one_place() -> Setup {
    Setup::new().set("/upstreams/A/max_in_flight", 1).set("/upstreams/A/queue_wait", ms(3000))
}

const DEPTH: [(&str, &str); 1] = [("gate", "upstream:A")];

#[tokio::test]
async fn b059_a_slot_covers_the_whole_body() {
    let message = json!({"role": "assistant", "content": HEALTHY_TEXT});
    let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string();
    let (front, back) = whole.split_at(whole.len() / 2);
    let json = HEAD(200, &[("content-type", "application/json")]);
    let pieces = |text: &str| [TXT(text), SLEEP(300)];
    let stream = [&[SSE, ROLE][..], &pieces("one "), &pieces("two "), &pieces("three"), &[FIN("stop"), DONE]];
    let scripts: [(bool, Script); 2] = [
        (true, stream.concat().into()),
        (false, [json, RAW(front.to_owned()), SLEEP(700), RAW(back.to_owned()), END].into()),
    ];
    for (streaming, script) in scripts {
        let x = one_place().start().await;
        x.a.queue(script);
        let first = start(x.call("solo").set("stream", streaming));
        x.a.wait_for_attempts(1).await;
        let second = start(x.call("solo").set("stream", streaming));
        x.metric_becomes("sluice_gate_queue_depth", &DEPTH, 1.0).await;
        first.answer().await.answered();
        second.answer().await.answered();
        let (one, two) = (x.a.attempt(0), x.a.attempt(1));
        assert!(two.at >= one.over.unwrap().0, "let in before the first had ended (stream: {streaming})");
        assert!(two.at - one.at >= ms(700), "the first took its time");
        assert_eq!(x.a.peak(), 1);
        x.end().await;
    }
}

#[tokio::test]
async fn b059_a_plain_answer_holds_its_slot_no_longer_than_it_is_read() {
    let x = one_place().start().await;
    let message = json!({"role": "assistant", "content": "z".repeat(16 << 20)});
    let large = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string();
    x.a.queue(ANSWER(200, "application/json", large));
    let mut idle = x.plain("solo").receive_buffer(4096).begin().await;
    x.a.wait(harness::PATIENCE, |up| up.calls() == 1 && up.active() == 0).await;
    // Its client has read nothing of it, and the place is free.
    let r = x.plain("solo").await;
    r.answered();
    assert!(r.took() < ms(300) + LATE, "{r:?}");
    assert_eq!(idle.response().end, End::Open);
    assert_eq!(idle.finish().await.status, 200);
    x.end().await;
}

#[tokio::test]
async fn b060_a_waiter_who_left_is_not_served() {
    let x = one_place().start().await;
    let latch = Latch::new();
    // Over as soon as it is done: the place is free from then on.
    x.a.queue([HOLD(&latch), ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE, END]);
    let first = start(x.call("solo"));
    x.a.wait_for_attempts(1).await;
    let mut leavers = Vec::new();
    for _ in 2..=9 {
        leavers.push(x.call("solo").begin().await);
    }
    x.metric_becomes("sluice_gate_queue_depth", &DEPTH, 8.0).await;
    let last = start(x.call("solo"));
    x.metric_becomes("sluice_gate_queue_depth", &DEPTH, 9.0).await;
    let left = now();
    leavers.into_iter().for_each(Client::close);
    let one = async || (x.metric("sluice_gate_queue_depth", &DEPTH).await - 1.0).abs() < 0.1;
    let fell = x.poll(ms(50) + LATE, one).await;
    assert!(fell, "they queue {:?} after they left", now() - left);
    x.outcome("client_cancelled", 8).await;
    latch.open();
    first.answer().await.answered();
    last.answer().await.answered();
    x.calls([2, 0, 0]);
    let (one, two) = (x.a.attempt(0), x.a.attempt(1));
    right_after(&one, &two);
    x.metric_becomes("sluice_gate_refused_total", &[], 0.0).await;
    x.outcome("refused", 0).await;
    x.outcome("success", 2).await;
    x.end().await;
}
