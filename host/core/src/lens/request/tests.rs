#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use proptest::prelude::*;

fn read(body: &str) -> Result<RequestBody, BodyError> {
    read_as(Wire::Chat, body)
}

fn read_as(wire: Wire, body: &str) -> Result<RequestBody, BodyError> {
    RequestBody::read(Bytes::copy_from_slice(body.as_bytes()), wire)
}

#[test]
fn only_the_value_of_model_changes() {
    let body = r#"{ "seed":9007199254740993,
 "temperature":1.0, "x_vendor":{"b":1,"model":"inner"},"model" :  "ch\u0061t" ,"stop":"\"model\":\"x\"","messages":[{"role":"user","content":"caf\u00e9 \/ x"}]}"#;
    let request = read(body).unwrap();
    assert_eq!(&*request.model, "chat");
    let sent = request.with_model("a/\"1\"", &[]);
    assert_eq!(sent, body.replace(r#""ch\u0061t""#, r#""a/\"1\"""#).as_bytes());
}

#[test]
fn bodies_that_are_refused() {
    let deep = format!(r#"{{"model":"m","x":{}{}}}"#, "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
    let model = BodyError::Field { field: "model", expected: "a string" };
    let many = |last: &str| {
        let keys: String = (0..100).map(|n| format!(r#""k{n}":1,"#)).collect();
        format!(r#"{{"model":"m",{keys}"{last}":1}}"#)
    };
    let (early, late) = (many("k5"), many("k77"));
    assert!(read(&many("k100")).is_ok());
    let cases: &[(&str, BodyError)] = &[
        (r#"{"model":"a","model":"b"}"#, BodyError::Duplicate("model".to_owned())),
        (r#"{"model":"a","mod\u0065l":"b"}"#, BodyError::Duplicate("model".to_owned())),
        (r#"{"model":"a","x":1,"x":1}"#, BodyError::Duplicate("x".to_owned())),
        (&early, BodyError::Duplicate("k5".to_owned())),
        (&late, BodyError::Duplicate("k77".to_owned())),
        (&deep, BodyError::Depth),
        ("{}", model.clone()),
        (r#"{"model":7}"#, model.clone()),
        (r#"{"model":null}"#, model),
        (r#"{"model":"a","stream":"yes"}"#, BodyError::Field { field: "stream", expected: "true or false" }),
    ];
    for (body, expected) in cases {
        assert_eq!(read(body).as_ref(), Err(expected), "{body:.60}");
    }
    for body in
        ["", "[]", "7", "null", "{", r#"{"model":"a"} x"#, r#"{"model":"a"}{}"#, "{'model':1}", "\u{feff}{}"]
    {
        assert!(matches!(read(body), Err(BodyError::Json(_))), "{body}");
    }
    let inside = format!(r#"{{"model":"m","x":{}{}}}"#, "[".repeat(DEPTH_MAX - 1), "]".repeat(DEPTH_MAX - 1));
    assert!(read(&inside).is_ok());
    assert!(
        read(&format!(r#"{{"model":"m","x":"{}"}}"#, "[".repeat(1000))).is_ok(),
        "brackets in a string are text"
    );
}

#[test]
fn what_is_read() {
    let request = read(
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"n":2,"max_tokens":5,"max_completion_tokens":7,
        "tools":[{}],"response_format":{"type":"json_schema"},"user":"u",
        "messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:"}}]},{"role":"user","content":"y"}]}"#,
    )
    .unwrap();
    assert!(request.stream && request.usage.asked && request.tools && request.images && request.json_output);
    assert_eq!((request.choices, request.max_output_tokens, request.messages), (2, Some(7), 2));
    assert_eq!(request.affinity, Some(fnv1a(b"u")));
    let plain = read(r#"{"model":"m","stream":null,"tools":[],"response_format":{"type":"text"},"messages":[{"content":"an image_url"}]}"#).unwrap();
    assert!(!plain.stream && !plain.usage.asked && !plain.tools && !plain.images && !plain.json_output);
    assert_eq!((plain.choices, plain.max_output_tokens, plain.messages, plain.affinity), (1, None, 1, None));
    assert_eq!(plain.input_tokens, 5);
}

#[test]
fn an_output_limit_is_lowered_or_added_and_nothing_else_changes() {
    let cases = [
        (r#"{ "model":"m" }"#, 100, r#"{"max_tokens":100, "model":"x" }"#, true),
        (
            r#"{"model":"m", "max_tokens" : 500 ,"a":1}"#,
            100,
            r#"{"model":"x", "max_tokens" : 100 ,"a":1}"#,
            true,
        ),
        (
            r#"{"max_completion_tokens":101,"model":"m"}"#,
            100,
            r#"{"max_completion_tokens":100,"model":"x"}"#,
            true,
        ),
        (r#"{"model":"m","max_tokens":null}"#, 100, r#"{"model":"x","max_tokens":100}"#, true),
        (
            r#"{"max_completion_tokens":null,"max_tokens":50,"model":"m"}"#,
            100,
            r#"{"max_completion_tokens":null,"max_tokens":50,"model":"x"}"#,
            false,
        ),
        (
            r#"{"max_tokens":500,"model":"m","max_completion_tokens":null}"#,
            100,
            r#"{"max_tokens":100,"model":"x","max_completion_tokens":null}"#,
            true,
        ),
        (
            r#"{"max_completion_tokens":null,"max_tokens":null,"model":"m"}"#,
            100,
            r#"{"max_completion_tokens":100,"max_tokens":null,"model":"x"}"#,
            true,
        ),
        (r#"{"model":"m","max_tokens":100}"#, 100, r#"{"model":"x","max_tokens":100}"#, false),
        (r#"{"model":"m","max_tokens":7}"#, 100, r#"{"model":"x","max_tokens":7}"#, false),
        (r#"{"model":"m","max_tokens":"many"}"#, 100, r#"{"model":"x","max_tokens":"many"}"#, false),
        (
            r#"{"max_tokens":900,"model":"m","max_completion_tokens":50}"#,
            100,
            r#"{"max_tokens":100,"model":"x","max_completion_tokens":50}"#,
            true,
        ),
        (
            r#"{"x":{"max_tokens":900},"model":"m","max\u005ftokens":99999999999999999999}"#,
            100,
            r#"{"x":{"max_tokens":900},"model":"x","max\u005ftokens":100}"#,
            true,
        ),
    ];
    for (body, limit, sent, lowered) in cases {
        let request = read(body).unwrap();
        let edits = request.output_limit.lowered(&request.bytes, limit);
        let (bytes, did) = (request.with_model("x", &edits), !edits.is_empty());
        assert_eq!((std::str::from_utf8(&bytes).unwrap(), did), (sent, lowered), "{body}");
    }
}

#[test]
fn odd_values_are_left_to_the_upstream() {
    let request = read(r#"{"model":"m","n":"x","messages":"hello","tools":5,"response_format":[],"max_tokens":-1,"user":{}}"#).unwrap();
    assert_eq!(
        (request.choices, request.messages, request.max_output_tokens, request.affinity),
        (1, 0, None, None)
    );
}

#[test]
fn prompts_and_inputs_are_measured_by_their_form() {
    let cases = [
        (r#""abcdefgh""#, 1, 2),
        (r#"["ab","cd"]"#, 2, 1),
        ("[1,2,3,4,5]", 1, 5),
        ("[[1,2],[3,4,5],[6]]", 3, 6),
        ("[]", 1, 0),
        ("null", 1, 0),
        ("{}", 1, 0),
    ];
    for (value, choices, tokens) in cases {
        let completion =
            read_as(Wire::Completions, &format!(r#"{{"model":"m","prompt":{value},"n":2}}"#)).unwrap();
        assert_eq!((completion.choices, completion.input_tokens), (choices * 2, tokens), "{value}");
        let embedding = read_as(Wire::Embeddings, &format!(r#"{{"model":"m","input":{value}}}"#)).unwrap();
        assert_eq!((embedding.choices, embedding.input_tokens), (1, tokens), "{value}");
    }
}

#[test]
fn what_belongs_to_another_wire_is_not_read() {
    let body = r#"{"model":"m","stream":true,"prompt":"x","input":"y","max_tokens":5,"max_completion_tokens":7,"tools":[{}],
        "response_format":{"type":"json_object"},"messages":[{"content":[{"type":"image_url"}]}]}"#;
    let completion = read_as(Wire::Completions, body).unwrap();
    assert!(completion.stream && completion.json_output && completion.usage.ask.is_some());
    assert_eq!((completion.max_output_tokens, completion.messages), (Some(5), 0));
    assert!(!completion.tools && !completion.images);
    let embedding = read_as(Wire::Embeddings, body).unwrap();
    assert!(!embedding.stream && !embedding.json_output && embedding.usage.ask.is_none());
    assert_eq!((embedding.max_output_tokens, embedding.input_tokens), (None, 1));
}

#[test]
fn a_usual_body_is_read_in_one_walk_and_an_odd_one_is_left_to_the_general_reader() {
    let read = |body| Members::usual(body).is_some();
    assert!(read(
        r#" {"model" : "m","messages":[{"content":"\u00e9\n"}], "x":-1.5e3, "tools":[],"stream":null} "#
    ));
    let deep = format!(r#"{{"model":"m","x":{}{}}}"#, "[".repeat(40), "]".repeat(40));
    for odd in
        [r#"{"mod\u0065l":"m"}"#, "{\"model\":\"a\tb\"}", r#"{"model":"m"}x"#, r#"{"model":"m",}"#, &deep]
    {
        assert!(!read(odd), "{odd}");
    }
}

proptest! {
    #[test]
    fn both_readers_see_the_same_members(
        members in proptest::collection::vec((0usize..9, 0usize..9, 0usize..3), 0..6),
        broken in proptest::option::of((0usize..60, 0usize..9)),
    ) {
        const KEYS: [&str; 9] = ["model", "stream", "messages", "x", "y", "max_tokens", "user", "tools", ""];
        const VALUES: [&str; 9] =
            ["\"a\"", "true", "[1, {\"b\":[]}]", "{\"model\":\"no\"}", "-0.5e7", "null", "\"\\u00e9\\\\\"", "[]", "\"é\""];
        const SPACES: [&str; 3] = ["", " ", "\r\n\t"];
        let member = |(key, value, space): &(usize, usize, usize)| {
            let space = SPACES[*space];
            format!("{space}\"{}\"{space}:{space}{}{space}", KEYS[*key], VALUES[*value])
        };
        let mut body = format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","));
        if let Some((at, with)) = broken
            && body.is_char_boundary(at.min(body.len()))
        {
            body.insert_str(at.min(body.len()), ["\"", "{", "}", ",", ":", "1", "\\", "\u{1}", "t"][with]);
        }
        let general = serde_json::from_str::<Members<'_>>(&body).ok();
        if let Some(usual) = Members::usual(&body) {
            prop_assert_eq!(Some(usual), general, "{}", body);
        } else if broken.is_none() {
            prop_assert!(general.is_none(), "{}", body);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for wire in Wire::ALL {
            let _ = RequestBody::read(bytes.clone().into(), wire);
        }
    }
}

#[test]
fn more_top_level_keys_than_any_request_has_are_refused() {
    let keys = |n: usize| (0..n).map(|i| format!(r#""k{i}":1"#)).collect::<Vec<_>>().join(",");
    let body = |n: usize| format!(r#"{{"model":"m",{}}}"#, keys(n));
    assert!(read(&body(KEYS_MAX - 1)).is_ok());
    assert_eq!(read(&body(KEYS_MAX)), Err(BodyError::Keys));
}
