//! `account_usage`: streams are asked for usage, and only those who asked see the event.

use harness::prelude::*;

async fn start() -> Case {
    let x = Setup::new().set("/account_usage", true).start().await;
    x.a.play([ROLE, TXT("one two three"), FIN("stop"), USAGE, DONE]);
    x
}

fn usages(response: &Response) -> usize {
    response.events.iter().filter(|event| event.json()["usage"].is_object()).count()
}

#[tokio::test]
async fn b031_usage_chunk_only_for_those_who_asked() {
    let x = start().await;
    let quiet = x.call("solo").await;
    quiet.answered();
    assert!(quiet.events.iter().all(|event| event.json()["choices"] != json!([])), "{quiet:?}");
    assert_eq!(usages(&quiet), 0);
    let asked = x.call("solo").set("stream_options", json!({"include_usage": true})).await;
    asked.answered();
    assert_eq!(usages(&asked), 1);
    let place = asked.events.iter().position(|event| event.json()["usage"].is_object()).unwrap();
    assert_eq!(asked.events[place - 1].json()["choices"][0]["finish_reason"], "stop");
    assert_eq!(asked.events[place + 1].data().as_deref(), Some("[DONE]"));
    let records = [x.record(&quiet).await, x.record(&asked).await];
    let wanted = json!({"input": 5, "output": 3, "source": "upstream"});
    assert_eq!([&records[0]["tokens"], &records[1]["tokens"]], [&wanted, &wanted]);
    x.metric_becomes("sluice_tokens_total", &[("direction", "output"), ("source", "upstream")], 6.0).await;
    assert_eq!(x.a.attempt(0).json()["stream_options"], json!({"include_usage": true}));
    x.end().await;
}

#[tokio::test]
async fn b031_usage_on_a_last_chunk_with_choices() {
    let x = start().await;
    let chunk = json!({"choices": [{"index": 0, "delta": {}}], "usage": {"prompt_tokens": 5, "completion_tokens": 3}});
    x.a.play([ROLE, TXT("one two three"), FIN("stop"), EVENT(&chunk), DONE]);
    for options in [Value::Null, json!({"include_usage": true})] {
        let answer = x.call("solo").set("stream_options", options).await;
        answer.answered();
        assert!(answer.events.iter().all(|event| event.json()["choices"] != json!([])), "{answer:?}");
        assert_eq!(x.record(&answer).await["tokens"]["output"], 3);
    }
    x.end().await;
}

#[tokio::test]
async fn the_body_changes_in_this_one_place_and_only_for_streams() {
    let x = start().await;
    let odd = |options: &str, stream: bool| {
        format!(
            r#"{{ "seed":9007199254740993,"temperature":1.0, {options}"messages":[{{"role":"user","content":"caf\u00e9 \/"}}],
            "model" : "solo" , "stream":{stream} }}"#
        )
    };
    let ask = r#""include_usage":true"#;
    let cases = [
        // What the client sends, and what of it is other for A.
        (odd("", true), "\"solo\"", format!("\"a1\",\"stream_options\":{{{ask}}}")),
        (odd("\"stream_options\": { \"x\" : [1] }, ", true), "{ \"x\"", format!("{{{ask}, \"x\"")),
        (
            odd("\"stream_options\":{\"include_usage\" : false,\"b\":1},", true),
            ": false,",
            ": true,".to_owned(),
        ),
        (odd("\"stream_options\":null,", true), "null", format!("{{{ask}}}")),
        (odd("\"stream_options\":{\"b\":1,\"include_usage\":true},", true), "\"solo\"", "\"a1\"".to_owned()),
    ];
    for (sent, from, to) in &cases {
        let expected = sent.replacen(from, to, 1).replace("\"solo\"", "\"a1\"");
        for _ in 0..2 {
            x.call("solo").body(sent.clone()).await.answered();
            let seen = x.a.attempts().pop().unwrap();
            assert_eq!(String::from_utf8_lossy(&seen.body), expected);
        }
    }
    x.a.healthy();
    let plain = odd("", false);
    x.call("solo").body(plain.clone()).await.answered();
    assert_eq!(x.a.attempts().pop().unwrap().body, plain.replace("\"solo\"", "\"a1\"").as_bytes());
    x.end().await;
}

#[tokio::test]
async fn switched_off_nothing_is_asked_and_what_comes_is_shown() {
    let x = Setup::new().start().await;
    x.a.play([ROLE, TXT("one two three"), FIN("stop"), USAGE, DONE]);
    let answer = x.call("solo").await;
    answer.answered();
    assert_eq!(usages(&answer), 1);
    assert!(x.a.attempt(0).json().get("stream_options").is_none());
    x.end().await;
}
