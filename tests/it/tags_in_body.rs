//! `tags.in_body`: the facts of the tags inside of JSON answers, and every other byte as the upstream sent it.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use harness::prelude::*;

use crate::expect::has;

/// An odd one: what a reader that writes again would change.
const ODD: &str = " {\"id\" : \"x\",\n \"n\":1.10e+2, \"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\
                   \"content\":\"caf\\u00e9 }\"},\"finish_reason\":\"stop\"}]\t}\n";

fn setup() -> Setup {
    Setup::new().set("/tags", json!({"in_body": true}))
}

/// The answer is the upstream's with one member more; the member.
#[track_caller]
fn member(response: &Response, sent: &str) -> Value {
    let body = std::str::from_utf8(&response.body).unwrap();
    let length = response.header("content-length").map(|length| length.parse().unwrap());
    assert_eq!((response.end, length), (End::Complete, Some(body.len())), "{response:?}");
    let end = sent.trim_end().len() - 1;
    let added = body.strip_prefix(&sent[..end]).and_then(|rest| rest.strip_suffix(&sent[end..]));
    let added = added.unwrap_or_else(|| panic!("other bytes changed: {body}"));
    serde_json::from_str(added.strip_prefix(",\"sluice\":").expect("our member")).expect("JSON")
}

#[tokio::test]
async fn an_answer_has_the_facts_of_its_headers_and_all_its_own_bytes() {
    let x = setup().start().await;
    x.a.queue(ANSWER(200, "application/json", ODD));
    let r = x.plain("chat").await;
    let own = member(&r, ODD);
    let latency: u64 = r.header("x-sluice-latency-ms").unwrap().parse().unwrap();
    let want = json!({
        "route": "primary", "upstream": "A", "served_model": "a1", "degraded": false, "failure_kind": null,
        "attempts": 1, "latency_ms": latency, "request_id": r.request_id().unwrap(),
    });
    assert_eq!(own, want);
    x.a.queue(STATUS(503));
    x.b.queue(ANSWER(200, "application/json", ODD));
    let r = x.plain("chat").await;
    let want = json!({
        "route": "fallback", "upstream": "B", "served_model": "b1", "degraded": true,
        "failure_kind": "retryable_upstream", "attempts": 2,
    });
    has(&member(&r, ODD), &want);
    // Compressed although nobody asked for it, gathered from a stream, and of another wire.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(ODD.as_bytes()).unwrap();
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    x.a.queue(WITH(200, &headers, gzip.finish().unwrap()));
    has(&member(&x.plain("chat").await, ODD), &json!({"upstream": "A"}));
    x.a.queue([ROLE, TXT(HEALTHY_TEXT), FIN("stop"), DONE]);
    let r = x.plain("chat").await;
    assert_eq!((r.text().as_str(), &r.json()["sluice"]["attempts"]), (HEALTHY_TEXT, &json!(1)), "{r:?}");
    let vectors =
        r#"{"object":"list","model":"a1","data":[{"object":"embedding","index":0,"embedding":[0.5]}]}"#;
    x.a.queue(ANSWER(200, "application/json", vectors));
    let r = x.call("chat").path("/v1/embeddings").body(r#"{"model":"chat","input":"x"}"#).await;
    has(&member(&r, vectors), &json!({"route": "primary"}));
    // A gateway of this kind behind this one: the nearer one counts.
    let behind = r#"{"sluice":{"route":"theirs"},"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}"#;
    x.a.queue(ANSWER(200, "application/json", behind));
    let r = x.plain("chat").await;
    let body = String::from_utf8_lossy(&r.body).into_owned();
    assert!(body.matches("\"sluice\"").count() == 1 && r.json()["sluice"]["route"] == "primary", "{body}");
    x.end().await;
}

#[tokio::test]
async fn what_callers_may_not_know_is_not_in_it_and_errors_have_it_too() {
    let x = setup().set("/tags/expose_upstream", false).start().await;
    let own = x.plain("chat").await.json()["sluice"].clone();
    assert_eq!(own.get("upstream").or(own.get("served_model")), None, "{own}");
    has(&own, &json!({"route": "primary", "attempts": 1}));
    x.end().await;
    let x = setup().start().await;
    x.a.play(STATUS(503));
    x.b.play(STATUS(500));
    for call in [x.plain("chat"), x.call("chat")] {
        let r = call.await;
        r.refused(502, "retryable_upstream");
        let want = json!({
            "route": "fallback", "degraded": true, "upstream": null, "served_model": null,
            "failure_kind": "retryable_upstream", "attempts": 2, "request_id": r.request_id().unwrap(),
        });
        has(&r.json()["sluice"], &want);
    }
    let r = x.plain("unknown").await;
    r.refused(404, "model_not_found");
    assert_eq!(r.json().get("sluice"), None, "no route is known: {r:?}");
    x.end().await;
}

#[tokio::test]
async fn a_stream_never_has_it_and_nobody_has_it_who_did_not_ask() {
    let x = setup().start().await;
    let whole = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "one"}, "finish_reason": "stop"}]});
    x.a.queue([ROLE, TXT("one"), FIN("stop"), DONE]);
    x.a.queue(JSON(200, &whole));
    x.a.queue([ROLE, TXT("one"), CUT]);
    for _ in 0..3 {
        let r = x.call("chat").await;
        assert!(r.text() == "one" && !String::from_utf8_lossy(&r.body).contains("\"sluice\""), "{r:?}");
    }
    x.end().await;
    let x = Setup::new().start().await;
    x.a.queue(ANSWER(200, "application/json", ODD));
    assert_eq!(x.plain("chat").await.body, ODD.as_bytes());
    x.end().await;
}
