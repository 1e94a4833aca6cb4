use proptest::prelude::*;

use super::*;

fn event(data: &str) -> String {
    match read_event(data.as_bytes()) {
        Meaning::Chunk(c) => {
            let mut words = vec![];
            for (on, word) in [
                (c.content, "content"),
                (c.finished != 0, "finish"),
                (c.finished_by_error, "by-error"),
                (c.empty, "empty"),
                (c.usage.is_some(), "usage"),
            ] {
                if on {
                    words.push(word);
                }
            }
            format!("chunk {}", words.join(" ")).trim_end().to_owned()
        }
        Meaning::Done => "done".to_owned(),
        Meaning::Error(_) => "error".to_owned(),
        Meaning::Nothing => "nothing".to_owned(),
        Meaning::Malformed => "malformed".to_owned(),
    }
}

#[test]
fn which_events_carry_meaning() {
    let cases = [
        (
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            "chunk",
        ),
        (r#"{"choices":[{"index":0,"delta":{"role":"assistant"}}]}"#, "chunk"),
        (r#"{"choices":[{"delta":{"content":null}}]}"#, "chunk"),
        (r#"{"choices":[{"delta":{"content":"x"}}]}"#, "chunk content"),
        (r#"{"choices":[{"delta":{"content":[{"type":"text","text":"x"}]}}]}"#, "chunk content"),
        (r#"{"choices":[{"delta":{"content":[]}}]}"#, "chunk"),
        (r#"{"choices":[{"delta":{"reasoning_content":"x"}}]}"#, "chunk content"),
        (r#"{"choices":[{"delta":{"reasoning":"x","reasoning_content":"x"}}]}"#, "chunk content"),
        (r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#, "chunk content"),
        (r#"{"choices":[{"delta":{"tool_calls":[]}}]}"#, "chunk"),
        (r#"{"choices":[{"delta":{"refusal":"no"}}]}"#, "chunk content"),
        (r#"{"choices":[{"delta":{"audio":{"id":"a"}}}]}"#, "chunk content"),
        (r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, "chunk finish"),
        (r#"{"choices":[{"delta":{},"finish_reason":""}]}"#, "chunk"),
        (r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#, "chunk finish by-error"),
        (r#"{"choices":[{"text":"x"}]}"#, "chunk content"),
        (r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#, "chunk empty usage"),
        (r#"{"choices":[],"usage":null}"#, "chunk empty"),
        (r#"{"choices":[{"delta":{}}],"usage":{}}"#, "chunk"),
        (r#"{"error":{"message":"m"}}"#, "error"),
        (r#"{"error":{"message":"m"},"choices":[{"delta":{"content":"x"}}]}"#, "error"),
        (r#"{"error":null,"choices":[{"delta":{"content":"x"}}]}"#, "chunk content"),
        (r#"{"object":"error","message":"m","code":400}"#, "error"),
        (r#"{"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"}}]}"#, "chunk content"),
        (r#"{"type":"ping"}"#, "nothing"),
        ("", "nothing"),
        (" ", "nothing"),
        ("[DONE]", "done"),
        (" [DONE] ", "done"),
        ("{", "malformed"),
        ("hello", "malformed"),
        (r#"{"choices":7}"#, "malformed"),
        (r#"{"choices":[{"delta":{"content":"x"}}]} trailing"#, "malformed"),
    ];
    for (data, expected) in cases {
        assert_eq!(event(data), expected, "{data}");
    }
}

#[test]
fn which_bodies_are_answers() {
    let completion = |text| Answer::Completion { usage: None, text };
    let cases = [
        (
            r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#,
            completion(2),
        ),
        (r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1"}]}}]}"#, completion(0)),
        (r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}"#, completion(0)),
        (r#"{"choices":[{"message":{"role":"assistant","content":""}}]}"#, completion(0)),
        (r#"{"choices":[{"text":""}]}"#, completion(0)),
        (r#"{"choices":[]}"#, Answer::NotACompletion),
        (r#"{"choices":[{}]}"#, Answer::NotACompletion),
        (r#"{"choices":null}"#, Answer::NotACompletion),
        ("null", Answer::NotACompletion),
        ("", Answer::NotACompletion),
        ("<html></html>", Answer::NotACompletion),
        ("[DONE]", Answer::NotACompletion),
    ];
    for (body, expected) in cases {
        assert_eq!(read_answer(body.as_bytes()), expected, "{body}");
    }
    assert!(matches!(read_answer(br#"{"error":{"message":"m"}}"#), Answer::Error(_)));
}

#[test]
fn bytes_that_no_client_can_read_are_malformed_wherever_they_stand() {
    for event in [
        &b"{\"choices\":[{\"delta\":{\"content\":\"x\xff\"}}]}"[..],
        b"{\"choices\":[{\"delta\":{\"content\":\"x\"},\"other\":\"\xff\"}]}",
        b"\x0c{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}",
        b"{\"id\":\"\xc3\",\"choices\":[{\"delta\":{\"content\":\"x\"}}]}",
    ] {
        assert_eq!(read_event(event), Meaning::Malformed, "{}", event.escape_ascii());
        assert_eq!(read_answer(event), Answer::NotACompletion);
    }
}

/// Events as providers send them.
const EVENTS: [&str; 8] = [
    r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"t=\n\u00e9 x"},"logprobs":null,"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":"stop"}],"usage":null}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":180,"total_tokens":192,"details":{"cached_tokens":0}}}"#,
    r#"{"object":"chat.completion","choices":[{"index":1,"message":{"role":"assistant","content":"x","tool_calls":[{"id":"1"}]},"finish_reason":"error"}],"usage":{"input_tokens":1,"output_tokens":2}}"#,
    r#"{"object":"error","message":"m"}"#,
    r#"{"error":{"message":"m"},"choices":[{"text":"x","delta":null}]}"#,
    r#"{"error":null,"choices":[{"text":"x","finish_reason":true},{"index":3,"delta":{"audio":{"a":[1.5e3]},"reasoning":[]}}]}"#,
    r#"{"type":"ping"}"#,
];

#[test]
fn usual_events_need_no_general_reader() {
    for event in EVENTS.into_iter().filter(|event| !matches!(read_any(event), Meaning::Error(_))) {
        assert_eq!(usual::read(event), Some(read_any(event)), "{event}");
    }
}

proptest! {
    #[test]
    fn both_readers_say_the_same_whatever_stands_there(
        which in 0..EVENTS.len(),
        edits in proptest::collection::vec((0usize..400, 0usize..3, "[\\[\\]{}:,\"\\\\ 0-9eE.\\-a-z\u{1}é]{0,3}"), 0..4),
        double in 0usize..400,
    ) {
        let mut text: Vec<char> = EVENTS[which].chars().collect();
        for (at, gone, new) in edits {
            let at = at % text.len().max(1);
            let end = (at + gone).min(text.len());
            text.splice(at.min(end)..end, new.chars());
        }
        let text: String = text.into_iter().collect();
        let members: Vec<&str> = text.split(',').collect();
        let twice = [&members[..], &[members[double % members.len()]]].concat().join(",");
        for text in [text.clone(), twice.clone(), format!("{twice}}}"), format!("{twice}]}}")] {
            if let Some(read) = usual::read(&text) {
                prop_assert_eq!(read, read_any(&text), "{}", text);
            }
        }
    }
}
