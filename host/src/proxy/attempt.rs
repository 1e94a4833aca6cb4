//! One exchange with one target, up to the moment it can be shown: a stream with its first content or held to
//! its end, or a whole answer. The caller cuts it off, and reads from [`Progress`] how far it had come; the
//! one clock in here is that of the gaps in a held stream.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use sluice_core::facts::Usage;
use sluice_core::kind::{Stage, TransportError};
use sluice_core::lens::chat::{self, Answer};
use sluice_core::lens::error::ProviderError;
use sluice_core::stream::{ChatStream, End, Rules};

use super::fault::Fault;
use super::request::Outgoing;
use crate::clock;
use crate::config::Limits;
use crate::upstream::{Exchange, ExchangeError, UpstreamBody};

/// How far an attempt has come, for whoever cuts it off.
#[derive(Debug, Default)]
pub(super) struct Progress {
    reached: AtomicU16,
    content: AtomicBool,
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

/// The bounds of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds<'a> {
    /// In bytes.
    pub limits: &'a Limits,
    /// Of a stream.
    pub rules: Rules,
    /// Largest gap between content events of a stream that is held to its end.
    pub idle: Option<Duration>,
    /// Longest wait of an upstream that is believed.
    pub wait_max: Duration,
}

/// Makes the exchange.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn run(
    outgoing: &Outgoing<'_>,
    bounds: Bounds<'_>,
    progress: &Progress,
) -> Result<Ready, Fault> {
    let Bounds { limits, rules, idle, wait_max } = bounds;
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
    let answer = if outgoing.streaming {
        stream(body, rules, idle, progress).await
    } else {
        whole(body, limits.answer).await.map(|answer| (answer, None))
    };
    match answer {
        Ok((answer, first_content)) => Ok(Ready { headers: head.headers, status, first_content, answer }),
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

/// Reads an error body up to a bound. What is over the bound is not read: the connection is closed.
async fn error_body(body: &mut UpstreamBody, limit: u64) -> (Bytes, Option<ProviderError>) {
    let mut read = BytesMut::new();
    while let Some(Ok(data)) = body.data().await {
        let room = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(read.len());
        read.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() >= room {
            break;
        }
    }
    let error = ProviderError::find(&read);
    (read.freeze(), error)
}

/// Reads a stream until it commits: at its first content, or, held, at its good end.
async fn stream(
    mut body: UpstreamBody,
    rules: Rules,
    idle: Option<Duration>,
    progress: &Progress,
) -> Result<(ReadyAnswer, Option<Instant>), Fault> {
    let mut stream = Box::new(ChatStream::new(rules));
    let mut broken = None;
    let mut first_content = None;
    let mut contents = 0;
    let mut last = clock::now();
    loop {
        let gap = idle.filter(|_| first_content.is_some()).map(|idle| last + idle);
        let end = match next(&mut body, gap).await {
            Heard::Data(data) => stream.push(data),
            Heard::Broken(class) => {
                broken = Some(class);
                Some(stream.body_ended(false))
            }
            Heard::End => Some(stream.body_ended(true)),
            // Once every answer has its finish reason, only the end marker is missing.
            Heard::Nothing if stream.finished() => Some(stream.body_ended(false)),
            Heard::Nothing => {
                return Err(Fault { transport: Some(TransportError::Timeout), ..Fault::new(Stage::Body) });
            }
        };
        if stream.content_events() > contents {
            contents = stream.content_events();
            last = clock::now();
            first_content.get_or_insert(last);
            progress.content.store(true, Ordering::Relaxed);
        }
        if stream.committed() {
            return Ok((ReadyAnswer::Stream { body, stream, end }, first_content));
        }
        let Some(end) = end else { continue };
        let fault = Fault::new(if contents > 0 { Stage::Body } else { Stage::FirstEvent });
        return Err(match end {
            End::Error(error) => Fault { error: Some(*error), ..fault },
            End::TooLarge => Fault { transport: Some(TransportError::Protocol), ..fault },
            End::Well | End::Cut { .. } | End::Empty | End::Malformed => Fault { transport: broken, ..fault },
        });
    }
}

/// What comes next of a body.
enum Heard {
    Data(Bytes),
    Broken(TransportError),
    End,
    /// Nothing, for too long.
    Nothing,
}

async fn next(body: &mut UpstreamBody, until: Option<Instant>) -> Heard {
    let data = match until {
        None => body.data().await,
        Some(until) => match tokio::time::timeout_at(until.into(), body.data()).await {
            Ok(data) => data,
            Err(_) => return Heard::Nothing,
        },
    };
    match data {
        Some(Ok(data)) => Heard::Data(data),
        Some(Err(error)) => Heard::Broken(crate::upstream::http_class(&error)),
        None => Heard::End,
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
