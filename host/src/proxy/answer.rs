//! Reading an answer up to the moment it can be shown, in whichever form it comes: a stream with its first
//! content, or held to its end, or a whole answer.
//!
//! An answer in the other form than the client asked for is turned into that one. Its bytes decide which
//! form it has. What may be in memory of it is bounded by `limits.answer`, on decoded bytes.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use sluice_core::kind::{Stage, TransportError};
use sluice_core::lens::chat::Answer;
use sluice_core::lens::fold::fold;
use sluice_core::lens::form::{Form, form};
use sluice_core::lens::unfold::unfold;
use sluice_core::stream::{ChatStream, End, Rules};

use super::attempt::{Expected, Progress, ReadyAnswer};
use super::fault::Fault;
use crate::clock;
use crate::upstream::{Line, UpstreamBody};

/// How long the end marker of a gathered stream is waited for at most once every answer has its finish reason:
/// only usage can still come, and the client waits for it too.
const AFTER_FINISH: Duration = Duration::from_secs(1);
/// Most white space before an answer.
const BLANK_MAX: usize = 64 << 10;

/// Reads the answer. Gives also when the first content of a stream came. `line` is let go as soon as nothing of
/// a gathered stream is waited for any more.
pub(super) async fn read(
    mut body: UpstreamBody,
    expected: &Expected,
    line: &Line,
    progress: &Progress,
) -> Result<(ReadyAnswer, Option<Instant>), Fault> {
    let reader = Reader { expected };
    let (first, found) =
        if expected.wire.streams() { reader.look(&mut body).await? } else { (Bytes::new(), Form::Document) };
    match (found, expected.streaming) {
        (Form::Events, true) => reader.stream(body, first, progress).await,
        (Form::Document, false) => {
            let bytes = reader.whole(&mut body, first).await?;
            reader.judge(bytes).map(|answer| (answer, None)).map_err(|fault| *fault)
        }
        // Rare, and apart, so that the usual forms do not carry the place for it.
        (Form::Document, true) => Box::pin(reader.unfolded(body, first)).await,
        (Form::Events, false) => Ok((Box::pin(reader.folded(body, first, line, progress)).await?, None)),
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

    /// A stream until it commits: at its first content, or, held, at its good end.
    async fn stream(
        &self,
        mut body: UpstreamBody,
        first: Bytes,
        progress: &Progress,
    ) -> Result<(ReadyAnswer, Option<Instant>), Fault> {
        let mut stream = Box::new(ChatStream::new(self.expected.rules));
        let (mut first_content, mut contents, mut last) = (None, 0, clock::now());
        let mut heard = Heard::Data(first);
        loop {
            let (end, broken) = match feed(&mut stream, heard) {
                Fed::Going => (None, None),
                Fed::Ended(end, broken) => (Some(end), broken),
                Fed::Stalled => {
                    return Err(Fault {
                        transport: Some(TransportError::Timeout),
                        ..Fault::new(Stage::Body)
                    });
                }
            };
            if stream.content_events() > contents {
                contents = stream.content_events();
                last = clock::now();
                if stream.has_content() {
                    first_content.get_or_insert(last);
                }
                progress.content_came();
            }
            if stream.committed() {
                return Ok((ReadyAnswer::Stream { body, stream, end }, first_content));
            }
            if let Some(end) = end {
                let fault = Fault::new(if contents > 0 { Stage::Body } else { Stage::FirstEvent });
                return Err(ended(fault, end, broken));
            }
            if stream.finished() {
                progress.finished();
            }
            let gap = self.expected.idle.filter(|_| contents > 0).map(|idle| last + idle);
            heard = next(&mut body, gap, progress).await;
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
    async fn unfolded(
        &self,
        mut body: UpstreamBody,
        first: Bytes,
    ) -> Result<(ReadyAnswer, Option<Instant>), Fault> {
        let whole = self.whole(&mut body, first).await?;
        self.judge(whole.clone()).map_err(|fault| *fault)?;
        let events = unfold(&whole, self.expected.wire).ok_or_else(|| self.fault())?;
        let rules = self.expected.rules;
        let mut stream = Box::new(ChatStream::new(Rules {
            // Its size was held against the limit of whole answers.
            event_max: usize::MAX,
            hide_usage: rules.hide_usage || !self.expected.usage_asked,
            // All of it is here.
            complete_max: None,
            ..rules
        }));
        match stream.push(events) {
            Some(end) if stream.committed() => {
                let first_content = stream.has_content().then(clock::now);
                Ok((ReadyAnswer::Stream { body, stream, end: Some(end) }, first_content))
            }
            _ => Err(self.fault()),
        }
    }

    /// A stream as the whole answer that was asked for.
    async fn folded(
        &self,
        mut body: UpstreamBody,
        first: Bytes,
        line: &Line,
        progress: &Progress,
    ) -> Result<ReadyAnswer, Fault> {
        let after_finish = self.expected.idle.map_or(AFTER_FINISH, |idle| idle.min(AFTER_FINISH));
        let limit = usize::try_from(self.expected.limits.answer).unwrap_or(usize::MAX);
        let rules = Rules { hide_usage: false, complete_max: None, ..self.expected.rules };
        let mut stream = ChatStream::new(rules);
        let mut events = BytesMut::new();
        let mut finished_at = None;
        let mut heard = Heard::Data(first);
        loop {
            let fed = feed(&mut stream, heard);
            let output = stream.take_output();
            if events.len() + output.len() > limit {
                if finished_at.is_some() {
                    // What follows the answer has no room; the answer had.
                    break;
                }
                return Err(self.broken(TransportError::Protocol));
            }
            events.extend_from_slice(&output);
            match fed {
                Fed::Going => {}
                Fed::Ended(End::Well, _) => break,
                Fed::Ended(end, broken) => return Err(ended(self.fault(), end, broken)),
                Fed::Stalled => return Err(self.broken(TransportError::Timeout)),
            }
            if stream.finished() {
                finished_at.get_or_insert_with(clock::now);
                progress.finished();
            }
            heard = next(&mut body, finished_at.map(|at| at + after_finish), progress).await;
        }
        line.let_go();
        body.finish_aside(());
        let whole = fold(events.freeze(), self.expected.wire).ok_or_else(|| self.fault())?;
        self.judge(whole).map_err(|fault| *fault)
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

async fn next(body: &mut UpstreamBody, until: Option<Instant>, progress: &Progress) -> Heard {
    let data = match until {
        None => progress.data(body).await,
        // Late or enough, it is the same.
        Some(until) => tokio::time::timeout_at(until.into(), progress.data(body)).await.ok().flatten(),
    };
    match data {
        Some(Some(Ok(data))) => Heard::Data(data),
        Some(Some(Err(error))) => Heard::Broken(error.class()),
        Some(None) => Heard::End,
        None => Heard::Nothing,
    }
}

/// What a stream makes of what came.
enum Fed {
    Going,
    /// It is over, perhaps because the connection broke.
    Ended(End, Option<TransportError>),
    /// It is not, and nothing comes.
    Stalled,
}

fn feed(stream: &mut ChatStream, heard: Heard) -> Fed {
    match heard {
        Heard::Data(data) => stream.push(data).map_or(Fed::Going, |end| Fed::Ended(end, None)),
        Heard::Broken(class) => Fed::Ended(stream.body_ended(false), Some(class)),
        Heard::End => Fed::Ended(stream.body_ended(true), None),
        // Once every answer has its finish reason, only the end marker is missing.
        Heard::Nothing if stream.finished() => Fed::Ended(stream.body_ended(false), None),
        Heard::Nothing => Fed::Stalled,
    }
}

/// A stream that ended before it could be shown.
fn ended(fault: Fault, end: End, broken: Option<TransportError>) -> Fault {
    match end {
        End::Error(error) => Fault { error: Some(*error), ..fault },
        End::TooLarge => Fault { transport: Some(TransportError::Protocol), ..fault },
        End::Well | End::Cut { .. } | End::Empty | End::Malformed => Fault { transport: broken, ..fault },
    }
}
