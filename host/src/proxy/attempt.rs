//! One exchange with one target, up to the moment it can be shown: a stream with its first content or held to
//! its end, or a whole answer. Knows no clock but that of an error's body; the caller cuts it off, and reads from
//! [`Progress`] how far it had come. How an answer is read is in `answer`.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use sluice_core::facts::Usage;
use sluice_core::kind::{Stage, TransportError};
use sluice_core::lens::error::ProviderError;
use sluice_core::lens::wire::Wire;
use sluice_core::stream::{ChatStream, End, Rules};

use super::answer;
use super::fault::Fault;
use super::request::Outgoing;
use crate::config::Limits;
use crate::upstream::{BodyError, Exchange, ExchangeError, UpstreamBody};

/// How far an attempt has come, for whoever cuts it off.
#[derive(Debug, Default)]
pub(super) struct Progress {
    reached: AtomicU16,
    content: AtomicBool,
    finished: AtomicBool,
    enough: AtomicBool,
}

impl Progress {
    const SENT: u16 = 1;

    fn sent(&self) {
        self.reached.store(Self::SENT, Ordering::Relaxed);
    }

    fn head(&self, status: u16) {
        self.reached.store(status, Ordering::Relaxed);
    }

    /// Status of the upstream, once the head has come.
    pub fn status(&self) -> Option<u16> {
        Some(self.reached.load(Ordering::Relaxed)).filter(|status| *status > Self::SENT)
    }

    /// Content has come, of a stream that is held to its end.
    pub fn content(&self) -> bool {
        self.content.load(Ordering::Relaxed)
    }

    /// Notes that content has come.
    pub fn content_came(&self) {
        self.content.store(true, Ordering::Relaxed);
    }

    /// Notes that a stream has its last finish reason.
    pub fn finished(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }

    /// What is still missing changes nothing any more: the answer is finished, or it is an error.
    pub fn is_decided(&self) -> bool {
        let is_error = |status| !(200..300).contains(&status);
        self.finished.load(Ordering::Relaxed) || self.status().is_some_and(is_error)
    }

    /// Nothing more is waited for. Whoever says so polls the attempt once more, which then ends with what has come.
    pub fn is_enough(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }

    /// The next data of a body; none: what has come is enough.
    pub async fn data(&self, body: &mut UpstreamBody) -> Option<Option<Result<Bytes, BodyError>>> {
        std::future::poll_fn(|cx| match body.poll_data(cx) {
            Poll::Pending if self.enough.load(Ordering::Relaxed) => Poll::Ready(None),
            polled => polled.map(Some),
        })
        .await
    }

    /// The stage that is running.
    pub fn stage(&self, streaming: bool) -> Stage {
        match self.reached.load(Ordering::Relaxed) {
            0 => Stage::Connect,
            Self::SENT => Stage::Head,
            200..300 if streaming && !self.content() => Stage::FirstEvent,
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
    /// When the first content came, of a stream.
    pub first_content: Option<Instant>,
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

/// What an answer is to be, and the bounds it is held to.
pub(super) struct Expected {
    /// The wire format.
    pub wire: Wire,
    /// The client wants a stream.
    pub streaming: bool,
    /// The client wants usage in the stream.
    pub usage_asked: bool,
    /// Bounds and rules of a stream.
    pub rules: Rules,
    /// Bounds in bytes.
    pub limits: Limits,
    /// Largest gap between content events of a stream that is held to its end, and longest wait for the end marker.
    pub idle: Option<Duration>,
    /// Waits that the upstream asks for are read up to this.
    pub wait_max: Duration,
}

/// Makes the exchange.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn run(
    outgoing: &Outgoing<'_>,
    expected: &Expected,
    progress: &Progress,
) -> Result<Ready, Fault> {
    let sent = outgoing.client.exchange(outgoing.begun, outgoing.connect, outgoing.line, || {
        progress.sent();
        outgoing.request()
    });
    let Exchange { head, mut body } = sent.await.map_err(|error| transport_fault(&error))?;
    let status = head.status.as_u16();
    progress.head(status);
    let wait_max = expected.wait_max;
    let readable = body.decode(&head.headers);
    if let Err(error) = &readable {
        tracing::warn!(%error, status, "the answer of an upstream cannot be read");
    }
    if !head.status.is_success() {
        let (text, error) = match readable {
            Ok(()) => error_body(&mut body, expected.limits.error_body, progress).await,
            Err(_) => (Bytes::new(), None),
        };
        return Err(error_fault(status, &head.headers, &text, error, wait_max));
    }
    let answer = match readable {
        Ok(()) => answer::read(body, expected, outgoing.line, progress).await,
        Err(_) => Err(Fault { transport: Some(TransportError::Protocol), ..Fault::new(Stage::Head) }),
    };
    match answer {
        Ok((answer, first_content)) => Ok(Ready { headers: head.headers, status, first_content, answer }),
        Err(fault) => Err(Fault { status: Some(status), ..fault }.with_headers(&head.headers, wait_max)),
    }
}

/// The fault of an answer that is an HTTP error.
pub(super) fn error_fault(
    status: u16,
    headers: &HeaderMap,
    text: &Bytes,
    error: Option<ProviderError>,
    wait_max: Duration,
) -> Fault {
    let fault = Fault { status: Some(status), error, ..Fault::new(Stage::Body) };
    fault.with_body(text, headers, wait_max)
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
async fn error_body(
    body: &mut UpstreamBody,
    limit: u64,
    progress: &Progress,
) -> (Bytes, Option<ProviderError>) {
    let room = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut read = BytesMut::new();
    let reading = async {
        while let Some(Some(Ok(data))) = progress.data(body).await {
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

#[cfg(test)]
mod tests;
