//! One exchange with one target, up to the moment it can be shown: a stream with its first content, or a
//! whole answer. Knows no clock but that of an error's body; the caller cuts it off, and reads from [`Progress`] how
//! far it had come.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use sluice_core::facts::Usage;
use sluice_core::kind::{Stage, TransportError};
use sluice_core::lens::chat::{self, Answer};
use sluice_core::lens::error::ProviderError;
use sluice_core::stream::{ChatStream, End, Rules};

use super::fault::Fault;
use super::request::Outgoing;
use crate::config::Limits;
use crate::upstream::{Exchange, ExchangeError, UpstreamBody};

/// How far an attempt has come, for whoever cuts it off.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU16);

impl Progress {
    const SENT: u16 = 1;

    fn sent(&self) {
        self.0.store(Self::SENT, Ordering::Relaxed);
    }

    fn head(&self, status: u16) {
        self.0.store(status, Ordering::Relaxed);
    }

    /// Status of the upstream, once the head has come.
    pub fn status(&self) -> Option<u16> {
        Some(self.0.load(Ordering::Relaxed)).filter(|status| *status > Self::SENT)
    }

    /// The stage that is running.
    pub fn stage(&self, streaming: bool) -> Stage {
        match self.0.load(Ordering::Relaxed) {
            0 => Stage::Connect,
            Self::SENT => Stage::Head,
            200..300 if streaming => Stage::FirstEvent,
            _ => Stage::Body,
        }
    }
}

/// An attempt that can be shown.
pub(super) struct Ready {
    /// Headers of the upstream's answer.
    pub headers: HeaderMap,
    /// Status of the upstream's answer.
    pub status: u16,
    /// What there is to show.
    pub answer: ReadyAnswer,
}

/// What there is to show.
pub(super) enum ReadyAnswer {
    /// A stream that has committed.
    Stream {
        /// The rest of the upstream's body.
        body: UpstreamBody,
        /// The events so far.
        stream: Box<ChatStream>,
        /// The stream is over already.
        end: Option<End>,
    },
    /// A whole answer.
    Whole {
        /// Its bytes.
        body: Bytes,
        /// Usage it carries.
        usage: Option<Usage>,
        /// Bytes of text in it.
        text: usize,
    },
}

/// Makes the exchange. Waits that the upstream asks for are read up to `wait_max`.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn run(
    outgoing: &Outgoing<'_>,
    limits: &Limits,
    rules: Rules,
    wait_max: Duration,
    progress: &Progress,
) -> Result<Ready, Fault> {
    let sent = outgoing.client.exchange(outgoing.connect, outgoing.line, || {
        progress.sent();
        outgoing.request()
    });
    let Exchange { head, mut body } = sent.await.map_err(|error| transport_fault(&error))?;
    let status = head.status.as_u16();
    progress.head(status);
    if !head.status.is_success() {
        let (text, error) = error_body(&mut body, limits.error_body).await;
        return Err(Fault { status: Some(status), error, ..Fault::new(Stage::Body) }.with_body(
            &text,
            &head.headers,
            wait_max,
        ));
    }
    let answer =
        if outgoing.streaming { first_content(body, rules).await } else { whole(body, limits.answer).await };
    match answer {
        Ok(answer) => Ok(Ready { headers: head.headers, status, answer }),
        Err(fault) => Err(Fault { status: Some(status), ..fault }.with_headers(&head.headers, wait_max)),
    }
}

fn transport_fault(error: &ExchangeError) -> Fault {
    let stage = match error {
        ExchangeError::Connect(_) => Stage::Connect,
        ExchangeError::Send(_) => Stage::Head,
    };
    Fault { transport: Some(error.class()), ..Fault::new(stage) }
}

/// An error is known by its status; its body may take this long to say more.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(1);

/// Reads an error body up to a bound, for a moment. What is over either is not read: the connection is closed.
async fn error_body(body: &mut UpstreamBody, limit: u64) -> (Bytes, Option<ProviderError>) {
    let room = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut read = BytesMut::new();
    let reading = async {
        while let Some(Ok(data)) = body.data().await {
            let more = data.len().min(room - read.len());
            read.extend_from_slice(&data[..more]);
            if read.len() >= room {
                break;
            }
        }
    };
    // Late or not, what has come is judged.
    let _ = tokio::time::timeout(ERROR_BODY_WAIT, reading).await;
    let error = ProviderError::find(&read);
    (read.freeze(), error)
}

async fn first_content(mut body: UpstreamBody, rules: Rules) -> Result<ReadyAnswer, Fault> {
    let mut stream = Box::new(ChatStream::new(rules));
    let mut broken = None;
    loop {
        let end = match body.data().await {
            Some(Ok(data)) => stream.push(data),
            Some(Err(error)) => {
                broken = Some(crate::upstream::http_class(&error));
                Some(stream.body_ended(false))
            }
            None => Some(stream.body_ended(true)),
        };
        if stream.committed() {
            return Ok(ReadyAnswer::Stream { body, stream, end });
        }
        match end {
            None => {}
            Some(End::Error(error)) => {
                return Err(Fault { error: Some(*error), ..Fault::new(Stage::FirstEvent) });
            }
            Some(End::TooLarge) => {
                return Err(Fault {
                    transport: Some(TransportError::Protocol),
                    ..Fault::new(Stage::FirstEvent)
                });
            }
            Some(End::Well | End::Cut { .. } | End::Empty | End::Malformed) => {
                return Err(Fault { transport: broken, ..Fault::new(Stage::FirstEvent) });
            }
        }
    }
}

async fn whole(mut body: UpstreamBody, limit: u64) -> Result<ReadyAnswer, Fault> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let fault = || Fault::new(Stage::Body);
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(|e| Fault { transport: Some(crate::upstream::http_class(&e)), ..fault() })?;
        if first.len() + more.len() + data.len() > limit {
            return Err(Fault { transport: Some(TransportError::Protocol), ..fault() });
        }
        if first.is_empty() {
            first = data;
        } else {
            more.extend_from_slice(&data);
        }
    }
    let body = if more.is_empty() {
        first
    } else {
        let mut all = BytesMut::with_capacity(first.len() + more.len());
        all.extend_from_slice(&first);
        all.extend_from_slice(&more);
        all.freeze()
    };
    match chat::read_answer(&body) {
        Answer::Completion { usage, text } => Ok(ReadyAnswer::Whole { body, usage, text }),
        Answer::Error(error) => Err(Fault { error: Some(*error), ..fault() }),
        Answer::NotACompletion => Err(fault()),
    }
}

#[cfg(test)]
mod tests;
