//! A stream after commit: bytes out as they come, in order, until a good end or an honest one.
//!
//! Permits, ticket, credential and books live in here, not in the future that made the answer: the work is
//! over when the body is. No second attempt, no invented finish; what breaks ends with one error event, a
//! proper end of the body and no `[DONE]`. Nothing waits for a timer to fill a buffer: what is there goes
//! out, in one piece when several chunks are there already.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use sluice_core::kind::{Stage, TransportError};
use sluice_core::stream::{ChatStream, End};
use tokio_util::task::TaskTracker;

use super::begin::{Attempt, served};
use super::call::Call;
use super::clocks::{IdleClock, KeepAlive, LengthClock};
use super::fault::Fault;
use super::gather::Gather;
use super::judge;
use super::last_call::Ear;
use super::respond::{Break, error_event, secrets_of};
use super::unwind::Breakable;
use crate::clock;
use crate::upstream::UpstreamBody;

/// Output that is handed on at the latest when it has grown to this, more being there or not.
const PIECE: usize = 64 << 10;

/// What keeps a quiet connection from being cut on its way; clients skip it.
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// A stream on its way to the client.
pub struct Relay {
    state: State,
    tracker: TaskTracker,
    request_id: Arc<str>,
}

type Verdict = Pin<Box<dyn Future<Output = Bytes> + Send>>;

enum State {
    /// The upstream is read and the client fed.
    Flowing(Box<Flowing>),
    /// The stream broke; its verdict is awaited, so that the breaker knows before the client does.
    Breaking(Verdict),
    /// Everything is said.
    Over,
}

struct Flowing {
    call: Box<Call>,
    attempt: Attempt,
    body: UpstreamBody,
    stream: Box<ChatStream>,
    /// The stream is over; what is left is to show its last bytes.
    end: Option<End>,
    /// The stream ran for as long as a route lets it.
    too_long: bool,
    idle: IdleClock,
    keep_alive: KeepAlive,
    length: LengthClock,
    gather: Gather,
    malformed_told: u64,
    ear: Ear,
    /// The gateway waits no longer.
    last_call: bool,
}

impl Relay {
    /// A stream that has just committed.
    pub(super) fn new(
        mut call: Box<Call>,
        attempt: Attempt,
        body: UpstreamBody,
        stream: Box<ChatStream>,
        end: Option<End>,
    ) -> Self {
        call.is_shown();
        let route = &call.route.config;
        let idle = IdleClock::new(route.idle, stream.content_events());
        let (keep_alive, length) = (KeepAlive::new(route.keep_alive), LengthClock::new(route.stream_max));
        let tracker = call.ledger.shared().tracker.clone();
        let request_id = call.ledger.id().clone();
        let state = State::Flowing(Box::new(Flowing {
            call,
            attempt,
            body,
            stream,
            end,
            too_long: false,
            idle,
            keep_alive,
            length,
            gather: Gather::default(),
            malformed_told: 0,
            ear: Ear::default(),
            last_call: false,
        }));
        Self { state, tracker, request_id }
    }
}

impl Breakable for Relay {
    /// The next bytes for the client; none when everything is said.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match &mut self.state {
                State::Flowing(flowing) => match flowing.poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Flow::Bytes(bytes)) => return Poll::Ready(Some(bytes)),
                    Poll::Ready(Flow::Ended) => {}
                },
                State::Breaking(verdict) => match verdict.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(event) => {
                        self.state = State::Over;
                        return Poll::Ready(Some(event));
                    }
                },
                State::Over => return Poll::Ready(None),
            }
            let State::Flowing(flowing) = std::mem::replace(&mut self.state, State::Over) else { continue };
            match flowing.finish() {
                Finish::Well(last) => return Poll::Ready(last),
                Finish::Broken { partial, verdict } => {
                    self.state = State::Breaking(verdict);
                    if let Some(partial) = partial {
                        return Poll::Ready(Some(partial));
                    }
                }
            }
        }
    }

    fn broke_down(&mut self) -> Bytes {
        tracing::error!(request_id = &*self.request_id, "a stream ended in a panic");
        if let State::Flowing(mut flowing) = std::mem::replace(&mut self.state, State::Over) {
            flowing.interrupted(&Break::Internal);
        }
        error_event(&Break::Internal, &[])
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            // A client that leaves after the finish reason has its answer.
            State::Flowing(flowing) => flowing.client_left(),
            // The stream broke before the client left: that is still learnt from.
            State::Breaking(verdict) if tokio::runtime::Handle::try_current().is_ok() => {
                self.tracker.spawn(async move { drop(verdict.await) });
            }
            State::Breaking(_) | State::Over => {}
        }
    }
}

enum Flow {
    Bytes(Bytes),
    Ended,
}

enum Finish {
    Well(Option<Bytes>),
    Broken { partial: Option<Bytes>, verdict: Verdict },
}

impl Flowing {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Flow> {
        self.idle.resumes();
        if self.end.is_none() && self.ear.poll_reached(&self.call.ledger.shared().last_call, cx).is_ready() {
            return self.cut_short();
        }
        while self.end.is_none() {
            if self.length.poll_over(cx).is_ready() {
                self.too_long = true;
                self.end = Some(self.stream.body_ended(false));
                break;
            }
            if self.stream.waiting() >= PIECE {
                return Poll::Ready(self.hand_on());
            }
            match self.body.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) => {
                    self.gather.more();
                    self.end = self.stream.push(data);
                    self.idle.content(self.stream.content_events());
                }
                Poll::Ready(Some(Err(_))) => self.end = Some(self.stream.body_ended(false)),
                Poll::Ready(None) => self.end = Some(self.stream.body_ended(true)),
                Poll::Pending if self.stream.waiting() > 0 => {
                    if self.gather.wants_to_wait() {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    return Poll::Ready(self.hand_on());
                }
                Poll::Pending => return self.wait(cx),
            }
        }
        self.tell_malformed();
        Poll::Ready(Flow::Ended)
    }

    fn hand_on(&mut self) -> Flow {
        self.tell_malformed();
        self.gather.handed_on();
        self.idle.pauses();
        self.keep_alive.sent();
        Flow::Bytes(self.stream.take_output())
    }

    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Flow> {
        self.gather.waits();
        if self.stream.finished() {
            self.idle.finished();
        }
        if self.idle.poll_over(cx).is_pending() {
            if self.keep_alive.poll_due(cx).is_pending() {
                return Poll::Pending;
            }
            self.idle.pauses();
            self.keep_alive.sent();
            return Poll::Ready(Flow::Bytes(COMMENT));
        }
        // Once every answer has its finish reason, only the end marker is missing.
        self.end = Some(if self.stream.finished() { self.stream.body_ended(false) } else { End::Empty });
        Poll::Ready(Flow::Ended)
    }

    /// The gateway goes down: what has come is shown, and why there is no more.
    fn cut_short(&mut self) -> Poll<Flow> {
        self.last_call = !self.stream.finished();
        self.end = Some(self.stream.body_ended(false));
        self.tell_malformed();
        Poll::Ready(Flow::Ended)
    }

    fn tell_malformed(&mut self) {
        let key = self.call.target(self.attempt.position).cell.key().clone();
        while self.malformed_told < self.stream.malformed() {
            self.malformed_told += 1;
            self.call.ledger.shared().telemetry.metrics().malformed_event(&key);
        }
    }

    /// Settles a stream that is over. What it holds is free when this returns, but for what the verdict on a
    /// broken one still needs.
    fn finish(mut self) -> Finish {
        let last = Some(self.stream.take_output()).filter(|bytes| !bytes.is_empty());
        self.call.ledger.usage = Some(self.stream.usage(self.call.body.input_tokens));
        if self.last_call {
            self.interrupted(&Break::Draining);
            let event = error_event(&Break::Draining, &[]);
            return Finish::Broken { partial: last, verdict: Box::pin(std::future::ready(event)) };
        }
        let (broken, transport) = match self.end.take() {
            Some(End::Well) => {
                // After the end marker the place is free at once, whatever the upstream still does.
                let hold = served(&mut self.call, self.attempt);
                hold.line.let_go();
                self.body.finish_aside(());
                return Finish::Well(last);
            }
            Some(End::Cut { .. }) if self.too_long => (Break::TooLong, None),
            Some(End::Error(error)) => (Break::Reported(error), None),
            Some(End::Cut { proper: true }) => (Break::Interrupted, None),
            Some(End::Malformed) => (Break::Malformed, Some(TransportError::Protocol)),
            Some(End::TooLarge) => (Break::EventTooLarge, Some(TransportError::Protocol)),
            Some(End::Empty) => (Break::Stalled, Some(TransportError::Timeout)),
            Some(End::Cut { proper: false }) | None => (Break::Interrupted, Some(TransportError::Closed)),
        };
        drop(self.body);
        let verdict = Box::pin(settle_broken(self.call, self.attempt, broken, transport));
        Finish::Broken { partial: last, verdict }
    }

    /// The stream ends before the answer does, and neither the upstream nor the client is the reason.
    fn interrupted(&mut self, why: &Break) {
        let key = self.call.target(self.attempt.position).cell.key().clone();
        let ledger = &mut self.call.ledger;
        ledger.attempt_cancelled();
        ledger.interrupted(&key, why.code());
    }

    /// Nobody takes the rest. A client that leaves after the finish reason has its answer.
    fn client_left(mut self) {
        self.call.ledger.usage = Some(self.stream.usage(self.call.body.input_tokens));
        if self.stream.finished() || self.end == Some(End::Well) {
            let hold = served(&mut self.call, self.attempt);
            self.body.finish_aside(hold);
        } else if self.call.ledger.shared().last_call.is_reached() {
            self.interrupted(&Break::Draining);
        }
    }
}

/// Judges a stream that broke after commit, settles it, and gives the event it ends with.
async fn settle_broken(
    mut call: Box<Call>,
    attempt: Attempt,
    broken: Break,
    transport: Option<TransportError>,
) -> Bytes {
    let key = call.target(attempt.position).cell.key().clone();
    call.ledger.interrupted(&key, broken.code());
    let secrets: Vec<String> = secrets_of(&call.target(attempt.position).config.target.upstream);
    let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
    let event = error_event(&broken, &secrets);
    if matches!(broken, Break::TooLong) {
        // The limit is ours: nobody is asked and nobody is blamed.
        call.ledger.attempt_cancelled();
        return event;
    }
    let error = match broken {
        Break::Reported(error) => Some(*error),
        _ => None,
    };
    let fault = Fault { transport, status: Some(200), error, ..Fault::new(Stage::Stream) };
    // Whatever the classifiers say, the stream is over; they only teach the breaker.
    drop(judge::judge(&mut call, attempt, &fault, clock::now()).await);
    event
}
