//! An upstream that is always well, and what its callers must get: for measurements, where trouble comes from elsewhere.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::response::{End, Response};

/// Pieces of the text of a stream.
const PIECES: usize = 5;

/// Listens on a port of its own. Streams pause for `pause` between their pieces.
pub(super) async fn upstream(pause: Duration, tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("a bound socket has an address");
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (io, _) = listener.accept().await.expect("a connection");
            io.set_nodelay(true).expect("a socket takes TCP_NODELAY");
            while connections.try_join_next().is_some() {}
            connections.spawn(serve(io, pause));
        }
    });
    addr
}

/// Answers one request after the other, until the gateway goes.
async fn serve(mut io: TcpStream, pause: Duration) {
    let mut got = Vec::with_capacity(4096);
    loop {
        while !is_whole(&got) {
            if io.read_buf(&mut got).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let streamed = got.windows(13).any(|window| window == b"\"stream\":true");
        got.clear();
        let said = if streamed { stream(&mut io, pause).await } else { io.write_all(&whole()).await };
        if said.is_err() {
            return;
        }
    }
}

fn is_whole(got: &[u8]) -> bool {
    let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&got[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    got.len() >= end + 4 + length.expect("a request says how long it is")
}

async fn stream(io: &mut TcpStream, pause: Duration) -> std::io::Result<()> {
    io.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        .await?;
    let piece = |delta, finish: Option<&str>| {
        json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
               "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        .to_string()
    };
    for at in 0..PIECES {
        say(io, &piece(json!({"content": format!("{at} ")}), None)).await?;
        tokio::time::sleep(pause).await;
    }
    say(io, &piece(json!({}), Some("stop"))).await?;
    say(io, "[DONE]").await?;
    io.write_all(b"0\r\n\r\n").await
}

async fn say(io: &mut TcpStream, data: &str) -> std::io::Result<()> {
    let event = format!("data: {data}\n\n");
    io.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await
}

fn whole() -> Vec<u8> {
    let body = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
    .to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

/// A call of the route `all`.
pub(super) fn request(stream: bool) -> Vec<u8> {
    let body = json!({"model": "all", "stream": stream, "messages": [{"role": "user", "content": "hi"}]})
        .to_string();
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into()
}

/// What is missing of a stream; none: it is whole.
pub(super) fn missing(r: &Response) -> Option<String> {
    let text: String = (0..PIECES).map(|at| format!("{at} ")).collect();
    let done = r.raw.windows(12).any(|bytes| bytes == b"data: [DONE]");
    let whole = r.status == 200 && r.end == End::Complete && r.text() == text && done;
    (!whole).then(|| format!("{} {:?} {:?}, done: {done}", r.status, r.end, r.text()))
}
