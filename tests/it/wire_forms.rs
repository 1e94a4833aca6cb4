//! An answer in the other form than the client asked for becomes that form; its bytes decide which it has.

use harness::prelude::*;

use crate::expect::LATE;

fn completion() -> Value {
    json!({"id": "c1", "object": "chat.completion", "created": 7, "model": "a1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "one two"}, "finish_reason": "stop"},
            {"index": 1, "message": {"role": "assistant", "content": null, "refusal": "no",
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
             "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 9, "total_tokens": 13}})
}

#[tokio::test]
async fn json_for_a_stream_call_becomes_a_stream() {
    let x = Setup::new().start().await;
    // A content type that lies, and white space in front, as some upstreams send while they think.
    x.a.play(ANSWER(200, "text/event-stream", format!("\n\n  {}", completion())));
    let asked = json!({"include_usage": true});
    let stream = x.call("chat").set("n", 2).set("stream_options", asked).await;
    assert_eq!((stream.status, stream.text().as_str(), stream.dones()), (200, "one two", 1), "{stream:?}");
    stream.single_lines().tags("A/a1", false);
    let choices: Vec<Value> = stream.events.iter().map(|event| event.json()["choices"].clone()).collect();
    assert_eq!(choices[0][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(stream.finish().as_deref(), Some("stop"));
    let second: Vec<&Value> = choices.iter().filter(|c| c[0]["index"] == 1).collect();
    assert_eq!(second[1][0]["delta"]["refusal"], "no");
    assert_eq!(second[1][0]["delta"]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
    assert_eq!(second[1][0]["delta"]["tool_calls"][0]["index"], 0);
    assert_eq!(second[2][0]["finish_reason"], "tool_calls");
    let usage: Vec<_> = stream.events.iter().filter(|event| event.json()["usage"].is_object()).collect();
    assert_eq!((usage.len(), &usage[0].json()["choices"]), (1, &json!([])));
    let record = x.record(&stream).await;
    assert_eq!((&record["tokens"]["output"], &record["stream"]), (&json!(9), &json!(true)));
    // Usage that was not asked for is read and not shown.
    let quiet = x.call("chat").set("n", 2).await;
    assert!(quiet.events.iter().all(|event| event.json().get("usage").is_none()), "{quiet:?}");
    assert_eq!(x.record(&quiet).await["tokens"]["output"], 9);
    x.outcome("success", 2).await;
    x.end().await;
}

#[tokio::test]
async fn a_stream_for_a_plain_call_is_gathered_into_one_completion() {
    let x = Setup::new().start().await;
    let call = |json: Value| DELTA(&json!({"tool_calls": [json]}));
    x.a.play([
        HEAD(200, &[("content-type", "application/json")]),
        CMT("working"),
        ROLE,
        DELTA(&json!({"reasoning_content": "hm "})),
        DELTA(&json!({"reasoning_content": "yes"})),
        SPLIT(TXT("one "), 3, 1),
        TXT("two"),
        call(json!({"index": 0, "id": "t1", "type": "function", "function": {"name": "f", "arguments": ""}})),
        call(
            json!({"index": 1, "id": "t2", "type": "function", "function": {"name": "g", "arguments": "{}"}}),
        ),
        call(json!({"index": 0, "function": {"arguments": "{\"a\":"}})),
        call(json!({"index": 0, "function": {"arguments": "1}"}})),
        FIN("tool_calls"),
        USAGE,
        DONE,
    ]);
    let whole = x.plain("chat").await;
    assert_eq!((whole.status, whole.end), (200, End::Complete), "{whole:?}");
    assert_eq!(whole.header("content-type"), Some("application/json"));
    whole.tags("A/a1", false);
    let json = whole.json();
    let function = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    assert_eq!(
        json["choices"][0]["message"],
        json!({"role": "assistant", "content": "one two", "reasoning_content": "hm yes",
            "tool_calls": [function("t1", "f", "{\"a\":1}"), function("t2", "g", "{}")]})
    );
    assert_eq!(json["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(
        (&json["id"], &json["object"], &json["model"]),
        (&json!("chatcmpl-A"), &json!("chat.completion"), &json!("a1"))
    );
    assert_eq!(json["usage"]["completion_tokens"], 3);
    assert_eq!(x.record(&whole).await["tokens"]["output"], 3);
    x.end().await;
}

#[tokio::test]
async fn a_gathered_stream_needs_no_end_marker_and_waits_for_none_for_long() {
    // On `chat` only the deadline would end a wait.
    let patient = json!({"targets": ["A/a1"], "idle": "20s", "attempt": "20s"});
    let x = Setup::new().set("/routes/chat", patient).start().await;
    let good = [ROLE, TXT("one two three"), FIN("stop")];
    for end in [END, CUT] {
        x.a.queue([&good[..], &[end]].concat());
        x.plain("solo").await.answered();
    }
    x.a.queue([&good[..], &[SILENT]].concat());
    // The attempt may take a second, and the answer is complete at once.
    let x = {
        let held = x.call("solo").plain().await;
        held.answered();
        assert!(held.took() < ms(1800), "{held:?}");
        x
    };
    x.a.queue([&good[..], &[DONE, SILENT]].concat());
    let marked = x.plain("chat").await;
    marked.answered();
    assert!(marked.took() < ms(500) + LATE, "{marked:?}");
    x.outcome("success", 4).await;
    x.end().await;
}

#[tokio::test]
async fn what_goes_wrong_in_the_other_form_is_a_failed_attempt_like_any_other() {
    let error = json!({"error": {"message": "m", "type": "t", "code": "x"}});
    let streams: [(&str, Script); 5] = [
        ("an error object", JSON(200, &error)),
        ("no answers", JSON(200, &json!({"choices": []}))),
        ("half a document", Script::from([HEAD(200, &[]), RAW("{\"choices\":[{\"message\":{"), CUT])),
        ("half a document, ended", Script::from([HEAD(200, &[]), RAW("{\"choices\":[{\"message\":{"), END])),
        ("a list", JSON(200, &json!([error]))),
    ];
    let plains: [(&str, Script); 5] = [
        ("an error event", Script::from([ROLE, TXT("one "), ERR("x"), DONE])),
        ("a cut", Script::from([ROLE, TXT("one "), CUT])),
        ("no finish reason", Script::from([ROLE, TXT("one "), END])),
        ("a marker alone", Script::from([ROLE, DONE])),
        (
            "prose",
            Script::from([HEAD(200, &[("content-type", "application/json")]), RAW("dear customer"), END]),
        ),
    ];
    let cases =
        streams.into_iter().map(|case| (true, case)).chain(plains.into_iter().map(|case| (false, case)));
    for (stream, (name, script)) in cases {
        let x = Setup::new().start().await;
        x.a.play(script);
        let answer = x.call("chat").set("stream", stream).await;
        assert_eq!(answer.text(), HEALTHY_TEXT, "{name}: {answer:?}");
        answer.answered().tags("B/b1", true);
        x.calls([1, 1, 0]);
        x.breaker_is("A/a1", "closed", 1).await;
        x.end().await;
    }
}

#[tokio::test]
async fn what_is_held_of_the_other_form_is_bounded() {
    let x = Setup::new().set("/limits", json!({"answer": "20KB"})).start().await;
    let big = "x".repeat(30_000);
    let message = json!({"choices": [{"index": 0, "message": {"content": big}, "finish_reason": "stop"}]});
    for (stream, script) in
        [(true, JSON(200, &message)), (false, Script::from([ROLE, TXT(&big), FIN("stop"), DONE]))]
    {
        x.a.play(script);
        x.call("chat").set("stream", stream).await.answered().tags("B/b1", true);
    }
    x.end().await;
}
