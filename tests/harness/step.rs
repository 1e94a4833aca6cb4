//! The words of a script, named as the cases name them.
//!
//! A script is a list of steps. A body step without a head before it brings the head of an event
//! stream; a script that simply ends, ends its body properly. Times are those of the case and are
//! stretched by the scale of the upstream that plays.
#![allow(
    non_snake_case,
    reason = "the cases write their steps in capitals, and the tests read like the cases"
)]

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

/// One step of a scripted peer.
#[derive(Debug, Clone)]
pub enum Step {
    /// Status line and headers. Chunked, unless the headers have a `content-length`.
    Head { status: u16, headers: Vec<(String, String)> },
    /// The head of an event stream.
    EventStream,
    /// A chat chunk; id, model and the like are the upstream's own.
    Chunk { choices: Value, more: Value },
    /// The role, and empty content.
    Role,
    /// No choices, and how many tokens it was.
    Usage,
    /// Bytes of the body, as they are.
    Body(Bytes),
    /// Bytes on the wire, outside of any framing.
    Wire(Bytes),
    /// A step in pieces of so many bytes with a pause between them.
    Split { step: Box<Step>, size: usize, pause: Duration },
    /// The scripted pause of a peer.
    Sleep(Duration),
    /// Waits until the test opens the latch.
    Hold(Latch),
    /// Proper end of body.
    End,
    /// Orderly TCP close without a proper end of body.
    Cut,
    /// TCP reset.
    Reset,
    /// Nothing more until the gateway closes.
    Silent,
    /// The healthy answer in the form the request asked for.
    Healthy,
}

/// Holds scripts at one place until the test lets them go on, so that no test has to guess how long that
/// takes.
#[derive(Debug, Clone)]
pub struct Latch(watch::Sender<bool>);

impl Latch {
    /// A closed one.
    #[must_use]
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Lets go on whoever waits, or will come to wait.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) async fn opened(&self) {
        // The sender is ours, so that the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

/// A list of steps.
#[derive(Debug, Clone, Default)]
pub struct Script(pub Vec<Step>);

impl From<Step> for Script {
    fn from(step: Step) -> Self {
        Self(vec![step])
    }
}

impl From<Vec<Step>> for Script {
    fn from(steps: Vec<Step>) -> Self {
        Self(steps)
    }
}

impl<const N: usize> From<[Step; N]> for Script {
    fn from(steps: [Step; N]) -> Self {
        Self(steps.into())
    }
}

/// The role delta.
pub const ROLE: Step = Step::Role;
/// The usage chunk.
pub const USAGE: Step = Step::Usage;
/// `OK(X)`.
pub const OK: Step = Step::Healthy;
/// Proper end of the body.
pub const END: Step = Step::End;
/// Orderly close without the terminating chunk.
pub const CUT: Step = Step::Cut;
/// TCP reset.
pub const RST: Step = Step::Reset;
/// Nothing more, with the connection open.
pub const SILENT: Step = Step::Silent;
/// `data: [DONE]`.
pub const DONE: Step = Step::Body(Bytes::from_static(b"data: [DONE]\n\n"));

/// The head of an event stream; only needed where a pause or the end follows at once.
pub const SSE: Step = Step::EventStream;

/// Status and headers.
#[must_use]
pub fn HEAD(status: u16, headers: &[(&str, &str)]) -> Step {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Step::Head { status, headers }
}

/// A whole answer with a body and its length.
#[must_use]
pub fn ANSWER(status: u16, content_type: &str, body: impl Into<Bytes>) -> Script {
    WITH(status, &[("content-type", content_type)], body)
}

/// A whole answer with these headers, a body and its length.
#[must_use]
pub fn WITH(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Script {
    let body = body.into();
    let length = body.len().to_string();
    let headers: Vec<_> = headers.iter().copied().chain([("content-length", length.as_str())]).collect();
    Script(vec![HEAD(status, &headers), Step::Body(body), END])
}

/// A whole JSON answer.
#[must_use]
pub fn JSON(status: u16, body: &Value) -> Script {
    ANSWER(status, "application/json", body.to_string())
}

/// An error status with a small error object.
#[must_use]
pub fn STATUS(status: u16) -> Script {
    JSON(status, &json!({"error": {"message": "m", "type": "t", "code": null}}))
}

/// 429 with these headers, say `retry-after`.
#[must_use]
pub fn LIMITED(headers: &[(&str, &str)]) -> Script {
    let error = json!({"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}});
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", "application/json")]).collect();
    WITH(429, &headers, error.to_string())
}

/// A chunk with this delta.
#[must_use]
pub fn DELTA(delta: &Value) -> Step {
    CHOICES(&json!([{"index": 0, "delta": delta, "finish_reason": null}]))
}

/// A chunk with these choices.
#[must_use]
pub fn CHOICES(choices: &Value) -> Step {
    Step::Chunk { choices: choices.clone(), more: json!({}) }
}

/// Content.
#[must_use]
pub fn TXT(text: &str) -> Step {
    DELTA(&json!({"content": text}))
}

/// A finish reason with an empty delta.
#[must_use]
pub fn FIN(reason: &str) -> Step {
    CHOICES(&json!([{"index": 0, "delta": {}, "finish_reason": reason}]))
}

/// An error object in the stream.
#[must_use]
pub fn ERR(code: impl Into<Value>) -> Step {
    ERR_OF("t", code)
}

/// An error object of this type in the stream.
#[must_use]
pub fn ERR_OF(kind: &str, code: impl Into<Value>) -> Step {
    EVENT(&json!({"error": {"message": "m", "type": kind, "code": code.into()}}))
}

/// One event with this JSON.
#[must_use]
pub fn EVENT(data: &Value) -> Step {
    RAW(format!("data: {data}\n\n"))
}

/// A comment and a blank line.
#[must_use]
pub fn CMT(text: &str) -> Step {
    RAW(format!(": {text}\n\n"))
}

/// Bytes of the body.
#[must_use]
pub fn RAW(bytes: impl Into<Bytes>) -> Step {
    Step::Body(bytes.into())
}

/// Bytes on the wire, framing and head included.
#[must_use]
pub fn WIRE(bytes: impl Into<Bytes>) -> Step {
    Step::Wire(bytes.into())
}

/// A pause of so many milliseconds.
#[must_use]
pub fn SLEEP(millis: u64) -> Step {
    Step::Sleep(Duration::from_millis(millis))
}

/// Nothing more until the test opens the latch.
#[must_use]
pub fn HOLD(latch: &Latch) -> Step {
    Step::Hold(latch.clone())
}

/// A step in pieces of `size` bytes, `millis` apart.
#[must_use]
pub fn SPLIT(step: Step, size: usize, millis: u64) -> Step {
    Step::Split { step: Box::new(step), size, pause: Duration::from_millis(millis) }
}

/// Scripts one after the other as one.
#[must_use]
pub fn JOIN<const N: usize>(parts: [Script; N]) -> Script {
    Script(parts.into_iter().flat_map(|part| part.0).collect())
}
