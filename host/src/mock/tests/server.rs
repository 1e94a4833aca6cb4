use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::mock::{Act, Behaviour, MockArgs, Shared};

#[tokio::test]
async fn a_client_that_leaves_is_seen_and_counted() {
    let mock = Mock::quick().await;
    for (n, model) in (1..).zip(["mock-silent", "mock-stall-1"]) {
        let body = json!({"model": model, "stream": true}).to_string();
        let mut stream = mock.raw(&body).await;
        if model == "mock-stall-1" {
            let mut seen = Vec::new();
            while !String::from_utf8_lossy(&seen).contains("one ") {
                assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
            }
        }
        mock.stats_when(|stats| stats.open == 1).await;
        drop(stream);
        let stats = mock.stats_when(|stats| stats.open == 0).await;
        assert_eq!((stats.aborted, stats.completed, stats.broken), (n, 0, 0), "{model}");
    }
    mock.end().await;
}

#[tokio::test]
async fn the_counters_tell_what_came_and_reset() {
    let mock = Mock::quick().await;
    mock.call("a", true).await;
    mock.call("a", false).await;
    mock.call("mock-cut-1", true).await;
    mock.call("mock-nonsense", true).await;
    read(mock.raw("no json").await).await;
    let stats = mock.get("GET", "/mock/stats").await.json();
    assert_eq!(stats["requests"], 3);
    assert_eq!(stats["refused"], 2);
    assert_eq!(stats["by_model"], json!({"a": 2, "mock-cut-1": 1}));
    assert_eq!(stats["by_behaviour"], json!({"healthy": 2, "cut": 1}));
    assert_eq!(
        (&stats["max_open"], &stats["completed"], &stats["broken"]),
        (&json!(1), &json!(2), &json!(1))
    );
    assert_eq!(mock.get("POST", "/mock/reset").await.status(), 200);
    assert_eq!(mock.server.stats(), Stats::default());
    assert_eq!(mock.get("GET", "/v1/nothing").await.status(), 404);
    assert!(mock.get("GET", "/v1/models").await.json()["data"].as_array().unwrap().len() > 10);
    mock.end().await;
}

#[tokio::test]
async fn names_of_callers_do_not_grow_the_counters_without_end() {
    let counters = crate::mock::stats::Counters::default();
    for n in 0..5000 {
        counters.begin(&format!("model-{n}"), "healthy").completed();
    }
    let stats = counters.snapshot();
    assert_eq!(stats.requests, 5000);
    assert!(stats.by_model.len() <= 257, "{}", stats.by_model.len());
    assert_eq!(stats.by_model["other"], 5000 - 256);
}

#[tokio::test]
async fn the_whole_server_can_be_told_and_told_otherwise() {
    let mock = Mock::quick().await;
    mock.server.set_behaviour(Behaviour { slow: Duration::ZERO, act: Act::Status(502) });
    assert_eq!(mock.call("any", true).await.status(), 502);
    assert_eq!(mock.call("mock-healthy", true).await.status(), 200, "a model that chooses for itself");
    mock.server.set_behaviour(Behaviour::default());
    assert_eq!(mock.call("any", true).await.status(), 200);
    mock.end().await;
}

#[tokio::test]
async fn a_model_does_what_it_is_told_and_not_what_its_name_says_and_no_other_does() {
    let mock = Mock::quick().await;
    mock.server.set_behaviour_of("mock-cut-3", Behaviour::default());
    mock.server.set_behaviour_of("gpt", Behaviour { slow: Duration::ZERO, act: Act::Status(502) });
    assert_eq!(mock.call("mock-cut-3", false).await.status(), 200);
    assert_eq!(mock.call("gpt", false).await.status(), 502);
    assert_eq!(mock.call("gpt-2", false).await.status(), 200);
    assert_eq!(mock.call("mock-status-503", false).await.status(), 503);
    mock.server.set_behaviour_of("gpt", Behaviour::default());
    assert_eq!(mock.call("gpt", false).await.status(), 200);
    mock.end().await;
}

#[tokio::test]
async fn failing_for_a_time_ends_with_that_time() {
    let settings = Settings { fail_for: Duration::from_secs(600), ..Settings::default() };
    let shared = Shared::new(settings);
    let past = |shared: &Shared, age: u64| {
        shared.changing().started = crate::clock::now().checked_sub(Duration::from_secs(age)).unwrap();
    };
    assert_eq!(shared.behaviour("mock-healthy").unwrap().act, Act::Status(503));
    past(&shared, 601);
    assert_eq!(shared.behaviour("mock-healthy").unwrap().act, Act::Healthy);
    assert_eq!(shared.behaviour("mock-fail-10m").unwrap().act, Act::Healthy);
    assert_eq!(shared.behaviour("mock-fail-20m").unwrap().act, Act::FailFor(Duration::from_secs(1200)));
    shared.reset();
    assert_eq!(shared.behaviour("gpt").unwrap().act, Act::Status(503));
}

#[tokio::test]
async fn a_request_over_the_bound_is_refused_and_not_held() {
    let mock = Mock::quick().await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: mock\r\ncontent-length: 99999999\r\nconnection: close\r\n\r\n";
    let mut stream = mock.send(head).await;
    let flood = vec![b' '; 1 << 20];
    for _ in 0..33 {
        if stream.write_all(&flood).await.is_err() {
            break;
        }
    }
    let mut seen = Vec::new();
    while !seen.windows(4).any(|w| w == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
    }
    assert!(seen.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&seen));
    mock.end().await;
}

#[tokio::test]
async fn http2_is_spoken_and_a_reset_there_spares_the_other_calls() {
    let mock = Mock::quick().await;
    let tracker = TaskTracker::new();
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<bytes::Bytes>>();
    let call = |model: &str| {
        let body = json!({"model": model, "stream": true}).to_string();
        let uri = format!("{}/chat/completions", mock.server.base_url());
        let request = http::Request::post(uri).body(Full::from(body)).unwrap();
        let client = client.clone();
        async move {
            let answer = client.request(request).await.map_err(|error| error.to_string())?;
            let body = answer.into_body().collect().await.map_err(|error| error.to_string())?;
            Ok::<_, String>(String::from_utf8(body.to_bytes().to_vec()).unwrap())
        }
    };
    let slow = tracker.spawn(call("mock-slow-300ms"));
    mock.stats_when(|stats| stats.open == 1).await;
    assert!(call("mock-reset").await.is_err());
    assert!(call("mock-cut-1").await.is_err(), "a cut must not look like an end");
    assert!(call("m").await.unwrap().ends_with("data: [DONE]\n\n"));
    assert!(slow.await.unwrap().unwrap().contains("three"));
    drop(client);
    mock.end().await;
}

#[tokio::test]
async fn stopping_ends_silent_calls_too() {
    let mock = Mock::quick().await;
    let stream = mock.raw(r#"{"model": "mock-silent"}"#).await;
    mock.stats_when(|stats| stats.open == 1).await;
    mock.end().await;
    assert!(read(stream).await.head.is_empty());
}

#[test]
fn the_command_line_parses_and_explains_itself() {
    use clap::Parser;
    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        mock: MockArgs,
    }
    let parse =
        |args: &[&str]| Cli::try_parse_from([&["mock"], args].concat()).map(|cli| cli.mock.settings());
    assert_eq!(parse(&[]).unwrap(), Settings::default());
    let got = parse(&[
        "--behave",
        "cut-3",
        "--fail-for",
        "10s",
        "--chunks",
        "7",
        "--delay",
        "5ms",
        "--text",
        "a b",
    ])
    .unwrap();
    let want = Settings {
        behaviour: Behaviour { slow: Duration::ZERO, act: Act::Cut(3) },
        fail_for: LONG,
        chunks: Some(7),
        delay: Duration::from_millis(5),
        text: "a b".to_owned(),
    };
    assert_eq!(got, want);
    for (args, says) in [
        (["--behave", "stal-3"], "did you mean `stall-2`"),
        (["--delay", "5"], "a whole number and `ms`"),
        (["--chunks", "0"], "1..=1000000"),
    ] {
        let error = parse(&args).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let help = parse(&["--help"]).unwrap_err().to_string();
    assert!(help.contains("stall-N") && help.contains("mock-cut-3"), "{help}");
}
