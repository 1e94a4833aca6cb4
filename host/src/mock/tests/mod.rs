#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Server, Settings, Stats};

mod answers;
mod server;

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
        let server = Server::start(bind, settings, &tracker, stop.clone()).await.unwrap();
        Self { server, tracker, stop }
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
        tokio::time::timeout(LONG, self.tracker.wait()).await.expect("a task outlived the stop");
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
        self.head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn events(&self) -> Vec<&str> {
        self.body.split("\n\n").filter(|e| !e.is_empty()).map(|e| e.strip_prefix("data: ").unwrap()).collect()
    }

    fn text(&self) -> String {
        let parsed = self.events().into_iter().filter_map(|e| serde_json::from_str::<Value>(e).ok());
        parsed.filter_map(|e| e["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
    }
}

async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let ended =
        tokio::time::timeout(LONG, stream.read_to_end(&mut bytes)).await.expect("no end within ten seconds");
    let reset = ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
    let text = String::from_utf8(bytes).unwrap();
    let Some((head, rest)) = text.split_once("\r\n\r\n") else {
        return Answer { head: text, body: String::new(), whole: false, reset };
    };
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map(|n| n.parse::<usize>().unwrap());
    let (body, whole) = match length {
        None if chunked => unchunk(rest),
        Some(length) => (rest.to_owned(), rest.len() == length),
        None => panic!("neither a length nor chunks: {head}"),
    };
    Answer { head: head.to_owned(), body, whole, reset }
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
