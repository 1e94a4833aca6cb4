//! A stream after commit: comments of our own, its longest time, what may follow its finish, broken events,
//! heads and flushes.

use harness::prelude::*;

use crate::expect::{LATE, each_at_once, has};

fn comments(response: &Response) -> Vec<std::time::Instant> {
    let is = |event: &&harness::reading::Event| event.raw == b": keep-alive\n\n";
    response.events.iter().filter(is).map(|event| event.at).collect()
}

#[tokio::test]
async fn keep_alive_comments_fill_silence_after_commit_only() {
    let x =
        Setup::new().set("/routes/solo/keep_alive", ms(200)).set("/defaults/idle", ms(5000)).start().await;
    x.a.play([ROLE, SLEEP(700), TXT("one "), SLEEP(700), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let r = x.call("solo").await;
    assert_eq!((r.text().as_str(), r.dones(), r.errors().len()), (HEALTHY_TEXT, 1, 0), "{r:?}");
    assert!(r.head_took().unwrap() >= ms(650), "a comment before commit: {r:?}");
    let (at, text) = (comments(&r), r.contents());
    assert!((2..=4).contains(&at.len()), "{at:?}");
    assert!(at.iter().all(|at| *at > text[0].at && *at < text[1].at), "not in the silence: {r:?}");
    // Without the key there are none.
    let quiet = x.call("chat").await;
    assert_eq!((quiet.text().as_str(), comments(&quiet).len()), (HEALTHY_TEXT, 0));
    x.end().await;
}

#[tokio::test]
async fn keep_alive_comments_do_not_keep_a_stalled_stream_alive() {
    let x = Setup::new().set("/routes/solo/keep_alive", ms(100)).start().await;
    x.a.play([ROLE, TXT("one "), SILENT]);
    let r = x.call("solo").await;
    assert_eq!((r.code().as_str(), r.dones(), r.text().as_str()), ("stream_stalled", 0, "one "), "{r:?}");
    x.near(r.ended.unwrap() - r.contents()[0].at, ms(1000));
    assert!(comments(&r).len() >= 5, "{r:?}");
    x.breaker_is("A/a1", "closed", 1).await;
    x.end().await;
}

#[tokio::test]
async fn stream_max_ends_a_stream_that_flows_and_blames_nobody() {
    let x = Setup::new().set("/routes/solo/stream_max", ms(600)).start().await;
    let mut script = vec![ROLE];
    for _ in 0..40 {
        script.extend([TXT("x"), SLEEP(50)]);
    }
    x.a.play([&script[..], &[FIN("stop"), DONE]].concat());
    let r = x.call("solo").await;
    let text = r.text();
    assert!(text.len() > 4 && text.len() < 20, "{r:?}");
    r.broken_stream(&text);
    assert_eq!(r.code(), "stream_max");
    x.near(r.ended.unwrap() - r.contents()[0].at, ms(600));
    x.a.closed_within(0, ms(500) + LATE).await;
    has(
        &x.record(&r).await,
        &json!({"outcome": "interrupted", "failure_kind": null, "attempts": [{"kind": null}]}),
    );
    x.breaker_is("A/a1", "closed", 0).await;
    x.metric_becomes("sluice_streams_interrupted_total", &[("reason", "stream_max")], 1.0).await;
    assert!(x.gateway.events("provider_stream_interrupted").is_empty());
    x.metric_becomes("sluice_attempts_total", &[("result", "cancelled")], 1.0).await;
    // One that is finished in time is not touched, nor one whose route says nothing.
    x.a.play([ROLE, TXT("one two three"), FIN("stop"), SILENT]);
    x.call("solo").await.answered();
    x.a.play([ROLE, TXT("one "), SLEEP(800), TXT("two three"), FIN("stop"), DONE]);
    x.call("chat").await.answered();
    x.end().await;
}

#[tokio::test]
async fn after_the_finish_reason_usage_and_the_marker_are_waited_for_as_long_as_idle() {
    let x = Setup::new().set("/defaults/idle", ms(600)).start().await;
    x.a.play([ROLE, TXT("one two three"), FIN("stop"), SLEEP(300), USAGE, SLEEP(100), DONE]);
    let r = x.call("solo").await;
    r.answered();
    assert!(r.events.iter().any(|event| event.json()["usage"].is_object()), "{r:?}");
    // Neither marker nor end, and comments that are none of it.
    let comments: Vec<Step> = (0..20).flat_map(|_| [SLEEP(150), CMT("x")]).collect();
    x.a.play([&[ROLE, TXT("one two three"), FIN("stop")][..], &comments[..], &[SILENT]].concat());
    let r = x.call("solo").await;
    r.answered();
    x.near(r.ended.unwrap() - r.contents()[0].at, ms(600));
    x.outcome("success", 2).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_after_the_finish_reason_has_its_answer() {
    let x = Setup::new().start().await;
    x.a.play([ROLE, TXT("one two three"), FIN("stop"), SILENT]);
    let mut client = x.call("solo").begin().await;
    client.read_until(harness::PATIENCE, |r| r.finish().is_some()).await;
    client.close();
    x.outcome("success", 1).await;
    x.end().await;
}

#[tokio::test]
async fn broken_events_are_dropped_or_end_the_stream_as_the_route_says() {
    let script = [
        ROLE,
        TXT("one "),
        RAW("data: {\"choices\":[{\"delta\":\n\n"),
        RAW("data: oops\n\n"),
        TXT("two three"),
        FIN("stop"),
        DONE,
    ];
    let x = Setup::new().set("/routes/other/on_malformed", "fail").start().await;
    for upstream in [&x.a, &x.b] {
        upstream.play(script.to_vec());
    }
    let dropped = x.call("solo").await;
    dropped.answered();
    assert!(!String::from_utf8_lossy(&dropped.body).contains("oops"));
    x.metric_becomes("sluice_malformed_events_total", &[("target", "A/a1")], 2.0).await;
    x.breaker_is("A/a1", "closed", 0).await;
    let failed = x.call("other").await;
    failed.broken_stream("one ");
    assert_eq!(failed.code(), "malformed_event");
    assert!(!String::from_utf8_lossy(&failed.body).contains("oops"));
    x.breaker_is("B/b1", "closed", 1).await;
    x.metric_becomes("sluice_streams_interrupted_total", &[("reason", "malformed_event")], 1.0).await;
    // Before commit it is a failed attempt where the route says so.
    x.b.play([RAW("data: oops\n\n"), TXT("one two three"), FIN("stop"), DONE]);
    x.call("other").await.refused(502, "retryable_upstream");
    x.end().await;
}

#[tokio::test]
async fn an_event_over_the_limit_ends_the_stream_or_fails_the_attempt() {
    let x = Setup::new().set("/limits", json!({"event": "64KiB"})).start().await;
    let big = TXT(&"x".repeat(80 << 10));
    x.a.play([
        ROLE,
        TXT("one "),
        TXT(&"y".repeat(60 << 10)),
        SPLIT(big.clone(), 8 << 10, 0),
        TXT("two"),
        FIN("stop"),
        DONE,
    ]);
    let r = x.call("chat").await;
    r.broken_stream(&format!("one {}", "y".repeat(60 << 10)));
    assert_eq!(r.code(), "event_too_large");
    x.breaker_is("A/a1", "closed", 1).await;
    x.metric_becomes("sluice_streams_interrupted_total", &[("reason", "event_too_large")], 1.0).await;
    x.a.play([ROLE, SPLIT(big, 8 << 10, 0), FIN("stop"), DONE]);
    x.call("chat").await.answered().tags("B/b1", true);
    x.end().await;
}

#[tokio::test]
async fn b029_stream_headers_and_flush() {
    let x = Setup::new()
        .set("/return_headers", json!(["x-kept", "cache-control", "x-accel-buffering"]))
        .start()
        .await;
    let mut script = vec![HEAD(
        206,
        &[
            ("content-type", "text/event-stream"),
            ("cache-control", "public, max-age=60"),
            ("x-accel-buffering", "yes"),
            ("x-kept", "1"),
        ],
    )];
    script.push(TXT(&format!("{:0200}", 0)));
    let latches = [(); 9].map(|()| Latch::new());
    for (n, latch) in (1..).zip(&latches) {
        script.extend([HOLD(latch), TXT(&format!("{n:0200}"))]);
    }
    x.a.play([&script[..], &[FIN("stop"), DONE]].concat());
    let mut client = x.call("solo").begin().await;
    each_at_once(&mut client, &latches).await;
    let r = client.finish().await;
    assert_eq!((r.status, r.dones(), r.contents().len()), (200, 1, 10), "{r:?}");
    for (name, want) in [
        ("content-type", Some("text/event-stream")),
        ("cache-control", Some("no-cache, no-transform")),
        ("x-accel-buffering", Some("no")),
        ("content-length", None),
        ("x-kept", Some("1")),
    ] {
        assert_eq!(
            (r.header(name), r.header_count(name)),
            (want, usize::from(want.is_some())),
            "{name}: {r:?}"
        );
    }
    x.end().await;
}

#[tokio::test]
async fn b068_a_slow_reader_holds_up_its_upstream_and_nobody_else() {
    for (event, events) in [(4 << 10, 12_500), (1 << 20, 50)] {
        let x = Setup::new().wide_gates().start().await;
        let flood = [&[ROLE], &vec![TXT(&"x".repeat(event)); events][..], &[FIN("stop"), DONE]].concat();
        x.a.play_for("a1", flood);
        let before = memory(&x);
        let mut readers = Vec::new();
        for _ in 0..20 {
            let mut client = x.call("solo").receive_buffer(8 << 10).begin().await;
            client.bytes(64 << 10).await;
            readers.push(client);
        }
        // They read a little more, while others are served.
        for round in 0..5 {
            for client in &mut readers {
                client.bytes(2 << 10).await;
            }
            let other = x.call("other").await;
            other.answered();
            assert!(other.took() < ms(60) + LATE, "round {round}: {other:?}");
        }
        // Nobody takes what the upstream offers: its writes wait, after what sockets and one event hold.
        let most = x.a.attempts().iter().map(|attempt| attempt.written).max().unwrap();
        assert!(most < 12 << 20, "{most} bytes were taken from an upstream whose client reads 64 KiB");
        let grown = memory(&x).saturating_sub(before) / 20;
        // A megabyte and what of an event is in each of scanner, output and connection.
        let bound = (1 << 20) + 4 * event as u64;
        assert!(grown < bound, "{grown} bytes a stream, with events of {event}");
        let left = now();
        drop(readers);
        for n in 0..20 {
            let after = x.closed_after(&x.a, n, left).await;
            assert!(after < ms(500) + LATE, "attempt {n} was closed after {after:?}");
        }
        x.outcome("client_cancelled", 20).await;
        x.end().await;
    }
}

#[tokio::test]
async fn a_stream_that_is_shown_keeps_nothing_of_its_prompt() {
    const STREAMS: u64 = 40;
    const PROMPT: usize = 4 << 20;
    let x = Setup::new().wide_gates().set("/defaults/idle", ms(120_000)).start().await;
    let latch = Latch::new();
    x.a.play([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let before = memory(&x);
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let prompt = json!([{"role": "user", "content": "x".repeat(PROMPT)}]);
        let mut stream = x.call("solo").set("messages", prompt).begin().await;
        stream.contents(1).await;
        streams.push(stream);
    }
    // The memory of one prompt serves the next; that of two or three may still be on its way back to the system.
    let grown = memory(&x).saturating_sub(before) / STREAMS;
    assert!(grown < PROMPT as u64 / 2, "{grown} bytes a stream");
    latch.open();
    for mut stream in streams {
        let r = stream.finish().await;
        assert_eq!((r.text().as_str(), r.dones()), (HEALTHY_TEXT, 1), "{r:?}");
    }
    x.end().await;
}

/// Bytes that the gateway's process has in memory.
fn memory(x: &Case) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", x.gateway.pid().unwrap())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
