//! Callers of a storm: each makes one call after the other, stays or leaves, and looks at what it got.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Shared;
use super::reading::{Reply, Seen, wrong_with};

/// Longer than any call can take: a budget, and a stream that just does not stall.
const FOR_GOOD: Duration = Duration::from_secs(90);

pub(super) async fn calls(shared: Arc<Shared>, gateway: SocketAddr, mut rng: fastrand::Rng) {
    // Everybody at once would be a stampede, and only that.
    tokio::time::sleep(Duration::from_millis(rng.u64(0..1000))).await;
    let mut kept = None;
    while !shared.is_over() {
        let io = match kept.take() {
            Some(io) => io,
            None => match TcpStream::connect(gateway).await {
                Ok(io) => io,
                Err(error) => {
                    shared.wrong(format!("the gateway does not accept: {error}"));
                    return;
                }
            },
        };
        let served;
        (kept, served) = call(&shared, io, &mut rng).await;
        // Whoever was refused comes back later, as a client library does.
        let rest = if served { rng.u64(0..200) } else { rng.u64(300..1500) };
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(rest)) => {}
            () = shared.over() => {}
        }
    }
}

/// One call. Gives the connection back where it may carry another, and whether there was an answer.
async fn call(shared: &Shared, mut io: TcpStream, rng: &mut fastrand::Rng) -> (Option<TcpStream>, bool) {
    let stream = rng.u8(..4) > 0;
    let patience = (rng.u8(..5) == 0).then(|| Duration::from_millis(rng.u64(0..2500)));
    let route = rng.choice(["all", "pair", "held"]).expect("three");
    let body = json!({"model": route, "stream": stream, "messages": [{"role": "user", "content": "hi"}]})
        .to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut got = Vec::with_capacity(4096);
    let mut reply = Reply::default();
    let talk = async {
        if io.write_all(request.as_bytes()).await.is_err() {
            return;
        }
        while !reply.whole {
            if io.read_buf(&mut got).await.unwrap_or(0) == 0 {
                return;
            }
            let may_be_whole =
                got.ends_with(b"\r\n0\r\n\r\n") || !got.windows(9).any(|w| w == b"\r\n\r\ndata:");
            if may_be_whole {
                reply = Reply::read(&got);
            }
        }
    };
    let left = tokio::time::timeout(patience.unwrap_or(FOR_GOOD), talk).await.is_err();
    if left && patience.is_none() {
        shared.wrong(format!("no end after {FOR_GOOD:?}"));
    }
    if !reply.whole {
        reply = Reply::read(&got);
    }
    for what in wrong_with(&reply, stream, left, |mark| shared.marks.pieces(mark)) {
        shared.wrong(format!("{what}: {} {}", reply.head, String::from_utf8_lossy(&reply.body)));
    }
    shared.count(match reply.status {
        _ if left => "left",
        200 if stream && Seen::read(&reply.body).error.is_some() => "broken",
        200 => "complete",
        500 => {
            shared.wrong(format!("a 500: {}", String::from_utf8_lossy(&reply.body)));
            "refused"
        }
        _ => "refused",
    });
    let stays = !left && reply.whole && reply.header("connection") != Some("close");
    (stays.then_some(io), reply.status == 200)
}
