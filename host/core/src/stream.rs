//! What becomes of each event of a stream: held, shown, dropped, or the end.
//!
//! Before commit, events without meaning are held; the first with meaning commits, and what was held goes
//! out before it. After commit events go out as they come. Whether an ending is good, broken, or the
//! failure of an attempt that can still be replaced is decided here; clocks, bytes on the wire and the
//! error event that a broken stream ends with are the caller's.

use bytes::{Bytes, BytesMut};

use crate::facts::Usage;
use crate::lens::chat::{self, Chunk, Meaning};
use crate::lens::error::ProviderError;
use crate::sse::{self, Event, Scanner};

/// Bounds and rules of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Largest event, bytes.
    pub event_max: usize,
    /// Events held before commit.
    pub held_events_max: usize,
    /// Bytes held before commit.
    pub held_bytes_max: usize,
    /// Some: the stream is held until it has ended well, at most so many bytes of it, and the two bounds
    /// above say nothing. None: it is shown from its first meaning on.
    pub complete_max: Option<usize>,
    /// A malformed event after commit ends the stream; else it is dropped and counted.
    pub malformed_fails: bool,
    /// Answers asked for: the stream is finished when each has its finish reason.
    pub choices: u32,
    /// The event that carries nothing but usage is read and not shown.
    pub hide_usage: bool,
}

/// Where a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing with meaning has come.
    Holding,
    /// Shown to the client.
    Flowing,
    /// Every answer has its finish reason: a success whatever follows.
    Finished,
    /// Over. Nothing more is looked at.
    Ended,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Well: `[DONE]` is the last thing in the output.
    Well,
    /// The upstream reported an error.
    Error(Box<ProviderError>),
    /// The body ended before the answer did: properly, or by a broken connection.
    Cut {
        /// The body ended properly.
        proper: bool,
    },
    /// The body ended properly and held no content at all.
    Empty,
    /// An event could not be read, and the route wants that to end the stream.
    Malformed,
    /// An event was larger than the limit, or a held stream was.
    TooLarge,
}

/// One stream of the chat wire, from its first byte to its end.
#[derive(Debug)]
pub struct ChatStream {
    rules: Rules,
    scanner: Scanner,
    phase: Phase,
    committed: bool,
    held: u32,
    out: BytesMut,
    seen: u64,
    finished: u64,
    usage: Option<Usage>,
    text: usize,
    content_events: u64,
    content: bool,
    malformed: u64,
}

impl ChatStream {
    /// A stream of which nothing has come yet.
    pub fn new(rules: Rules) -> Self {
        Self {
            scanner: Scanner::new(rules.event_max),
            rules,
            phase: Phase::Holding,
            committed: false,
            held: 0,
            out: BytesMut::new(),
            seen: 0,
            finished: 0,
            usage: None,
            text: 0,
            content_events: 0,
            content: false,
            malformed: 0,
        }
    }

    /// Something with meaning has come, or more was held than may be: the attempt cannot be replaced once
    /// the output has been shown. A stream that is held to its end commits with its good end, and only then.
    pub const fn committed(&self) -> bool {
        self.committed
    }

    /// Every answer has its finish reason.
    pub const fn finished(&self) -> bool {
        matches!(self.phase, Phase::Finished)
    }

    /// Events with content or a finish reason so far. Only these reset the idle clock.
    pub const fn content_events(&self) -> u64 {
        self.content_events
    }

    /// Content has come: a finish reason is none.
    pub const fn has_content(&self) -> bool {
        self.content
    }

    /// Malformed events dropped so far.
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Tokens: the upstream's own numbers, else for the output bytes of text divided by four.
    pub fn usage(&self, input_estimate: u32) -> Usage {
        self.usage.unwrap_or(Usage {
            input: u64::from(input_estimate),
            output: (self.text as u64).div_ceil(4),
            estimated: true,
        })
    }

    /// Bytes that wait to be shown.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Takes what may be shown. Nothing before commit.
    pub fn take_output(&mut self) -> Bytes {
        if self.committed { self.out.split().freeze() } else { Bytes::new() }
    }

    /// Looks at what came. Some: the stream is over, and nothing more is to be pushed.
    pub fn push(&mut self, chunk: Bytes) -> Option<End> {
        if self.phase == Phase::Ended {
            return None;
        }
        self.scanner.push(chunk);
        loop {
            match self.scanner.next_event() {
                Ok(Some(event)) => {
                    if let Some(end) = self.event(&event) {
                        return Some(self.end(end));
                    }
                }
                Ok(None) => return None,
                Err(_) => {
                    let end = self.unreadable(End::TooLarge);
                    return Some(self.end(end));
                }
            }
        }
    }

    /// The body is over: properly, or by a broken connection.
    pub fn body_ended(&mut self, proper: bool) -> End {
        if proper
            && self.phase != Phase::Ended
            && let Some(last) = self.scanner.finish()
            && let Some(end) = self.event(&last)
        {
            return self.end(end);
        }
        let end = match (self.phase, proper) {
            (Phase::Finished, _) => self.well(),
            (Phase::Holding, true) if self.content_events == 0 => End::Empty,
            _ => End::Cut { proper },
        };
        self.end(end)
    }

    fn end(&mut self, end: End) -> End {
        self.phase = Phase::Ended;
        end
    }

    /// A finish reason without `[DONE]` gets one.
    fn well(&mut self) -> End {
        self.committed = true;
        sse::write_event(b"[DONE]", &mut self.out);
        End::Well
    }

    /// What cannot be read on ends a stream; one that is finished, well.
    fn unreadable(&mut self, end: End) -> End {
        if self.phase == Phase::Finished { self.well() } else { end }
    }

    fn event(&mut self, event: &Event) -> Option<End> {
        match chat::read_event(&event.data) {
            Meaning::Nothing => None,
            Meaning::Done => Some(self.done()),
            Meaning::Error(_) if self.phase == Phase::Finished => Some(self.well()),
            Meaning::Error(error) => Some(End::Error(error)),
            Meaning::Malformed if self.rules.malformed_fails => Some(self.unreadable(End::Malformed)),
            Meaning::Malformed => {
                self.malformed += 1;
                None
            }
            Meaning::Chunk(chunk) if chunk.finished_by_error && self.phase != Phase::Finished => {
                Some(End::Error(Box::default()))
            }
            Meaning::Chunk(Chunk { empty: true, usage: usage @ Some(_), .. }) if self.rules.hide_usage => {
                self.usage = usage;
                None
            }
            Meaning::Chunk(chunk) => self.chunk(&chunk, event),
        }
    }

    fn done(&mut self) -> End {
        match self.phase {
            // An end marker alone is no answer.
            Phase::Holding => End::Empty,
            Phase::Flowing | Phase::Finished | Phase::Ended => self.well(),
        }
    }

    fn chunk(&mut self, chunk: &Chunk, event: &Event) -> Option<End> {
        self.seen |= chunk.seen;
        self.finished |= chunk.finished;
        self.text += chunk.text;
        if chunk.usage.is_some() {
            self.usage = chunk.usage;
        }
        let (before, was_finished) = (self.out.len(), self.phase == Phase::Finished);
        match &event.wire {
            Some(wire) => self.out.extend_from_slice(wire),
            None => sse::write_event(&event.data, &mut self.out),
        }
        if chunk.commits() {
            self.content_events += 1;
            self.content |= chunk.content;
        }
        if self.phase == Phase::Holding {
            self.held += 1;
            let complete = self.rules.complete_max.is_some();
            let too_much = !complete
                && (self.held as usize > self.rules.held_events_max
                    || self.out.len() > self.rules.held_bytes_max);
            if chunk.commits() || too_much {
                self.phase = Phase::Flowing;
                self.committed = !complete;
            }
        }
        let answers = self.rules.choices.max(self.seen.count_ones());
        if self.phase == Phase::Flowing && self.finished.count_ones() >= answers {
            self.phase = Phase::Finished;
        }
        if self.rules.complete_max.is_none_or(|max| self.out.len() <= max) {
            return None;
        }
        if was_finished {
            // What follows the answer has no room; the answer had.
            self.out.truncate(before);
            return Some(self.well());
        }
        Some(End::TooLarge)
    }
}

#[cfg(test)]
mod tests;
