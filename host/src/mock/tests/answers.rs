use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn a_healthy_stream_has_the_shape_clients_expect() {
    let mock = Mock::quick().await;
    let answer = mock.call("gpt-x", true).await;
    assert_eq!((answer.status(), answer.whole), (200, true), "{answer:?}");
    assert!(answer.head.contains("content-type: text/event-stream"), "{answer:?}");
    let events = answer.events();
    assert_eq!(events.len(), 6, "role, three words, finish, [DONE]: {events:?}");
    let first: Value = serde_json::from_str(events[0]).unwrap();
    assert_eq!(first["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(
        (first["model"].as_str(), first["object"].as_str()),
        (Some("gpt-x"), Some("chat.completion.chunk"))
    );
    assert_eq!(first.get("usage"), None, "nobody asked for usage");
    let last: Value = serde_json::from_str(events[4]).unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["id"], first["id"]);
    assert_eq!(events[5], "[DONE]");
    assert_eq!(answer.text(), "one two three");
    assert!(events.iter().take(5).all(|event| event.starts_with("{\"id\":\"chatcmpl-")), "{events:?}");
    mock.end().await;
}

#[tokio::test]
async fn usage_comes_only_to_those_who_ask() {
    let mock = Mock::quick().await;
    let body = r#"{"model": "m", "stream": true, "stream_options": {"include_usage": true}}"#;
    let answer = read(mock.raw(body).await).await;
    let events = answer.events();
    assert_eq!(events.len(), 7, "{events:?}");
    let usage: Value = serde_json::from_str(events[5]).unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], 3);
    let first: Value = serde_json::from_str(events[0]).unwrap();
    assert_eq!(first.get("usage"), Some(&Value::Null));
    let plain = mock.call("m", false).await.json();
    assert_eq!(plain["usage"]["completion_tokens"], 3);
    assert_eq!(plain["choices"][0]["message"]["content"], "one two three");
    assert_eq!(plain["object"], "chat.completion");
    mock.end().await;
}

#[tokio::test]
async fn errors_have_their_status_code_and_hint() {
    let mock = Mock::quick().await;
    let table = [
        ("mock-status-503", 503, "overloaded_error", Value::Null, None),
        ("mock-status-500", 500, "server_error", Value::Null, None),
        ("mock-status-401", 401, "invalid_request_error", json!("invalid_api_key"), None),
        ("mock-status-404", 404, "invalid_request_error", json!("model_not_found"), None),
        ("mock-429", 429, "requests", json!("rate_limit_exceeded"), None),
        ("mock-429-2s", 429, "requests", json!("rate_limit_exceeded"), Some("retry-after: 2")),
        ("mock-429-1500ms", 429, "requests", json!("rate_limit_exceeded"), Some("retry-after-ms: 1500")),
        ("mock-quota", 429, "insufficient_quota", json!("insufficient_quota"), None),
        ("mock-context", 400, "invalid_request_error", json!("context_length_exceeded"), None),
        ("mock-filter", 400, "invalid_request_error", json!("content_filter"), None),
        ("mock-slow-1ms+status-529", 529, "overloaded_error", Value::Null, None),
        ("mock-fail-1h", 503, "overloaded_error", Value::Null, None),
        ("mock-cutt-3", 404, "invalid_request_error", json!("model_not_found"), None),
    ];
    for (model, status, kind, code, hint) in table {
        for stream in [true, false] {
            let answer = mock.call(model, stream).await;
            let error = &answer.json()["error"];
            assert_eq!((answer.status(), answer.whole), (status, true), "{model}: {answer:?}");
            assert_eq!((&error["type"], &error["code"]), (&json!(kind), &code), "{model}: {answer:?}");
            assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{model}: {answer:?}");
            match hint {
                Some(hint) => assert!(answer.head.lines().any(|line| line == hint), "{model}: {answer:?}"),
                None => assert!(!answer.head.contains("retry-after"), "{model}: {answer:?}"),
            }
        }
    }
    mock.end().await;
}

#[tokio::test]
async fn a_broken_stream_breaks_where_its_word_says() {
    let mock = Mock::quick().await;
    // model, events, text, proper end of body
    let table = [
        ("mock-cut-2", 3, "one two ", false),
        ("mock-cut-0", 1, "", false),
        ("mock-cut-5", 6, "one two threeone two ", false),
        ("mock-role-cut", 1, "", false),
        ("mock-empty", 0, "", true),
        ("mock-error", 2, "", true),
        ("mock-error-1", 4, "one ", true),
        ("mock-malformed", 7, "one two three", true),
        ("mock-malformed-2", 7, "one two three", true),
        ("mock-no-done", 5, "one two three", true),
        ("mock-slow-1ms+cut-1", 2, "one ", false),
    ];
    for (model, events, text, whole) in table {
        let answer = mock.call(model, true).await;
        let seen = (answer.status(), answer.events().len(), answer.text(), answer.whole);
        assert_eq!(seen, (200, events, text.to_owned(), whole), "{model}: {answer:?}");
        assert!(!answer.reset, "{model}: a cut is an orderly close");
    }
    mock.end().await;
}

#[tokio::test]
async fn a_broken_plain_answer_breaks_in_its_own_way() {
    let mock = Mock::quick().await;
    for model in ["mock-cut-2", "mock-role-cut"] {
        let answer = mock.call(model, false).await;
        assert!(answer.status() == 200 && !answer.whole && !answer.body.is_empty(), "{model}: {answer:?}");
    }
    let malformed = mock.call("mock-malformed", false).await;
    assert!(malformed.whole && serde_json::from_str::<Value>(&malformed.body).is_err(), "{malformed:?}");
    let error = mock.call("mock-error", false).await;
    assert_eq!((error.status(), error.json()["error"]["code"].as_str()), (200, Some("server_error")));
    let empty = mock.call("mock-empty", false).await;
    assert_eq!((empty.status(), empty.body.as_str(), empty.whole), (200, "", true));
    let stats = mock.stats_when(|stats| stats.open == 0).await;
    assert_eq!((stats.completed, stats.broken, stats.aborted), (3, 2, 0));
    mock.end().await;
}

#[tokio::test]
async fn a_reset_is_a_reset_and_not_a_close() {
    let mock = Mock::quick().await;
    for stream in [true, false] {
        let answer = mock.call("mock-reset", stream).await;
        assert!(answer.reset && answer.head.is_empty(), "{answer:?}");
    }
    mock.end().await;
}
