//! One connection of a scripted upstream: reads requests, plays scripts, and keeps watching what the
//! gateway does meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::now;
use crate::peer::{Peer, Stream};
use crate::step::{DONE, FIN, JSON, ROLE, Script, Step, TXT};
use crate::upstream::{Attempt, How, Shared};

/// The longest silence: no test waits so long.
const SILENCE: Duration = Duration::from_secs(120);

/// Serves one connection to its end.
pub(crate) async fn serve(stream: TcpStream, shared: Arc<Shared>, tls: Option<TlsAcceptor>) {
    let stream = match tls {
        None => Stream::Plain(stream),
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => Stream::Tls(Box::new(stream.into())),
            // A client that does not trust us is the point of some tests.
            Err(_) => return,
        },
    };
    let id = shared.connected();
    let mut peer = Peer::new(stream);
    let mut reused = false;
    loop {
        let request = match shared.idle_close().filter(|_| reused) {
            None => peer.request().await,
            Some(idle) => match tokio::time::timeout(idle, peer.request()).await {
                Ok(request) => request,
                Err(_) => return peer.cut().await,
            },
        };
        let Ok(Some((head, body))) = request else {
            return;
        };
        // What the gateway closed before it sent this is noticed first, or it would seem to run at once.
        tokio::task::yield_now().await;
        let attempt = Attempt { n: 0, at: now(), head, body, connection: id, reused, over: None, written: 0 };
        reused = true;
        if !exchange(&mut peer, attempt, &shared).await {
            return;
        }
    }
}

/// Plays one exchange; true when the connection may carry another.
async fn exchange(peer: &mut Peer, attempt: Attempt, shared: &Shared) -> bool {
    let wants_stream = attempt.json()["stream"] == true;
    let model = attempt.model();
    let probe = attempt.method() == "GET";
    let (n, script) = if probe {
        let scripted = shared.probe(attempt);
        (None, scripted.unwrap_or_else(|| JSON(200, &json!({"object": "list", "data": []}))))
    } else {
        let (n, script) = shared.begin(attempt);
        (Some(n), script)
    };
    let mut play = Play { peer, shared, n, model, body: Framing::None, close: false };
    let mut outcome = Ok(Next::Go);
    for step in expand(script, wants_stream) {
        outcome = play.step(&step).await;
        if !matches!(outcome, Ok(Next::Go)) {
            break;
        }
    }
    if matches!(outcome, Ok(Next::Go)) {
        outcome = play.end().await;
    }
    let again = matches!(outcome, Ok(Next::Go)) && !play.close;
    let how = match outcome {
        Ok(_) => How::Finished,
        Err(how) => how,
    };
    if matches!(outcome, Ok(Next::Cut)) {
        play.peer.cut().await;
    } else if matches!(outcome, Ok(Next::Reset)) {
        play.peer.reset_on_close();
    }
    if let Some(n) = n {
        shared.over(n, how);
    }
    again
}

/// `OK` in the form the request asked for.
fn expand(script: Script, wants_stream: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for step in script.0 {
        match step {
            Step::Healthy if wants_stream => {
                let frames = [ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE];
                let pause = Step::Sleep(Duration::from_millis(10));
                steps.extend(frames.into_iter().flat_map(|frame| [frame, pause.clone()]));
            }
            step => steps.push(step),
        }
    }
    steps
}

/// What follows a step.
enum Next {
    Go,
    Cut,
    Reset,
}

/// How the body that has begun is framed.
#[derive(Clone, Copy, PartialEq)]
enum Framing {
    None,
    Chunked,
    Length,
    Ended,
}

/// A script while it plays.
struct Play<'a> {
    peer: &'a mut Peer,
    shared: &'a Shared,
    n: Option<usize>,
    model: String,
    body: Framing,
    close: bool,
}

impl Play<'_> {
    async fn step(&mut self, step: &Step) -> Result<Next, How> {
        match step {
            Step::Head { status, headers } => self.head(*status, headers).await?,
            Step::EventStream => self.event_stream().await?,
            Step::Wire(bytes) => self.write(bytes).await?,
            Step::Sleep(pause) => self.peer.pause(self.shared.stretch(*pause)).await?,
            Step::Hold(latch) => self.peer.hold(latch).await?,
            Step::Silent => self.peer.pause(SILENCE).await?,
            Step::End => return self.end().await,
            Step::Cut => return Ok(Next::Cut),
            Step::Reset => return Ok(Next::Reset),
            Step::Healthy => {
                for step in JSON(200, &self.completion()).0 {
                    Box::pin(self.step(&step)).await?;
                }
            }
            Step::Split { step, size, pause } => {
                let bytes = self.bytes(step);
                for piece in bytes.chunks((*size).max(1)) {
                    self.body(piece).await?;
                    self.peer.pause(self.shared.stretch(*pause)).await?;
                }
            }
            Step::Role | Step::Usage | Step::Chunk { .. } | Step::Body(_) => {
                let bytes = self.bytes(step);
                self.body(&bytes).await?;
            }
        }
        Ok(Next::Go)
    }

    fn id(&self) -> String {
        format!("chatcmpl-{}", self.shared.name)
    }

    fn bytes(&self, step: &Step) -> Bytes {
        let role =
            json!([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]);
        let usage = json!({"usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}});
        let (choices, more) = match step {
            Step::Body(bytes) => return bytes.clone(),
            Step::Role => (&role, &Value::Null),
            Step::Usage => (&json!([]), &usage),
            Step::Chunk { choices, more } => (choices, more),
            other => panic!("{other:?} has no bytes of a body"),
        };
        let mut chunk = json!({
            "id": self.id(), "object": "chat.completion.chunk", "created": 1_700_000_000, "model": self.model, "choices": choices,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            chunk[name] = value.clone();
        }
        Bytes::from(format!("data: {chunk}\n\n"))
    }

    fn completion(&self) -> Value {
        json!({
            "id": self.id(), "object": "chat.completion", "created": 1_700_000_000, "model": self.model,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": crate::HEALTHY_TEXT}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
        })
    }

    async fn event_stream(&mut self) -> Result<(), How> {
        self.head(200, &[("content-type".to_owned(), "text/event-stream".to_owned())]).await
    }

    async fn head(&mut self, status: u16, headers: &[(String, String)]) -> Result<(), How> {
        let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.body = if has("content-length") { Framing::Length } else { Framing::Chunked };
        if self.body == Framing::Chunked && !has("transfer-encoding") {
            head.push_str("transfer-encoding: chunked\r\n");
        }
        self.close =
            headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("connection") && value == "close");
        head.push_str("\r\n");
        self.write(head.as_bytes()).await
    }

    async fn body(&mut self, bytes: &[u8]) -> Result<(), How> {
        if self.body == Framing::None {
            self.event_stream().await?;
        }
        if self.body != Framing::Chunked {
            return self.write(bytes).await;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.write(&chunk).await
    }

    /// The proper end of whatever body has begun.
    async fn end(&mut self) -> Result<Next, How> {
        if self.body == Framing::Chunked {
            self.write(b"0\r\n\r\n").await?;
            self.body = Framing::Ended;
        }
        Ok(Next::Go)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), How> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = self.peer.write_some(rest).await?;
            if let Some(n) = self.n {
                self.shared.wrote(n, count);
            }
            rest = &rest[count..];
        }
        self.peer.flush().await
    }
}
