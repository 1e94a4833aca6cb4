//! Event streams: the same events however the bytes are split, those another reader finds, and a stream to the
//! client that is well-formed whatever came.

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use sluice_core::sse::Scanner;
use sluice_core::stream::{ChatStream, End, Rules};

/// Largest event.
const EVENT_MAX: usize = 4096;

/// The first two bytes say how the stream is cut up and what the rules are; the others are the stream.
///
/// # Panics
/// When something does not hold.
pub fn check(bytes: &[u8]) {
    let [cut, rules, body @ ..] = bytes else { return };
    let size = usize::from(*cut) + 1;
    let whole = events(&[body]);
    let split = events(&body.chunks(size).collect::<Vec<_>>());
    assert_eq!(whole, split, "other events when split");
    if let (Ok(text), Some(whole)) = (std::str::from_utf8(body), &whole) {
        assert_eq!(*whole, of_another_reader(text), "other events than another reader's");
    }
    let rules = Rules {
        event_max: EVENT_MAX,
        held_events_max: 8,
        held_bytes_max: 1024,
        complete_max: (rules & 1 > 0).then_some(2048),
        malformed_fails: rules & 2 > 0,
        choices: u32::from(rules >> 2 & 3) + 1,
        hide_usage: rules & 16 > 0,
    };
    let proper = bytes[1] & 32 > 0;
    let (at_once, end) = shown(rules, &[body], proper);
    let (pieces, same_end) = shown(rules, &body.chunks(size).collect::<Vec<_>>(), proper);
    assert_eq!((&at_once, &end), (&pieces, &same_end), "another stream when split");
    well_formed(&at_once, &end);
}

/// The data of each event, and of what the end completes; none where an event is too large.
fn events(pieces: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let mut scanner = Scanner::new(EVENT_MAX);
    let mut found = Vec::new();
    for piece in pieces {
        scanner.push(Bytes::copy_from_slice(piece));
        while let Some(event) = scanner.next_event().ok()? {
            found.push(event.data.to_vec());
        }
    }
    found.extend(scanner.finish().map(|event| event.data.to_vec()));
    Some(found)
}

fn of_another_reader(text: &str) -> Vec<Vec<u8>> {
    let bytes = [text.as_bytes(), b"\n\n"].map(|part| Ok::<_, std::io::Error>(Bytes::copy_from_slice(part)));
    let events = sse_stream::SseByteStream::new(stream::iter(bytes)).collect::<Vec<_>>().now_or_never();
    let events = events.expect("a stream from memory is there at once");
    let data = events.into_iter().filter_map(|event| event.expect("text is text").data);
    data.map(|data| data.replace('\n', " ").into_bytes()).collect()
}

/// What the client is shown, and how it ends.
fn shown(rules: Rules, pieces: &[&[u8]], proper: bool) -> (Vec<u8>, End) {
    let mut stream = ChatStream::new(rules);
    let (mut out, mut end) = (Vec::new(), None);
    for piece in pieces {
        end = stream.push(Bytes::copy_from_slice(piece));
        let shown = stream.take_output();
        assert!(stream.committed() || shown.is_empty(), "shown before commit");
        out.extend_from_slice(&shown);
        if end.is_some() {
            break;
        }
    }
    let end = end.unwrap_or_else(|| stream.body_ended(proper));
    out.extend_from_slice(&stream.take_output());
    (out, end)
}

fn well_formed(out: &[u8], end: &End) {
    let text = std::str::from_utf8(out).expect("what is shown is text");
    assert!(text.is_empty() || text.ends_with("\n\n"), "half an event is shown");
    let events: Vec<&str> = text.split_terminator("\n\n").collect();
    for (at, event) in events.iter().enumerate() {
        let data = event.strip_prefix("data: ").expect("an event is one line of data");
        assert!(!data.contains(['\n', '\r']), "an event of several lines");
        if data == "[DONE]" {
            assert!(*end == End::Well && at + 1 == events.len(), "an end marker before the end");
        } else {
            let event: serde_json::Value =
                serde_json::from_str(data).expect("an event that is shown is JSON");
            assert!(event["error"].is_null(), "an upstream's error is shown as it is");
        }
    }
    let done = events.last() == Some(&"data: [DONE]");
    assert_eq!(done, *end == End::Well, "a good end has its marker, and no other end");
}
