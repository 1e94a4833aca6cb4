#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::lens::chat::{Answer, read_answer};
use crate::lens::fold::fold;
use proptest::prelude::*;

fn events(body: &Value, wire: Wire) -> Vec<Value> {
    let bytes = unfold(body.to_string().as_bytes(), wire).unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let mut data: Vec<&str> =
        text.split("\n\n").filter(|e| !e.is_empty()).map(|e| e.strip_prefix("data: ").unwrap()).collect();
    assert_eq!(data.pop(), Some("[DONE]"));
    data.into_iter().map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn role_content_finish_usage_in_this_order_for_each_answer() {
    let body = json!({
        "id": "c1", "object": "chat.completion", "created": 7, "model": "m", "system_fingerprint": "fp",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "hi", "refusal": null}, "logprobs": {"content": [1]}, "finish_reason": "stop"},
            {"index": 1, "message": {"role": "assistant", "content": null,
                "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": "tool_calls"},
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    });
    let events = events(&body, Wire::Chat);
    for event in &events {
        assert_eq!(
            (&event["id"], &event["created"], &event["object"]),
            (&json!("c1"), &json!(7), &json!("chat.completion.chunk"))
        );
        assert_eq!(event["system_fingerprint"], "fp");
    }
    let choices: Vec<&Value> = events.iter().map(|event| &event["choices"]).collect();
    let role =
        |i: u64| json!([{"index": i, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]);
    assert_eq!(choices[0], &role(0));
    assert_eq!(
        choices[1],
        &json!([{"index": 0, "delta": {"content": "hi"}, "logprobs": {"content": [1]}, "finish_reason": null}])
    );
    assert_eq!(choices[2], &json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]));
    assert_eq!(choices[3], &role(1));
    assert_eq!(choices[4][0]["delta"]["tool_calls"][0]["index"], 0);
    assert_eq!(choices[4][0]["delta"].get("content"), None);
    assert_eq!(choices[5], &json!([{"index": 1, "delta": {}, "finish_reason": "tool_calls"}]));
    assert_eq!((choices[6], &events[6]["usage"]["completion_tokens"]), (&json!([]), &json!(2)));
    assert_eq!(events.len(), 7);
}

#[test]
fn nothing_is_invented() {
    let only = |message: Value| events(&json!({"choices": [{"message": message}]}), Wire::Chat);
    assert_eq!(only(json!({"content": "x"})).len(), 2, "no finish reason came");
    assert_eq!(only(json!({"refusal": "no"}))[1]["choices"][0]["delta"], json!({"refusal": "no"}));
    let text = events(
        &json!({"object": "text_completion", "choices": [{"text": "a", "index": 3, "finish_reason": "length"}]}),
        Wire::Completions,
    );
    assert_eq!(text[0]["choices"][0], json!({"index": 3, "text": "a", "finish_reason": null}));
    assert_eq!(text[1]["choices"][0], json!({"index": 3, "text": "", "finish_reason": "length"}));
    assert_eq!(text[0]["object"], "text_completion");
    for body in ["[]", "{}", "x", r#"{"choices":{}}"#] {
        assert_eq!(unfold(body.as_bytes(), Wire::Chat), None, "{body}");
    }
}

proptest! {
    /// There and back: the client gets the answer it would have got.
    #[test]
    fn folding_undoes_it(
        texts in proptest::collection::vec("\\PC{0,12}", 1..4),
        calls in proptest::collection::vec("[a-z\"\\\\{}]{0,8}", 0..3),
        usage in any::<bool>(),
    ) {
        let calls: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(i, a)| json!({"id": format!("t{i}"), "type": "function", "function": {"name": "f", "arguments": a}}))
            .collect();
        let choices: Vec<Value> = texts.iter().enumerate().map(|(i, text)| {
            let mut message = json!({"role": "assistant", "content": text});
            if !calls.is_empty() {
                message["tool_calls"] = Value::Array(calls.clone());
                message["content"] = Value::Null;
            }
            json!({"index": i, "message": message, "logprobs": null, "finish_reason": "stop"})
        }).collect();
        let mut body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices});
        if usage {
            body["usage"] = json!({"prompt_tokens": 1, "completion_tokens": 2});
        }
        let bytes = body.to_string();
        let back = fold(unfold(bytes.as_bytes(), Wire::Chat).unwrap(), Wire::Chat).unwrap();
        prop_assert_eq!(serde_json::from_slice::<Value>(&back).unwrap(), body);
        let is_answer = matches!(read_answer(&back), Answer::Completion { .. });
        prop_assert!(is_answer);
    }

    #[test]
    fn any_bytes_pass_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = unfold(&bytes, Wire::Chat);
        let _ = fold(bytes.into(), Wire::Completions);
    }
}
