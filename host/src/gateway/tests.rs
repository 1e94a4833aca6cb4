//! A gateway inside of the test's own process, where connections can be made that no network makes.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::*;
use crate::config::{self, BaseUrl};
use crate::upstream::{ConnectError, Dialed};

mod sim;

const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps what is written to it; its channel closes when it is dropped.
struct Out {
    text: Arc<Mutex<String>>,
    _there: watch::Sender<()>,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a gateway writes, and a channel that closes when it has ended for good.
fn outside(dial: Option<Arc<dyn Dial>>) -> (Outside, Arc<Mutex<String>>, watch::Receiver<()>) {
    let text = Arc::default();
    let (there, gone) = watch::channel(());
    let out = Box::new(Out { text: Arc::clone(&text), _there: there });
    (Outside { out, process_log: false, dial, sources: None }, text, gone)
}

fn config(dir: &Path) -> Config {
    let config = json!({
        "listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "state_dir": dir.join("state"), "plugins": {"dir": dir},
        "upstreams": {"a": {"base_url": "http://127.0.0.1:9/v1", "models": {"m": {}}}},
        "routes": {"chat": {"targets": ["a/m"]}},
        "drain": {"window": "0s", "limit": "5s"},
    });
    config::parse(&config.to_string(), Path::new("test.yaml"), &|_| None).unwrap().config
}

#[tokio::test]
async fn a_start_that_fails_at_its_last_step_leaves_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    // Two listeners at one address: both can be bound, and only one of them opened.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (outside, _, mut gone) = outside(None);
    let mut config = config(dir.path());
    (config.listen, config.admin) = (free, free);
    let started = Box::pin(Gateway::start(config, outside)).await;
    assert!(matches!(started.err(), Some(StartError::Bind { key: "admin", .. })));
    let ended = tokio::time::timeout(PATIENCE, gone.changed()).await;
    assert!(ended.is_ok(), "tasks of the failed start still run");
}

/// A connection that cannot even be tried.
struct Panics;

impl Dial for Panics {
    fn dial<'a>(
        &'a self,
        _: &'a BaseUrl,
    ) -> Pin<Box<dyn Future<Output = Result<Dialed, ConnectError>> + Send + 'a>> {
        Box::pin(async { panic!("on purpose") })
    }
}

/// One call, its answer as head and body; the connection stays.
async fn call(client: &mut TcpStream, id: &str) -> (String, Value) {
    let body = json!({"model": "chat", "messages": []}).to_string();
    let length = body.len();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-request-id: {id}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    loop {
        assert!(client.read_buf(&mut got).await.unwrap() > 0, "closed without an answer");
        let text = String::from_utf8_lossy(&got);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return (head.to_owned(), body);
        }
    }
}

#[tokio::test]
async fn a_panic_inside_a_call_is_that_calls_own_error_and_its_connection_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, written, _) = outside(Some(Arc::new(Panics)));
    let gateway = Box::pin(Gateway::start(config(dir.path()), outside)).await.unwrap();
    let mut client = TcpStream::connect(gateway.listen()).await.unwrap();
    for id in ["first", "second"] {
        let (head, body) = tokio::time::timeout(PATIENCE, call(&mut client, id)).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 500 ") && head.contains(&format!("x-request-id: {id}")), "{head}");
        let error = &body["error"];
        assert_eq!((&error["code"], &error["type"]), (&json!("internal_error"), &json!("api_error")));
        assert_eq!(error["request_id"], id);
    }
    gateway.drain(CancellationToken::new()).await;
    let written = written.lock().unwrap();
    let records: Vec<Value> = written
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["event"] == "request")
        .collect();
    assert_eq!(records.len(), 2, "{written}");
    for record in records {
        assert_eq!(
            (&record["outcome"], &record["status_code"]),
            (&json!("exhausted"), &json!(500)),
            "{record}"
        );
    }
}
