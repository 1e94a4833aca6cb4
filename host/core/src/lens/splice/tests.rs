#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::lens::request::RequestBody;
use crate::lens::wire::Wire;
use proptest::prelude::*;

/// What is sent of a streaming call, and whether the client asked itself.
fn asked(body: &str) -> (String, bool) {
    const STREAM: &str = r#","stream":true}"#;
    let body = format!("{}{STREAM}", body.strip_suffix('}').unwrap());
    let request = RequestBody::read(Bytes::copy_from_slice(body.as_bytes()), Wire::Chat).unwrap();
    let edits: Vec<Edit> = request.usage.ask.clone().into_iter().collect();
    let sent = request.with_model("t", &edits);
    let sent = String::from_utf8(sent.to_vec()).unwrap();
    (format!("{}}}", sent.strip_suffix(STREAM).unwrap()), request.usage.asked)
}

#[test]
fn a_body_is_made_to_ask_for_usage_and_nothing_else_changes() {
    let cases = [
        (
            r#"{"model" : "m" , "x":true}"#,
            r#"{"model" : "t","stream_options":{"include_usage":true} , "x":true}"#,
        ),
        (
            r#"{"stream_options": { "x":1 },"model":"m"}"#,
            r#"{"stream_options": {"include_usage":true, "x":1 },"model":"t"}"#,
        ),
        (
            r#"{"model":"m","stream_options":{ }}"#,
            r#"{"model":"t","stream_options":{"include_usage":true }}"#,
        ),
        (
            r#"{"model":"m","stream_options": null}"#,
            r#"{"model":"t","stream_options": {"include_usage":true}}"#,
        ),
        (
            r#"{"stream_options":{"a":[1],"include_usage" : false ,"b":{}},"model":"m"}"#,
            r#"{"stream_options":{"a":[1],"include_usage" : true ,"b":{}},"model":"t"}"#,
        ),
        (
            r#"{"model":"m","stream_options":{"include\u005fusage":null}}"#,
            r#"{"model":"t","stream_options":{"include\u005fusage":true}}"#,
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(asked(body), (expected.to_owned(), false), "{body}");
        assert!(asked(expected).1, "what is sent asks: {expected}");
    }
}

#[test]
fn a_body_that_asks_or_makes_no_sense_is_left_alone() {
    let cases = [
        (r#"{"model":"m","stream_options":{"include_usage":true,"x":1.0}}"#, true),
        (r#"{"model":"m","stream_options":7}"#, false),
        (r#"{"model":"m","stream_options":[]}"#, false),
        (r#"{"model":"m","stream_options":{"include_usage":true,"include_usage":false}}"#, false),
    ];
    for (body, asks) in cases {
        assert_eq!(asked(body), (body.replace(r#""m""#, r#""t""#), asks), "{body}");
    }
}

proptest! {
    #[test]
    fn edits_change_their_places_only(
        body in "[a-z]{0,40}",
        cuts in proptest::collection::vec((0usize..40, "[A-Z]{0,4}"), 0..4),
    ) {
        // Each of one byte or none, at distinct places.
        let mut places: Vec<_> = cuts.into_iter().filter(|(at, _)| *at < body.len()).collect();
        places.sort();
        places.dedup_by_key(|(at, _)| *at);
        let edits: Vec<Edit> = places
            .iter()
            .rev()
            .map(|(at, with)| Edit { at: *at..at + 1, with: Bytes::copy_from_slice(with.as_bytes()) })
            .collect();
        let mut expected = String::new();
        for (at, letter) in body.char_indices() {
            match places.iter().find(|(place, _)| *place == at) {
                Some((_, with)) => expected.push_str(with),
                None => expected.push(letter),
            }
        }
        prop_assert_eq!(splice(body.as_bytes(), &edits), expected.as_bytes());
    }
}
