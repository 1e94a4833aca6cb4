//! Worked case: the event that ends a broken stream is an error for every kind of client.

use crate::sdks::BOTH;
use harness::prelude::*;

/// What a client made of a stream.
#[derive(Debug, PartialEq)]
enum Saw {
    /// An error was told; the text before it.
    Error(String),
    /// It takes the answer for a finished one.
    Finished,
    /// The body ended, and nothing was said.
    Nothing,
    /// It gave up on something that is neither chunk nor error.
    Puzzled(String),
}

/// A client that looks at lines: those that start `data: `, and an error by how its line begins.
fn line_reader(body: &[u8]) -> Saw {
    let mut text = String::new();
    for line in String::from_utf8_lossy(body).split('\n') {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        if line.starts_with("data: {\"error\":{") {
            return Saw::Error(text);
        }
        if data == "[DONE]" {
            return Saw::Finished;
        }
        let Ok(chunk) = serde_json::from_str::<Value>(data) else { return Saw::Puzzled(line.to_owned()) };
        text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
    }
    Saw::Nothing
}

/// A client whose schema knows two things, and nothing beside them: a chunk, and an error.
fn strict_schema(body: &[u8]) -> Saw {
    let mut text = String::new();
    for block in String::from_utf8_lossy(body).split_terminator("\n\n") {
        let puzzled = || Saw::Puzzled(block.to_owned());
        let Some(data) = block.strip_prefix("data: ").filter(|data| !data.contains('\n')) else {
            return puzzled();
        };
        if data == "[DONE]" {
            return Saw::Finished;
        }
        let Ok(Value::Object(event)) = serde_json::from_str(data) else { return puzzled() };
        let only = |names: &[&str]| event.keys().all(|name| names.contains(&name.as_str()));
        match (event.get("error"), event.get("choices")) {
            (Some(Value::Object(error)), None) if only(&["error"]) && is_error(error) => {
                return Saw::Error(text);
            }
            (None, Some(choices)) if only(&["id", "object", "created", "model", "choices", "usage"]) => {
                text.push_str(choices[0]["delta"]["content"].as_str().unwrap_or_default());
                if choices[0]["finish_reason"].is_string() {
                    return Saw::Finished;
                }
            }
            _ => return puzzled(),
        }
    }
    Saw::Nothing
}

fn is_error(error: &serde_json::Map<String, Value>) -> bool {
    let text = |name: &str| error.get(name).is_some_and(Value::is_string);
    let code = error.get("code").is_some_and(|code| code.is_string() || code.is_number());
    let param = error.get("param").is_none_or(|param| param.is_string() || param.is_null());
    let known = error.keys().all(|name| ["message", "type", "code", "param"].contains(&name.as_str()));
    text("message") && text("type") && code && param && known
}

#[tokio::test]
async fn b026_shape_of_the_error_event_after_commit() {
    let shown = [ROLE, TXT("one ")];
    let reported = || [TXT("two "), SLEEP(50), ERR("server_error"), DONE];
    let codeless = EVENT(&json!({"error": {"message": "m"}}));
    let odd =
        EVENT(&json!({"error": {"message": {"deep": 1}, "type": 7, "param": {"x": 1}, "code": {"y": 2}}}));
    let table: [(&[Step], &str, &str); 6] = [
        (&[TXT("two "), SLEEP(50), CUT], "one two ", "upstream_interrupted"),
        (&[SILENT], "one ", "stream_stalled"),
        (&reported(), "one two ", "server_error"),
        (&[SLEEP(50), ERR(503), DONE], "one ", "503"),
        (&[SLEEP(50), codeless, DONE], "one ", "upstream_interrupted"),
        (&[SLEEP(50), odd, DONE], "one ", "{\"y\":2}"),
    ];
    for (rest, text, code) in table {
        let x = Setup::new().set("/breaker/consecutive", 1000).start().await;
        x.a.play([&shown[..], rest].concat());
        let r = x.call("chat").await;
        r.broken_stream(text).tags("A/a1", false);
        assert_eq!(r.code(), code);
        assert!(r.body.ends_with(b"}}\n\n"), "{r:?}");
        for (client, saw) in
            [("line reader", line_reader(&r.body)), ("strict schema", strict_schema(&r.body))]
        {
            assert_eq!(saw, Saw::Error(text.to_owned()), "{client}: {r:?}");
        }
        for sdk in BOTH {
            let mut expected = vec!["--expect", "interrupted", "--text", text];
            // Both SDKs hand the code on as it is; a number is none of the words that the scripts compare.
            if code != "503" {
                expected.extend(["--code", code]);
            }
            sdk.sees(&x, "chat", "stream", &expected).await;
        }
        x.outcome("interrupted", 3).await;
        x.end().await;
    }
}

/// A reader that takes anything for an error would make the case above worthless.
#[test]
fn the_readers_notice_what_is_no_error() {
    let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"one \"},\"finish_reason\":null}]}\n\n";
    let error = "data: {\"error\":{\"message\":\"m\",\"type\":\"t\",\"param\":null,\"code\":\"c\"}}\n\n";
    let with = |from: &str, to: &str| error.replacen(from, to, 1);
    let none = || "none".to_owned();
    let table = [
        (error.to_owned(), "error", "error"),
        (with("\"m\"", "{\"deep\":1}"), "error", "puzzled"),
        (with("\"code\":\"c\"", "\"code\":null"), "error", "puzzled"),
        (with("\"param\":null", "\"param\":{}"), "error", "puzzled"),
        (with("{\"error\"", "{\"choices\":[],\"error\""), "nothing", "puzzled"),
        (with("data: ", "data:"), "nothing", "puzzled"),
        (with("data: ", "event: error\ndata: "), "error", "puzzled"),
        (": an error\n\n".to_owned(), "nothing", "puzzled"),
        ("data: [DONE]\n\n".to_owned(), "finished", "finished"),
        (String::new(), "nothing", "nothing"),
    ];
    let word = |saw: &Saw| match saw {
        Saw::Error(text) if text == "one " => "error".to_owned(),
        Saw::Error(_) => none(),
        Saw::Finished => "finished".to_owned(),
        Saw::Nothing => "nothing".to_owned(),
        Saw::Puzzled(_) => "puzzled".to_owned(),
    };
    for (end, by_line, by_schema) in table {
        let body = format!("{chunk}{end}");
        assert_eq!(word(&line_reader(body.as_bytes())), by_line, "{end}");
        assert_eq!(word(&strict_schema(body.as_bytes())), by_schema, "{end}");
    }
}
