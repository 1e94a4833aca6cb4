//! Which targets a request may go to at all, and the output limit of those that stand in for the first choice.

use harness::prelude::*;

fn long(bytes: usize) -> Value {
    json!([{"role": "user", "content": "word ".repeat(bytes / 5)}])
}

/// What an upstream saw as the body of an attempt, as text.
fn body(x: &Case, upstream: &str) -> String {
    let attempt = match upstream {
        "A" => x.a.attempts(),
        _ => x.b.attempts(),
    };
    String::from_utf8(attempt.last().unwrap().body.to_vec()).unwrap()
}

#[tokio::test]
async fn a_request_goes_only_to_targets_that_declare_enough_context() {
    let setup = Setup::new()
        .set("/upstreams/A/models/a1", json!({"context": 1000}))
        .set("/upstreams/B/models/b1", json!({"context": 4000}));
    let x = setup.start().await;
    x.call("chat").set("messages", long(3000)).await.answered().tags("A/a1", false);
    // The answer that is asked for needs room too.
    x.call("chat").set("messages", long(3000)).set("max_tokens", 400).await.answered().tags("B/b1", false);
    x.call("chat").set("messages", long(8000)).await.answered().tags("B/b1", false);
    x.calls([1, 2, 0]);
    let r = x.call("chat").set("messages", long(40_000)).await;
    r.refused(400, "no_capable_target").attempts(0);
    let message = r.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("A/a1 has a context of 1000 tokens where about 100"), "{message}");
    assert!(message.contains("; B/b1 has a context of 4000 tokens where about 100"), "{message}");
    x.calls([1, 2, 0]);
    x.end().await;
}

#[tokio::test]
async fn an_image_counts_by_the_piece_and_not_by_its_bytes() {
    let x = Setup::new().set("/upstreams/A/models/a1", json!({"context": 1000})).start().await;
    let url = format!("data:image/png;base64,{}", "iVBORw0K".repeat(20_000));
    let image = json!([{"role": "user", "content": [
        {"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": url}},
    ]}]);
    x.call("chat").set("messages", image).await.answered().tags("A/a1", false);
    x.end().await;
}

#[tokio::test]
async fn what_every_target_lacks_is_said_without_names_where_they_are_hidden() {
    let setup = Setup::new()
        .set("/upstreams/A/models/a1", json!({"supports": ["images"]}))
        .set("/upstreams/B/models/b1", json!({"supports": ["tools", "images"]}))
        .set("/tags", json!({"expose_upstream": false}));
    let x = setup.start().await;
    let call = x.call("chat").set("tools", json!([{"type": "function", "function": {"name": "f"}}]));
    let r = call.set("response_format", json!({"type": "json_object"})).await;
    r.refused(400, "no_capable_target");
    let message = r.error()["message"].as_str().unwrap().to_owned();
    let lacks = "target 1 has no tools and has no json output; target 2 has no json output";
    assert!(message.ends_with(lacks), "{message}");
    assert!(!String::from_utf8_lossy(&r.raw).contains("A/a1"), "{r:?}");
    x.call("solo").await.answered();
    x.end().await;
}

#[tokio::test]
async fn a_target_for_some_tasks_gets_no_others() {
    let targets = json!(["A/a1", {"target": "B/b1", "tasks": ["summary", "title"]}, "C/c1"]);
    let setup = Setup::new().set("/routes/chat3/targets", targets);
    let only = json!([{"target": "B/b1", "tasks": ["summary"]}]);
    let x = setup.set("/routes/other/targets", only).start().await;
    x.a.play(STATUS(503));
    x.call("chat3").header("x-sluice-task", "title").await.answered().tags("B/b1", true);
    x.call("chat3").header("x-sluice-task", "extract").await.answered().tags("C/c1", true);
    x.a.healthy();
    x.call("chat3").await.answered().tags("A/a1", false);
    x.calls([3, 1, 1]);
    x.call("other").header("x-sluice-task", "summary").await.answered().tags("B/b1", false);
    let r = x.call("other").await;
    r.refused(400, "no_capable_target");
    assert!(r.error()["message"].as_str().unwrap().ends_with("B/b1 is for other tasks"), "{r:?}");
    x.end().await;
}

#[tokio::test]
async fn too_long_for_one_goes_only_to_a_larger_one() {
    let too_long =
        JSON(400, &json!({"error": {"message": "m", "type": "t", "code": "context_length_exceeded"}}));
    let setup = Setup::new()
        .set("/upstreams/A/models/a1", json!({"context": 8000}))
        .set("/upstreams/B/models/b1", json!({"context": 8000}))
        .set("/upstreams/C/models/c1", json!({"context": 32_000}));
    let x = setup.start().await;
    x.a.play(too_long.clone());
    x.call("chat").await.refused(400, "context_length_exceeded").attempts(1);
    let r = x.call("chat3").await;
    r.answered().tags("C/c1", true).attempts(2);
    assert_eq!(r.header("x-sluice-failure-kind"), Some("context_length_exceeded"));
    x.calls([2, 0, 1]);
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn a_stand_in_gets_a_lower_output_limit_and_otherwise_the_same_bytes() {
    let targets = json!([{"target": "A/a1", "fallback_max_tokens": 50}, {"target": "B/b1", "fallback_max_tokens": 100}]);
    let x = Setup::new().set("/routes/chat/targets", targets).start().await;
    let cases = [
        (
            r#"{ "model":"chat", "max_tokens" : 4000 ,"messages":[],"seed":1.0}"#,
            Some(r#""max_tokens" : 100 "#),
        ),
        (
            r#"{"max_completion_tokens":101,"model":"chat","messages":[]}"#,
            Some(r#""max_completion_tokens":100"#),
        ),
        (r#"{"model":"chat","messages":[]}"#, Some(r#"{"max_tokens":100,"model""#)),
        (r#"{"model":"chat","max_tokens":64,"messages":[]}"#, None),
    ];
    for (sent, lowered) in cases {
        x.a.healthy();
        let r = x.plain("chat").body(sent).await;
        r.answered().tags("A/a1", false);
        assert_eq!(body(&x, "A"), sent.replace("\"chat\"", "\"a1\""), "the first choice gets what was asked");
        assert!(x.record(&r).await["max_tokens_lowered"].is_null());
        x.a.queue(STATUS(503));
        let r = x.plain("chat").body(sent).await;
        r.answered().tags("B/b1", true);
        let got = body(&x, "B");
        let want = sent.replace("\"chat\"", "\"b1\"");
        let record = x.record(&r).await;
        match lowered {
            None => assert_eq!(got, want),
            Some(piece) => {
                assert!(got.contains(piece), "{got}");
                let restored = got.replace("{\"max_tokens\":100,", "{").replace(" : 100 ", " : 4000 ");
                assert_eq!(restored.replace(":100,", ":101,"), want, "byte for byte otherwise");
            }
        }
        let want = if lowered.is_some() { json!(100) } else { Value::Null };
        assert_eq!(record["max_tokens_lowered"], want, "{record}");
    }
    x.end().await;
}

#[tokio::test]
async fn a_target_that_is_not_the_first_choice_is_limited_also_when_nothing_failed() {
    let targets = json!(["A/a1", {"target": "B/b1", "fallback_max_tokens": 100}]);
    let x = Setup::new().set("/routes/chat/targets", targets).start().await;
    x.open_a().await;
    let r = x.call("chat").set("max_tokens", 200).await;
    r.answered().tags("B/b1", true).attempts(1);
    assert_eq!(x.b.attempts().last().unwrap().json()["max_tokens"], 100);
    x.end().await;
}
