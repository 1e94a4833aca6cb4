//! Text completions and embeddings: the same guarantees as chat, on their own wire.

use harness::prelude::*;

fn completion(text: &str) -> Value {
    json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "a1",
        "choices": [{"index": 0, "text": text, "logprobs": null, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}})
}

fn text(text: &str, finish: Option<&str>) -> Step {
    EVENT(&json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "a1",
        "choices": [{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]}))
}

fn texts(response: &Response) -> String {
    let texts = response.events.iter().map(|event| event.json()["choices"][0]["text"].clone());
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn vectors() -> Value {
    json!({"object": "list", "model": "a1", "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -1.5]}],
        "usage": {"prompt_tokens": 7, "total_tokens": 7}})
}

#[tokio::test]
async fn a_text_completion_is_served_whole_and_as_a_stream_with_bytes_unchanged() {
    let x = Setup::new().start().await;
    let whole = completion("one two");
    x.a.queue(JSON(200, &whole));
    x.a.queue([text("one ", None), text("two", None), text("", Some("stop")), DONE]);
    let call = x.call("chat").path("/v1/completions");
    let body = r#"{ "model":"chat", "prompt" : "caf\u00e9", "max_tokens":7 }"#;
    let plain = call.clone().body(body).await;
    assert_eq!((plain.status, &plain.body[..]), (200, whole.to_string().as_bytes()), "{plain:?}");
    plain.tags("A/a1", false);
    let seen = x.a.attempt(0);
    assert_eq!(seen.path(), "/v1/completions");
    assert_eq!(seen.body, body.replace("\"chat\"", "\"a1\"").as_bytes());
    let record = x.record(&plain).await;
    assert_eq!((&record["endpoint"], &record["tokens"]["output"]), (&json!("/v1/completions"), &json!(3)));
    let stream = call.set("prompt", "x").await;
    assert_eq!((stream.status, texts(&stream).as_str(), stream.dones()), (200, "one two", 1), "{stream:?}");
    stream.single_lines().tags("A/a1", false);
    x.outcome("success", 2).await;
    x.end().await;
}

#[tokio::test]
async fn a_text_completion_falls_over_before_its_first_text_and_shows_a_break_after_it() {
    let x = Setup::new().start().await;
    x.a.queue([text("", None), CUT]);
    x.b.queue([text("two", None), text("", Some("stop")), DONE]);
    x.a.queue([text("one ", None), CUT]);
    let call = x.call("chat").path("/v1/completions").set("prompt", "x");
    let switched = call.clone().await;
    assert_eq!((texts(&switched).as_str(), switched.dones()), ("two", 1), "{switched:?}");
    switched.tags("B/b1", true);
    let broken = call.await;
    assert_eq!(
        (texts(&broken).as_str(), broken.dones(), broken.errors().len()),
        ("one ", 0, 1),
        "{broken:?}"
    );
    assert_eq!(broken.code(), "upstream_interrupted");
    x.calls([2, 1, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_stream_for_several_prompts_ends_well_only_when_all_are_finished() {
    let x = Setup::new().start().await;
    let choice = |index: u64, text: &str, finish: Value| {
        CHOICES(&json!([{"index": index, "text": text, "finish_reason": finish}]))
    };
    let one = [choice(0, "a", Value::Null), choice(1, "b", Value::Null), choice(0, "", json!("stop"))];
    x.a.queue([&one[..], &[CUT]].concat());
    x.a.queue([&one[..], &[choice(1, "", json!("length")), CUT]].concat());
    let call = x.call("solo").path("/v1/completions").set("prompt", json!(["x", "y"]));
    let half = call.clone().await;
    assert_eq!((half.dones(), half.errors().len()), (0, 1), "{half:?}");
    let all = call.await;
    assert_eq!((all.dones(), all.errors().len()), (1, 0), "{all:?}");
    x.end().await;
}

#[tokio::test]
async fn embeddings_are_served_whole_and_never_as_a_stream() {
    let x = Setup::new().start().await;
    x.a.play(JSON(200, &vectors()));
    // `stream` means nothing here, and reaches the upstream as it came.
    let call = x.call("chat").path("/v1/embeddings").set("input", json!(["a", "b"]));
    let answer = call.await;
    assert_eq!((answer.status, &answer.body[..]), (200, vectors().to_string().as_bytes()), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.tags("A/a1", false);
    assert_eq!(x.a.attempt(0).path(), "/v1/embeddings");
    let record = x.record(&answer).await;
    assert_eq!((&record["stream"], &record["endpoint"]), (&json!(false), &json!("/v1/embeddings")));
    assert_eq!(record["tokens"], json!({"input": 7, "output": 0, "source": "upstream"}));
    x.end().await;
}

#[tokio::test]
async fn what_is_no_list_of_vectors_is_a_failed_attempt() {
    let bodies = [
        json!({"choices": [{"message": {"content": "x"}}]}).to_string(),
        json!({"object": "list", "data": []}).to_string(),
        json!({"error": {"message": "m", "code": "upstream_failed"}}).to_string(),
        "<html>".to_owned(),
        String::new(),
    ];
    for body in bodies {
        let x = Setup::new().start().await;
        x.a.play(ANSWER(200, "application/json", body.clone()));
        x.b.play(JSON(200, &vectors()));
        let answer = x.call("chat").path("/v1/embeddings").set("input", "a").await;
        assert_eq!((answer.status, answer.json()), (200, vectors()), "{body}: {answer:?}");
        answer.tags("B/b1", true);
        x.breaker_is("A/a1", "closed", 1).await;
        x.end().await;
    }
}

#[tokio::test]
async fn other_methods_are_405_and_other_paths_404() {
    let x = Setup::new().start().await;
    for path in ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"] {
        for method in ["GET", "PUT", "DELETE"] {
            let mut client = x.connect().await;
            client.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await;
            let refused = client.finish().await;
            refused.refused(405, "method_not_allowed");
            assert_eq!(refused.header("allow"), Some("POST"));
        }
    }
    for path in ["/v1/responses", "/v1/completions/", "/completions", "/v1/embedding"] {
        x.call("chat").path(path).await.refused(404, "not_found");
    }
    x.call("nobody").path("/v1/embeddings").await.refused(404, "model_not_found");
    x.call("chat").path("/v1/completions").body("{").await.refused(400, "invalid_json");
    x.calls([0, 0, 0]);
    x.end().await;
}
