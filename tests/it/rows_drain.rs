//! Going down: everybody is told, nothing is torn off without a word, and every call has its record.

use std::time::Duration;

use crate::expect::{GONE, LATE, has};
use harness::prelude::*;
use tokio::net::TcpStream;

/// A gateway whose clocks do not end what a drain is to end.
fn patient(window: &str, limit: &str) -> Setup {
    Setup::new()
        .set("/drain", json!({"window": window, "limit": limit}))
        .set("/defaults/idle", "off")
        .set("/defaults/budget", "60s")
        .set("/defaults/attempt", "60s")
        .set("/defaults/first_content", "60s")
}

/// The end of the process, and the record of each call.
async fn records(x: &mut Case) -> Vec<Value> {
    assert_eq!(x.gateway.exit_code(harness::PATIENCE).await, 0);
    assert!(!x.gateway.log().contains("panicked"), "{}", x.gateway.log());
    for blame in ["provider_request_failed", "provider_stream_interrupted", "breaker_opened"] {
        assert_eq!(x.gateway.events(blame), Vec::<Value>::new(), "somebody is blamed");
    }
    x.gateway.events("request")
}

/// The last line says that the end was in order, and how many calls were cut off.
async fn stopped(x: &Case, cut_off: u64) {
    let last = x.gateway.wait_for_event("stopped", |_| true).await;
    has(&last, &json!({"level": "info", "cut_off": cut_off}));
    assert!(x.gateway.log().lines().last().unwrap().contains("stopped"), "{}", x.gateway.log());
    let took = last["took"].as_str().unwrap_or_default();
    assert!(took.ends_with("ms") || took.ends_with('s'), "{last}");
}

#[tokio::test]
async fn a_stream_that_outlasts_the_limit_ends_with_a_word_and_a_record() {
    let talking: Vec<Step> = (0..2000).flat_map(|_| [TXT("more "), SLEEP(20)]).collect();
    let scripts: [Script; 2] = [[ROLE, TXT("one "), SILENT].into(), [&[ROLE], &talking[..]].concat().into()];
    for script in scripts {
        let mut x = patient("0s", "400ms").start().await;
        x.a.play(script);
        let mut running = x.call("chat").begin().await;
        running.contents(1).await;
        x.gateway.terminate().await;
        let r = running.finish().await;
        assert_eq!(r.end, End::Complete, "{r:?}");
        r.broken_stream(&r.text());
        assert_eq!(r.errors()[0].json()["error"]["code"], "draining", "{r:?}");
        let records = records(&mut x).await;
        assert_eq!(records.len(), 1, "a record for each call");
        stopped(&x, 1).await;
        let want = json!({"outcome": "interrupted", "status_code": 200, "attempts": [{"kind": null}]});
        has(&records[0], &want);
    }
}

#[tokio::test]
async fn a_second_signal_ends_a_stream_with_a_word_too() {
    let mut x = patient("60s", "60s").start().await;
    x.a.play([ROLE, TXT("one "), SILENT]);
    let mut running = x.call("chat").begin().await;
    running.contents(1).await;
    x.gateway.terminate().await;
    x.drains().await;
    x.gateway.terminate().await;
    let r = running.finish().await;
    r.broken_stream("one ");
    assert_eq!(r.errors()[0].json()["error"]["code"], "draining", "{r:?}");
    has(&records(&mut x).await[0], &json!({"outcome": "interrupted"}));
}

#[tokio::test]
async fn a_call_without_an_answer_at_the_limit_is_told_so() {
    for plain in [true, false] {
        let mut x = patient("0s", "400ms").start().await;
        x.a.play(SILENT);
        let call = if plain { x.plain("chat") } else { x.call("chat") };
        let mut waiting = call.begin().await;
        x.a.wait_for_attempts(1).await;
        x.gateway.terminate().await;
        waiting.finish().await.refused(503, "draining");
        let records = records(&mut x).await;
        has(&records[0], &json!({"outcome": "refused", "status_code": 503, "attempts": [{"kind": null}]}));
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_does_not_hold_up_the_end_and_has_its_record() {
    let mut x = patient("0s", "300ms").start().await;
    let event = TXT(&"x".repeat(64 << 10));
    x.a.play([&[ROLE], &vec![event; 2000][..]].concat());
    let mut unread = x.call("chat").receive_buffer(4096).begin().await;
    unread.head().await;
    x.gateway.terminate().await;
    let records = records(&mut x).await;
    assert_eq!(records.len(), 1, "a record for each call");
    has(&records[0], &json!({"outcome": "interrupted", "attempts": [{"kind": null}]}));
}

#[tokio::test]
async fn a_whole_answer_is_a_running_call_until_it_is_written() {
    let mut x = patient("0s", "30s").set("/defaults/client_write", "30s").start().await;
    let text = "x".repeat(24 << 20);
    let answer = json!({
        "id": "x", "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
    });
    x.a.play(JSON(200, &answer));
    let mut slow = x.plain("chat").receive_buffer(64 << 10).begin().await;
    slow.head().await;
    x.gateway.terminate().await;
    // Longer than what is left to tasks that nobody waits for.
    slow.pause(ms(5000)).await;
    let r = slow.finish_within(Duration::from_secs(20)).await;
    assert_eq!((r.end, r.body.len() > text.len()), (End::Complete, true), "cut at {} bytes", r.body.len());
    has(&records(&mut x).await[0], &json!({"outcome": "success"}));
    stopped(&x, 0).await;
}

#[tokio::test]
async fn the_window_is_kept_open_when_no_call_runs() {
    let mut x = patient("2s", "1s").start().await;
    let signalled = now();
    x.gateway.terminate().await;
    x.drains().await;
    while now() - signalled < ms(1500) {
        let r = x.plain("chat").await;
        r.answered();
        assert_eq!(r.header("connection"), Some("close"), "{r:?}");
        tokio::time::sleep(ms(50)).await;
    }
    let closed = x.poll(harness::PATIENCE, async || TcpStream::connect(x.gateway.addr()).await.is_err());
    assert!(closed.await, "the listener still accepts after the window");
    x.between(now() - signalled, ms(2000), ms(2000) + LATE);
    assert_eq!(x.gateway.exit_code(harness::PATIENCE).await, 0);
}

#[tokio::test]
async fn a_second_signal_cuts_the_window_short() {
    let mut x = patient("60s", "60s").start().await;
    x.gateway.terminate().await;
    x.drains().await;
    x.gateway.terminate().await;
    assert_eq!(x.gateway.exit_code(harness::PATIENCE).await, 0);
}

#[tokio::test]
async fn a_call_that_waits_to_come_back_is_let_go_at_the_signal() {
    let mut x = patient("1s", "1s")
        .set("/gates", json!({"max_in_flight": 2, "queue": 10, "queue_wait": "30s"}))
        .set("/upstreams/A/max_in_flight", 1)
        .start()
        .await;
    let latch = Latch::new();
    x.a.queue([&[HOLD(&latch)], &STATUS(503).0[..]].concat());
    x.b.play([ROLE, TXT("one "), SILENT]);
    // One call has A; another queues there and gives its place back, which a third takes.
    let mut first = x.call("chat").begin().await;
    x.a.wait_for_attempts(1).await;
    let mut returning = x.call("solo").begin().await;
    x.metric_becomes("sluice_gate_queue_depth", &[("gate", "upstream:A")], 1.0).await;
    let mut third = x.call("other").begin().await;
    third.contents(1).await;
    // The first goes on to B and keeps its place: the second has A and waits for a place among all.
    latch.open();
    first.contents(1).await;
    x.metric_becomes("sluice_gate_queue_depth", &[("gate", "global")], 1.0).await;
    x.metric_becomes("sluice_gate_queue_depth", &[("gate", "upstream:A")], 0.0).await;
    let signalled = now();
    x.gateway.terminate().await;
    let r = returning.finish().await;
    r.refused(503, "draining");
    assert!(r.ended.unwrap() - signalled <= GONE + LATE, "let go after {:?}", r.ended.unwrap() - signalled);
    x.calls([1, 2, 0]);
    assert_eq!(x.gateway.exit_code(harness::PATIENCE).await, 0);
}
