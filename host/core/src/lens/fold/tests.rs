#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn folded(chunks: &[Value], wire: Wire) -> Value {
    let text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    serde_json::from_slice(&fold(format!("{text}data: [DONE]\n\n").into(), wire).unwrap()).unwrap()
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [{"index": index, "delta": delta, "finish_reason": null}]})
}

fn finish(index: u64, reason: &str) -> Value {
    json!({"id": "c", "choices": [{"index": index, "delta": {}, "finish_reason": reason}]})
}

#[test]
fn texts_reasoning_usage_and_finish_reasons_are_put_together_by_answer() {
    let whole = folded(
        &[
            json!({"id": "", "choices": [], "prompt_filter_results": [1]}),
            delta(0, json!({"role": "assistant", "content": ""})),
            delta(1, json!({"role": "assistant", "content": "b"})),
            delta(0, json!({"reasoning_content": "think "})),
            delta(0, json!({"reasoning_content": "hard", "content": null})),
            delta(0, json!({"content": "on"})),
            delta(0, json!({"content": "e\u{1f642}"})),
            delta(1, json!({"refusal": "no"})),
            finish(1, "content_filter"),
            finish(0, "stop"),
            json!({"id": "c", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}),
        ],
        Wire::Chat,
    );
    assert_eq!(
        (&whole["id"], &whole["object"], &whole["created"]),
        (&json!("c"), &json!("chat.completion"), &json!(5))
    );
    assert_eq!(whole["prompt_filter_results"], json!([1]));
    assert_eq!(
        whole["choices"],
        json!([
            {"index": 0, "message": {"role": "assistant", "content": "one\u{1f642}", "reasoning_content": "think hard"},
             "logprobs": null, "finish_reason": "stop"},
            {"index": 1, "message": {"role": "assistant", "content": "b", "refusal": "no"}, "logprobs": null, "finish_reason": "content_filter"},
        ])
    );
    assert_eq!(whole["usage"]["completion_tokens"], 3);
}

#[test]
fn fragments_of_tool_calls_find_their_call() {
    let call = |json: Value| delta(0, json!({"tool_calls": [json]}));
    let f = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let expected = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": f(name, arguments)});
    let by_index = folded(
        &[
            call(json!({"index": 0, "id": "a", "type": "function", "function": f("x", "")})),
            call(json!({"index": 1, "id": "b", "type": "function", "function": f("y", "{")})),
            call(json!({"index": 0, "function": {"arguments": "{\"k\":"}})),
            call(json!({"index": 1, "function": {"arguments": "}"}})),
            call(json!({"index": 0, "id": "", "function": f("x", "1}")})),
            finish(0, "tool_calls"),
        ],
        Wire::Chat,
    );
    let message = &by_index["choices"][0]["message"];
    assert_eq!(message["tool_calls"], json!([expected("a", "x", "{\"k\":1}"), expected("b", "y", "{}")]));
    assert_eq!(message["content"], Value::Null);
    let by_id = folded(
        &[
            call(json!({"id": "a", "function": f("x", "1")})),
            call(json!({"id": "b", "function": f("y", "2")})),
            call(json!({"function": {"arguments": "3"}})),
        ],
        Wire::Chat,
    );
    assert_eq!(
        by_id["choices"][0]["message"]["tool_calls"],
        json!([expected("a", "x", "1"), expected("b", "y", "23")])
    );
    let old = folded(
        &[
            delta(0, json!({"function_call": f("x", "{")})),
            delta(0, json!({"function_call": {"arguments": "}"}})),
        ],
        Wire::Chat,
    );
    assert_eq!(old["choices"][0]["message"]["function_call"], f("x", "{}"));
}

#[test]
fn lists_grow_and_text_completions_stay_text() {
    let chunk = |text: &str, n: u64| json!({"choices": [{"index": 0, "text": text, "logprobs": {"tokens": [n]}, "finish_reason": null}]});
    let whole = folded(&[chunk("a", 1), chunk("b", 2)], Wire::Completions);
    assert_eq!(whole["object"], "text_completion");
    assert_eq!(
        whole["choices"],
        json!([{"index": 0, "text": "ab", "logprobs": {"tokens": [1, 2]}, "finish_reason": null}])
    );
    let details = |n: u64| delta(0, json!({"reasoning_details": [n], "audio": {"id": "a", "data": "QQ"}}));
    let message = folded(&[details(1), details(2)], Wire::Chat)["choices"][0]["message"].clone();
    assert_eq!(message["reasoning_details"], json!([1, 2]));
    assert_eq!(message["audio"], json!({"id": "a", "data": "QQQQ"}));
    assert_eq!(fold("data: [DONE]\n\n".into(), Wire::Chat), None);
}
