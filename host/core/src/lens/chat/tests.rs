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
