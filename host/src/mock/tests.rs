#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Act, Behaviour, Server, Settings, Stats};

const LONG: Duration = Duration::from_secs(10);

/// A server on a free port that is stopped, and has to stop, at the end of its test.
struct Mock {
    server: Server,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Mock {
    async fn start(settings: Settings) -> Self {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::start(bind, settings, &tracker, stop.clone())
            .await
            .unwrap();
        Self {
            server,
            tracker,
            stop,
        }
    }

    async fn quick() -> Self {
        Self::start(Settings {
            delay: Duration::ZERO,
            text: "one two three".to_owned(),
            ..Settings::default()
        })
        .await
    }

    async fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.server.addr()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn raw(&self, body: &str) -> TcpStream {
        let length = body.len();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: mock\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        self.send(&format!("{head}{body}")).await
    }

    async fn call(&self, model: &str, stream: bool) -> Answer {
        let body = json!({"model": model, "stream": stream, "messages": []}).to_string();
        read(self.raw(&body).await).await
    }

    async fn get(&self, method: &str, path: &str) -> Answer {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: mock\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        read(self.send(&request).await).await
    }

    async fn stats_when(&self, ready: impl Fn(&Stats) -> bool) -> Stats {
        let wait = async {
            loop {
                let stats = self.server.stats();
                if ready(&stats) {
                    return stats;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, wait)
            .await
            .unwrap_or_else(|_| panic!("never so: {:?}", self.server.stats()))
    }

    async fn end(self) {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(LONG, self.tracker.wait())
            .await
            .expect("a task outlived the stop");
    }
}

#[derive(Debug)]
struct Answer {
    head: String,
    body: String,
    /// A proper end of body was there.
    whole: bool,
    reset: bool,
}

impl Answer {
    fn status(&self) -> u16 {
        self.head
            .split(' ')
            .nth(1)
            .map_or(0, |status| status.parse().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn events(&self) -> Vec<&str> {
        self.body
            .split("\n\n")
            .filter(|e| !e.is_empty())
            .map(|e| e.strip_prefix("data: ").unwrap())
            .collect()
    }

    fn text(&self) -> String {
        let parsed = self
            .events()
            .into_iter()
            .filter_map(|e| serde_json::from_str::<Value>(e).ok());
        parsed
            .filter_map(|e| {
                e["choices"][0]["delta"]["content"]
                    .as_str()
                    .map(str::to_owned)
            })
            .collect()
    }
}

async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let ended = tokio::time::timeout(LONG, stream.read_to_end(&mut bytes))
        .await
        .expect("no end within ten seconds");
    let reset = ended
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
    let text = String::from_utf8(bytes).unwrap();
    let Some((head, rest)) = text.split_once("\r\n\r\n") else {
        return Answer {
            head: text,
            body: String::new(),
            whole: false,
            reset,
        };
    };
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map(|n| n.parse::<usize>().unwrap());
    let (body, whole) = match length {
        None if chunked => unchunk(rest),
        Some(length) => (rest.to_owned(), rest.len() == length),
        None => panic!("neither a length nor chunks: {head}"),
    };
    Answer {
        head: head.to_owned(),
        body,
        whole,
        reset,
    }
}

fn unchunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, after == "\r\n");
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    (body, false)
}

#[tokio::test]
async fn a_healthy_stream_has_the_shape_clients_expect() {
    let mock = Mock::quick().await;
    let answer = mock.call("gpt-x", true).await;
    assert_eq!((answer.status(), answer.whole), (200, true), "{answer:?}");
    assert!(
        answer.head.contains("content-type: text/event-stream"),
        "{answer:?}"
    );
    let events = answer.events();
    assert_eq!(
        events.len(),
        6,
        "role, three words, finish, [DONE]: {events:?}"
    );
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
        (
            "mock-status-503",
            503,
            "overloaded_error",
            Value::Null,
            None,
        ),
        ("mock-status-500", 500, "server_error", Value::Null, None),
        (
            "mock-status-401",
            401,
            "invalid_request_error",
            json!("invalid_api_key"),
            None,
        ),
        (
            "mock-status-404",
            404,
            "invalid_request_error",
            json!("model_not_found"),
            None,
        ),
        (
            "mock-429",
            429,
            "requests",
            json!("rate_limit_exceeded"),
            None,
        ),
        (
            "mock-429-2s",
            429,
            "requests",
            json!("rate_limit_exceeded"),
            Some("retry-after: 2"),
        ),
        (
            "mock-429-1500ms",
            429,
            "requests",
            json!("rate_limit_exceeded"),
            Some("retry-after-ms: 1500"),
        ),
        (
            "mock-quota",
            429,
            "insufficient_quota",
            json!("insufficient_quota"),
            None,
        ),
        (
            "mock-context",
            400,
            "invalid_request_error",
            json!("context_length_exceeded"),
            None,
        ),
        (
            "mock-filter",
            400,
            "invalid_request_error",
            json!("content_filter"),
            None,
        ),
        (
            "mock-slow-1ms+status-529",
            529,
            "overloaded_error",
            Value::Null,
            None,
        ),
        ("mock-fail-1h", 503, "overloaded_error", Value::Null, None),
        (
            "mock-cutt-3",
            404,
            "invalid_request_error",
            json!("model_not_found"),
            None,
        ),
    ];
    for (model, status, kind, code, hint) in table {
        for stream in [true, false] {
            let answer = mock.call(model, stream).await;
            let error = &answer.json()["error"];
            assert_eq!(
                (answer.status(), answer.whole),
                (status, true),
                "{model}: {answer:?}"
            );
            assert_eq!(
                (&error["type"], &error["code"]),
                (&json!(kind), &code),
                "{model}: {answer:?}"
            );
            assert!(
                error["message"].as_str().is_some_and(|m| !m.is_empty()),
                "{model}: {answer:?}"
            );
            match hint {
                Some(hint) => assert!(
                    answer.head.lines().any(|line| line == hint),
                    "{model}: {answer:?}"
                ),
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
        let seen = (
            answer.status(),
            answer.events().len(),
            answer.text(),
            answer.whole,
        );
        assert_eq!(
            seen,
            (200, events, text.to_owned(), whole),
            "{model}: {answer:?}"
        );
        assert!(!answer.reset, "{model}: a cut is an orderly close");
    }
    mock.end().await;
}

#[tokio::test]
async fn a_broken_plain_answer_breaks_in_its_own_way() {
    let mock = Mock::quick().await;
    for model in ["mock-cut-2", "mock-role-cut"] {
        let answer = mock.call(model, false).await;
        assert!(
            answer.status() == 200 && !answer.whole && !answer.body.is_empty(),
            "{model}: {answer:?}"
        );
    }
    let malformed = mock.call("mock-malformed", false).await;
    assert!(
        malformed.whole && serde_json::from_str::<Value>(&malformed.body).is_err(),
        "{malformed:?}"
    );
    let error = mock.call("mock-error", false).await;
    assert_eq!(
        (error.status(), error.json()["error"]["code"].as_str()),
        (200, Some("server_error"))
    );
    let empty = mock.call("mock-empty", false).await;
    assert_eq!(
        (empty.status(), empty.body.as_str(), empty.whole),
        (200, "", true)
    );
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
        assert_eq!(
            (stats.aborted, stats.completed, stats.broken),
            (n, 0, 0),
            "{model}"
        );
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
    assert!(
        mock.get("GET", "/v1/models").await.json()["data"]
            .as_array()
            .unwrap()
            .len()
            > 10
    );
    mock.end().await;
}

#[tokio::test]
async fn names_of_callers_do_not_grow_the_counters_without_end() {
    let counters = super::stats::Counters::default();
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
    mock.server.set_behaviour(Behaviour {
        slow: Duration::ZERO,
        act: Act::Status(502),
    });
    assert_eq!(mock.call("any", true).await.status(), 502);
    assert_eq!(
        mock.call("mock-healthy", true).await.status(),
        200,
        "a model that chooses for itself"
    );
    mock.server.set_behaviour(Behaviour::default());
    assert_eq!(mock.call("any", true).await.status(), 200);
    mock.end().await;
}

#[tokio::test]
async fn failing_for_a_time_ends_with_that_time() {
    let settings = Settings {
        fail_for: Duration::from_secs(600),
        ..Settings::default()
    };
    let shared = super::Shared::new(settings);
    let past = |shared: &super::Shared, age: u64| {
        shared.changing().started = crate::clock::now()
            .checked_sub(Duration::from_secs(age))
            .unwrap();
    };
    assert_eq!(
        shared.behaviour("mock-healthy").unwrap().act,
        Act::Status(503)
    );
    past(&shared, 601);
    assert_eq!(shared.behaviour("mock-healthy").unwrap().act, Act::Healthy);
    assert_eq!(shared.behaviour("mock-fail-10m").unwrap().act, Act::Healthy);
    assert_eq!(
        shared.behaviour("mock-fail-20m").unwrap().act,
        Act::FailFor(Duration::from_secs(1200))
    );
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
    assert!(
        seen.starts_with(b"HTTP/1.1 413"),
        "{}",
        String::from_utf8_lossy(&seen)
    );
    mock.end().await;
}

#[tokio::test]
async fn http2_is_spoken_and_a_reset_there_spares_the_other_calls() {
    let mock = Mock::quick().await;
    let tracker = TaskTracker::new();
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http::<Full<bytes::Bytes>>();
    let call = |model: &str| {
        let body = json!({"model": model, "stream": true}).to_string();
        let uri = format!("{}/chat/completions", mock.server.base_url());
        let request = http::Request::post(uri).body(Full::from(body)).unwrap();
        let client = client.clone();
        async move {
            let answer = client
                .request(request)
                .await
                .map_err(|error| error.to_string())?;
            let body = answer
                .into_body()
                .collect()
                .await
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(String::from_utf8(body.to_bytes().to_vec()).unwrap())
        }
    };
    let slow = tracker.spawn(call("mock-slow-300ms"));
    mock.stats_when(|stats| stats.open == 1).await;
    assert!(call("mock-reset").await.is_err());
    assert!(
        call("mock-cut-1").await.is_err(),
        "a cut must not look like an end"
    );
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
        mock: super::MockArgs,
    }
    let parse = |args: &[&str]| {
        Cli::try_parse_from([&["mock"], args].concat()).map(|cli| cli.mock.settings())
    };
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
        behaviour: Behaviour {
            slow: Duration::ZERO,
            act: Act::Cut(3),
        },
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
    assert!(
        help.contains("stall-N") && help.contains("mock-cut-3"),
        "{help}"
    );
}
