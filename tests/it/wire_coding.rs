//! Upstreams that compress although they were asked not to.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use harness::prelude::*;

use crate::expect::each_at_once;

fn event(text: &str) -> String {
    let delta =
        if text.is_empty() { json!({"role": "assistant", "content": ""}) } else { json!({"content": text}) };
    format!(
        "data: {}\n\n",
        json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    )
}

/// Pieces of one gzip body, each flushed.
fn flushed(pieces: &[String]) -> Vec<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut out: Vec<Vec<u8>> = pieces
        .iter()
        .map(|piece| {
            encoder.write_all(piece.as_bytes()).unwrap();
            encoder.flush().unwrap();
            std::mem::take(encoder.get_mut())
        })
        .collect();
    out.push(encoder.finish().unwrap());
    out
}

fn gzip(text: &str) -> Vec<u8> {
    flushed(&[text.to_owned()]).concat()
}

fn deflate(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn whole() -> String {
    json!({"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": HEALTHY_TEXT}, "finish_reason": "stop"}]})
        .to_string()
}

const GZIP: (&str, &str) = ("content-encoding", "gzip");

#[tokio::test]
async fn b024_a_compressed_stream_is_decoded_event_by_event() {
    let x = Setup::new().start().await;
    let events = ["", "one ", "two ", "three"].map(event);
    let end =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let pieces = flushed(&[&events[..], &[end.to_owned()]].concat());
    // An event without content, the first with it, two that the client lets go, and the end with the last.
    let latches = [(); 2].map(|()| Latch::new());
    let [role, first, second, third, end, trailer] = pieces.try_into().unwrap();
    let [to_second, to_third] = &latches;
    let head = HEAD(200, &[("content-type", "text/event-stream"), GZIP]);
    let held = [RAW(first), HOLD(to_second), RAW(second), HOLD(to_third), RAW(third)];
    x.a.play([&[head, RAW(role)], &held[..], &[RAW(end), RAW(trailer)]].concat());
    let mut client = x.call("chat").header("accept-encoding", "gzip, br").begin().await;
    each_at_once(&mut client, &latches).await;
    let stream = client.finish().await;
    stream.answered().tags("A/a1", false);
    assert_eq!(x.a.attempt(0).header("accept-encoding"), Some("identity"));
    assert_eq!((stream.header("content-encoding"), stream.header("content-length")), (None, None));
    x.end().await;
}

#[tokio::test]
async fn whole_answers_and_errors_are_decoded() {
    let x = Setup::new().start().await;
    let json = ("content-type", "application/json");
    for (coding, bytes) in
        [("gzip", gzip(&whole())), ("deflate", deflate(&whole())), ("identity", whole().into())]
    {
        x.a.queue(WITH(200, &[json, ("content-encoding", coding)], bytes));
        let answer = x.plain("solo").await;
        answer.answered();
        assert_eq!(answer.body, whole().as_bytes(), "{coding}");
        assert_eq!(answer.header("content-encoding"), None);
        assert_eq!(answer.header("content-length"), Some(whole().len().to_string().as_str()));
    }
    let refusal = json!({"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}});
    x.a.queue(WITH(400, &[json, GZIP], gzip(&refusal.to_string())));
    let refused = x.call("solo").await;
    refused.refused(400, "context_length_exceeded");
    assert_eq!(refused.error()["message"], "too long");
    x.end().await;
}

#[tokio::test]
async fn a_body_that_is_not_what_its_coding_says_is_a_failed_attempt() {
    let good = gzip(&whole());
    let mut damaged = good.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let cases = [
        ("plain bytes", "gzip", whole().into_bytes()),
        ("damage", "gzip", damaged),
        ("half of it", "gzip", good[..good.len() / 2].to_vec()),
        ("a coding nobody asked for", "br", whole().into_bytes()),
        ("two codings", "gzip, gzip", good.clone()),
    ];
    for (name, coding, bytes) in cases {
        for stream in [true, false] {
            let x = Setup::new().start().await;
            x.a.play(WITH(200, &[("content-encoding", coding)], bytes.clone()));
            let answer = x.call("chat").set("stream", stream).await;
            assert_eq!(answer.text(), HEALTHY_TEXT, "{name}: {answer:?}");
            answer.tags("B/b1", true);
            x.breaker_is("A/a1", "closed", 1).await;
            let record = x.record(&answer).await;
            assert_eq!(record["attempts"][0]["kind"], "retryable_upstream", "{name}");
            x.end().await;
        }
    }
}

#[tokio::test]
async fn a_compressed_stream_that_breaks_after_commit_ends_as_interrupted() {
    let x = Setup::new().start().await;
    let mut pieces = flushed(&["".to_owned(), event("one "), event("two ")]);
    // The last piece, the end of the compressed data, is damaged.
    let end = pieces.last_mut().unwrap();
    *end = vec![0xff; 40];
    let mut script = vec![HEAD(200, &[("content-type", "text/event-stream"), GZIP])];
    script.extend(pieces.into_iter().filter(|piece| !piece.is_empty()).map(RAW));
    x.a.play(script);
    let broken = x.call("chat").await;
    broken.broken_stream("one two ");
    assert_eq!(broken.code(), "upstream_interrupted");
    x.breaker_is("A/a1", "closed", 1).await;
    x.end().await;
}

#[tokio::test]
async fn limits_are_held_on_what_comes_out() {
    let limits = json!({"answer": "100KB", "event": "50KB", "error_body": "10KB"});
    let x = Setup::new().set("/limits", limits).start().await;
    let long = |n: usize| "x".repeat(n);
    let message = whole().replace(HEALTHY_TEXT, &long(5_000_000));
    let packed = gzip(&message);
    assert!(packed.len() < 20_000);
    x.a.queue(WITH(200, &[GZIP], packed));
    x.plain("chat").await.answered().tags("B/b1", true);
    x.a.queue(WITH(200, &[("content-type", "text/event-stream"), GZIP], gzip(&event(&long(5_000_000)))));
    x.call("chat").await.answered().tags("B/b1", true);
    // Of an error body so much is read that it is no JSON any more; its status still says what it is.
    let error = json!({"error": {"message": long(5_000_000), "type": "t", "code": "c"}});
    x.a.queue(WITH(503, &[GZIP], gzip(&error.to_string())));
    x.call("chat").await.answered().tags("B/b1", true);
    x.end().await;
}
