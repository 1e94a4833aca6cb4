//! Reading an answer up to the moment it can be shown, in whichever form it comes: a stream with its first
//! content, or a whole answer.
//!
//! An answer in the other form than the client asked for is turned into that one. Its bytes decide which
//! form it has. What may be in memory of it is bounded by `limits.answer`, on decoded bytes.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use sluice_core::kind::{Stage, TransportError};
use sluice_core::lens::chat::Answer;
use sluice_core::lens::fold::fold;
use sluice_core::lens::form::{Form, form};
use sluice_core::lens::unfold::unfold;
use sluice_core::stream::{ChatStream, End, Rules};

use super::attempt::{Expected, ReadyAnswer};
use super::fault::Fault;
use crate::clock;
use crate::upstream::{BodyError, Line, UpstreamBody};

/// How long the end marker of a gathered stream is waited for once every answer has its finish reason: only
/// usage can still come, and the client waits for it too.
const AFTER_FINISH: Duration = Duration::from_secs(1);
/// Most white space before an answer.
const BLANK_MAX: usize = 64 << 10;

/// Reads the answer. `line` is let go as soon as nothing of a gathered stream is waited for any more.
pub(super) async fn read(
    mut body: UpstreamBody,
    expected: &Expected,
    line: &Line,
) -> Result<ReadyAnswer, Fault> {
    let reader = Reader { expected };
    let (first, found) =
        if expected.wire.streams() { reader.look(&mut body).await? } else { (Bytes::new(), Form::Document) };
    match (found, expected.streaming) {
        (Form::Events, true) => reader.first_content(body, first).await,
        (Form::Document, false) => {
            let bytes = reader.whole(&mut body, first).await?;
            reader.judge(bytes).map_err(|fault| *fault)
        }
        (Form::Document, true) => reader.unfolded(body, first).await,
        (Form::Events, false) => reader.folded(body, first, line).await,
    }
}

struct Reader<'a> {
    expected: &'a Expected,
}

impl Reader<'_> {
    fn fault(&self) -> Fault {
        Fault::new(if self.expected.streaming { Stage::FirstEvent } else { Stage::Body })
    }

    fn broken(&self, class: TransportError) -> Fault {
        Fault { transport: Some(class), ..self.fault() }
    }

    /// Reads until the form shows itself.
    async fn look(&self, body: &mut UpstreamBody) -> Result<(Bytes, Form), Fault> {
        let mut seen = Bytes::new();
        while let Some(data) = body.data().await {
            let data = data.map_err(|error| self.broken(error.class()))?;
            seen = if seen.is_empty() { data } else { [&seen[..], &data[..]].concat().into() };
            if let Some(found) = form(&seen) {
                return Ok((seen, found));
            }
            if seen.len() > BLANK_MAX {
                break;
            }
        }
        Ok((seen, Form::Events))
    }

    /// A stream up to its first content.
    async fn first_content(&self, mut body: UpstreamBody, first: Bytes) -> Result<ReadyAnswer, Fault> {
        let mut stream = Box::new(ChatStream::new(self.expected.rules));
        let mut came = Some(Ok(first));
        loop {
            let (end, broken) = feed(&mut stream, came);
            if stream.committed() {
                return Ok(ReadyAnswer::Stream { body, stream, end });
            }
            if let Some(end) = end {
                return Err(self.ended(end, broken));
            }
            came = body.data().await;
        }
    }

    /// A stream that ended before it could be shown.
    fn ended(&self, end: End, broken: Option<TransportError>) -> Fault {
        match end {
            End::Error(error) => Fault { error: Some(*error), ..self.fault() },
            End::TooLarge => self.broken(TransportError::Protocol),
            End::Well | End::Cut { .. } | End::Empty | End::Malformed => {
                Fault { transport: broken, ..self.fault() }
            }
        }
    }

    /// A whole body.
    async fn whole(&self, body: &mut UpstreamBody, mut first: Bytes) -> Result<Bytes, Fault> {
        let limit = usize::try_from(self.expected.limits.answer).unwrap_or(usize::MAX);
        let mut more = BytesMut::new();
        while let Some(data) = body.data().await {
            let data = data.map_err(|error| self.broken(error.class()))?;
            if first.len() + more.len() + data.len() > limit {
                return Err(self.broken(TransportError::Protocol));
            }
            if first.is_empty() {
                first = data;
            } else {
                more.extend_from_slice(&data);
            }
        }
        if first.len() > limit {
            return Err(self.broken(TransportError::Protocol));
        }
        Ok(if more.is_empty() { first } else { [&first[..], &more[..]].concat().into() })
    }

    /// A whole answer, if the bytes are one.
    fn judge(&self, body: Bytes) -> Result<ReadyAnswer, Box<Fault>> {
        match self.expected.wire.read_answer(&body) {
            Answer::Completion { usage, text } => Ok(ReadyAnswer::Whole { body, usage, text }),
            Answer::Error(error) => Err(Box::new(Fault { error: Some(*error), ..self.fault() })),
            Answer::NotACompletion => Err(Box::new(self.fault())),
        }
    }

    /// A whole answer as the stream that was asked for.
    async fn unfolded(&self, mut body: UpstreamBody, first: Bytes) -> Result<ReadyAnswer, Fault> {
        let whole = self.whole(&mut body, first).await?;
        self.judge(whole.clone()).map_err(|fault| *fault)?;
        let events = unfold(&whole, self.expected.wire).ok_or_else(|| self.fault())?;
        let rules = self.expected.rules;
        let mut stream = Box::new(ChatStream::new(Rules {
            // Its size was held against the limit of whole answers.
            event_max: usize::MAX,
            hide_usage: rules.hide_usage || !self.expected.usage_asked,
            ..rules
        }));
        match stream.push(events) {
            Some(end) if stream.committed() => Ok(ReadyAnswer::Stream { body, stream, end: Some(end) }),
            _ => Err(self.fault()),
        }
    }

    /// A stream as the whole answer that was asked for.
    async fn folded(&self, mut body: UpstreamBody, first: Bytes, line: &Line) -> Result<ReadyAnswer, Fault> {
        let limit = usize::try_from(self.expected.limits.answer).unwrap_or(usize::MAX);
        let mut stream = ChatStream::new(Rules { hide_usage: false, ..self.expected.rules });
        let mut events = BytesMut::new();
        let mut finished_at = None;
        let mut came = Some(Ok(first));
        let (end, broken) = loop {
            let (end, broken) = feed(&mut stream, came);
            events.extend_from_slice(&stream.take_output());
            if events.len() > limit {
                return Err(self.broken(TransportError::Protocol));
            }
            if let Some(end) = end {
                break (end, broken);
            }
            came = if stream.finished() {
                let until = *finished_at.get_or_insert_with(clock::now) + AFTER_FINISH;
                match tokio::time::timeout_at(until.into(), body.data()).await {
                    Ok(next) => next,
                    Err(_) => break (stream.body_ended(false), None),
                }
            } else {
                body.data().await
            };
        };
        if end != End::Well {
            return Err(self.ended(end, broken));
        }
        events.extend_from_slice(&stream.take_output());
        line.let_go();
        body.finish_aside(());
        let whole = fold(events.freeze(), self.expected.wire).ok_or_else(|| self.fault())?;
        self.judge(whole).map_err(|fault| *fault)
    }
}

/// Gives a stream what came of its body; none is the proper end. Also tells what broke the connection.
fn feed(
    stream: &mut ChatStream,
    came: Option<Result<Bytes, BodyError>>,
) -> (Option<End>, Option<TransportError>) {
    match came {
        Some(Ok(data)) => (stream.push(data), None),
        Some(Err(error)) => (Some(stream.body_ended(false)), Some(error.class())),
        None => (Some(stream.body_ended(true)), None),
    }
}
