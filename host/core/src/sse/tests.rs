#![allow(clippy::unwrap_used, reason = "tests")]

use futures_util::{FutureExt as _, StreamExt as _, stream};

use super::*;
use proptest::prelude::*;

fn events(pieces: &[&[u8]]) -> Vec<(String, bool)> {
    let mut scanner = Scanner::new(1 << 20);
    let mut found = Vec::new();
    for piece in pieces {
        scanner.push(Bytes::copy_from_slice(piece));
        while let Some(event) = scanner.next_event().unwrap() {
            if let Some(wire) = &event.wire {
                let mut written = BytesMut::new();
                write_event(&event.data, &mut written);
                assert_eq!(wire, &written.freeze(), "a canonical event is what would be written");
            }
            found.push((String::from_utf8_lossy(&event.data).into_owned(), event.wire.is_some()));
        }
    }
    found.extend(scanner.finish().map(|e| (String::from_utf8_lossy(&e.data).into_owned(), false)));
    found
}

#[test]
fn shapes_of_events() {
    let cases: &[(&str, &[(&str, bool)])] = &[
        ("data: a\n\n", &[("a", true)]),
        ("data: a\n\ndata: b\n\n", &[("a", true), ("b", true)]),
        ("data:a\n\n", &[("a", false)]),
        ("data:  a\n\n", &[(" a", true)]),
        ("data: a\r\n\r\n", &[("a", false)]),
        ("data: a\r\rdata: b\r\r", &[("a", false), ("b", false)]),
        ("data: a\ndata: b\n\n", &[("a b", false)]),
        (": c\ndata: a\n\n", &[("a", false)]),
        ("data: a\n: c\n\n", &[("a", false)]),
        ("event: x\nid: 1\nretry: 5\ndata: a\n\n", &[("a", false)]),
        (": ping\n\n: ping\n\ndata: a\n\n", &[("a", true)]),
        ("\n\n\ndata: a\n\n", &[("a", true)]),
        ("data\n\n", &[("", false)]),
        ("data:\n\n", &[("", false)]),
        ("data: \n\n", &[("", true)]),
        ("database: x\n\n", &[]),
        ("\u{feff}data: a\n\n", &[("a", true)]),
        ("data: a", &[("a", false)]),
        ("data: a\n", &[("a", false)]),
        ("data: a\n\n\r\ndata: b\n\n", &[("a", true), ("b", false)]),
    ];
    for (stream, expected) in cases {
        let got = events(&[stream.as_bytes()]);
        let got: Vec<(&str, bool)> = got.iter().map(|(d, w)| (d.as_str(), *w)).collect();
        assert_eq!(&got, expected, "{stream:?}");
    }
}

#[test]
fn an_event_over_the_limit_is_an_error_and_one_at_the_limit_is_not() {
    let mut scanner = Scanner::new(16);
    scanner.push(Bytes::from_static(b"data: 12345678\n\n"));
    assert_eq!(scanner.next_event().unwrap().unwrap().data, "12345678");
    scanner.push(Bytes::from_static(b"data: 123456789\n\n"));
    assert_eq!(scanner.next_event(), Err(EventTooLarge { limit: 16 }));
    let mut scanner = Scanner::new(16);
    scanner.push(Bytes::from_static(b"data: 123456789012345"));
    assert_eq!(scanner.next_event(), Err(EventTooLarge { limit: 16 }));
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "data: [a-z]{0,6}".prop_map(String::into_bytes),
        "data:[a-z]{0,6}".prop_map(String::into_bytes),
        ": [a-z]{0,4}".prop_map(String::into_bytes),
        "event: [a-z]{1,4}".prop_map(String::into_bytes),
        "(id|retry|data|dat|datas|event)".prop_map(String::into_bytes),
        "[:a-z ]{0,9}".prop_map(String::into_bytes),
        Just(b"data: \xf0\x9f\x99\x82\xc3\xa9".to_vec()),
        Just(Vec::new()),
        Just(Vec::new()),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let end = prop_oneof![Just(&b"\n"[..]), Just(&b"\n"[..]), Just(&b"\r\n"[..]), Just(&b"\r"[..])];
    (any::<bool>(), proptest::collection::vec((line(), end), 0..24)).prop_map(|(mark, lines)| {
        let mut out = if mark { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
        for (line, end) in lines {
            out.extend(line);
            out.extend(end);
        }
        out
    })
}

fn data_only(events: Vec<(String, bool)>) -> Vec<String> {
    events.into_iter().map(|(data, _)| data).collect()
}

/// The data of the events another reader finds, in the pieces given. Its lines are joined as ours are.
fn of_another_reader(pieces: &[&[u8]]) -> Vec<String> {
    let pieces = pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)));
    // What the end of a body completes is ours to say; the other reader is told that it is complete.
    let whole = pieces.chain([Ok(Bytes::from_static(b"\n\n"))]);
    let events = sse_stream::SseByteStream::new(stream::iter(whole)).map(Result::unwrap);
    let data: Vec<Option<String>> = events.map(|event| event.data).collect().now_or_never().unwrap();
    data.into_iter().flatten().map(|data| data.replace('\n', " ")).collect()
}

proptest! {
    #[test]
    fn another_reader_finds_the_same_events(bytes in body(), cut in any::<prop::sample::Index>()) {
        let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
        prop_assert_eq!(data_only(events(&[head, tail])), of_another_reader(&[head, tail]));
    }

    #[test]
    fn the_same_events_for_every_way_of_splitting(bytes in body(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let whole = data_only(events(&[&bytes]));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&data_only(events(&single)), &whole);
        let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        prop_assert_eq!(&data_only(events(&pieces)), &whole);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        events(&[&bytes]);
    }
}
