//! A provider that costs as little as possible, so that the load's core is not what is measured.
//!
//! What it answers is said by the model of the call: `json` a completion of 1 KB, `burst` 200 events of 200 bytes at
//! once, `paced` 50 events with 20 ms between them, `slow` an event each second until the client leaves, `late` a
//! completion after 10 ms, `big` a completion of 10 MB, `wide` a stream with one event of 3 MB, and `down` a 503. Events
//! of `paced` and `slow` say when they were written. HTTP/1.1, one call after the other on each connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::load::scan;
use crate::place;

/// Events of a burst, and the bytes of each.
pub const BURST: (usize, usize) = (200, 200);
/// Events of a paced stream, and what lies between two.
pub const PACED: (usize, Duration) = (50, Duration::from_millis(20));
/// What lies between two events of a slow stream.
pub const SLOW: Duration = Duration::from_secs(1);

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Answers until it is killed.
pub async fn serve() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port of its own");
    place::say(listener.local_addr().expect("it is bound"));
    let answers = Answers::new();
    let answers: &'static Answers = Box::leak(Box::new(answers));
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        connections.spawn(async move {
            // A client that goes away ends its connection, and nothing else.
            let _ = connection(stream, answers).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// The answers that are the same each time.
struct Answers {
    json: Vec<u8>,
    burst: Vec<u8>,
    big: Vec<u8>,
    wide: Vec<u8>,
    down: Vec<u8>,
}

impl Answers {
    fn new() -> Self {
        let mut burst = HEAD.as_bytes().to_vec();
        for n in 0..BURST.0 {
            burst.extend(chunk(&event(n, 0, BURST.1)));
        }
        burst.extend(end());
        let mut wide = HEAD.as_bytes().to_vec();
        wide.extend(chunk(&event(0, 0, 3 << 20)));
        wide.extend(end());
        let down = r#"{"error":{"message":"down","type":"server_error","code":null}}"#;
        Self {
            json: whole("200 OK", &completion(1024)),
            burst,
            big: whole("200 OK", &completion(10 << 20)),
            wide,
            down: whole("503 Service Unavailable", down),
        }
    }
}

fn whole(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into()
}

fn completion(bytes: usize) -> String {
    let frame = |text: &str| {
        format!(
            r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":20,"total_tokens":29}}}}"#
        )
    };
    let rest = bytes - frame("").len();
    frame(&"word ".repeat(rest / 5 + 1)[..rest])
}

/// An event of exactly `bytes`, and of its frame if that is more. `at` is when it is written, in nanoseconds.
fn event(n: usize, at: u128, bytes: usize) -> String {
    let frame = |text: &str| {
        format!(
            "data: {{\"id\":\"c{n}\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"@{at}@{text}\"}},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let rest = bytes.saturating_sub(frame("").len());
    frame(&"x".repeat(rest))
}

fn chunk(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into()
}

fn end() -> Vec<u8> {
    let finish = r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let mut end = chunk(&format!("{finish}\n\n"));
    end.extend(chunk("data: [DONE]\n\n"));
    end.extend(b"0\r\n\r\n");
    end
}

async fn connection(mut stream: TcpStream, answers: &Answers) -> std::io::Result<()> {
    let mut read = Vec::with_capacity(16 << 10);
    loop {
        let (head, length) = loop {
            if let Some(head) = scan::head_end(&read) {
                break (head, scan::content_length(&read[..head]).unwrap_or(0));
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        };
        while read.len() < head + length {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        let model = model(&read[head..head + length]).unwrap_or("json").to_owned();
        read.drain(..head + length);
        match model.as_str() {
            "burst" => stream.write_all(&answers.burst).await?,
            "big" => stream.write_all(&answers.big).await?,
            "wide" => stream.write_all(&answers.wide).await?,
            "down" => stream.write_all(&answers.down).await?,
            "late" => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                stream.write_all(&answers.json).await?;
            }
            "paced" => paced(&mut stream).await?,
            "slow" => slow(&mut stream).await?,
            _ => stream.write_all(&answers.json).await?,
        }
    }
}

/// The value of the member `model`, wherever it stands. Our own load writes it, and gateways that change it write JSON.
fn model(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("\"model\":")?;
    rest.trim_start().strip_prefix('"')?.split('"').next()
}

async fn paced(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(HEAD.as_bytes()).await?;
    let mut ticks = tokio::time::interval_at((harness::now() + PACED.1).into(), PACED.1);
    for n in 0..PACED.0 {
        // The first at once: a timer that is due would still take until the next millisecond.
        if n > 0 {
            ticks.tick().await;
        }
        stream.write_all(&chunk(&event(n, place::nanoseconds(), 200))).await?;
    }
    stream.write_all(&end()).await
}

async fn slow(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(HEAD.as_bytes()).await?;
    let mut ticks = tokio::time::interval(SLOW);
    let mut n = 0;
    loop {
        ticks.tick().await;
        stream.write_all(&chunk(&event(n, place::nanoseconds(), 200))).await?;
        n += 1;
    }
}
