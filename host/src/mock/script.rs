//! A body that plays a script: bytes, pauses, and the ways in which an upstream breaks off.
//!
//! What a step writes was decided elsewhere; here is only when it leaves and how the exchange ended.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use thiserror::Error;
use tokio::time::Sleep;

use super::stats::Exchange;

/// One step of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Bytes, with more to come.
    Send(Bytes),
    /// The last bytes: the answer counts as complete once they were handed over.
    Last(Bytes),
    /// Nothing for so long.
    Pause(Duration),
    /// The connection ends here, without a proper end of body.
    Cut,
    /// Nothing more, for as long as the client waits.
    Stall,
    /// A proper end of body.
    End,
}

/// The steps of one body.
pub type Script = Box<dyn Iterator<Item = Step> + Send + Sync>;

/// The script asks for a broken connection. The server answers it by ending the connection unfinished.
#[derive(Debug, Error)]
#[error("the script ends the connection here")]
pub struct Broken;

/// Turns given back to the connection before a cut, so that what was sent before it has left.
const TURNS_BEFORE_CUT: u8 = 4;

/// A script while it plays. Dropped early, its client had left.
pub struct ScriptBody {
    steps: Script,
    state: State,
    exchange: Option<Exchange>,
}

enum State {
    Next,
    Pausing(Pin<Box<Sleep>>),
    Cutting { turns: u8 },
    Stalled,
    Over,
}

impl ScriptBody {
    /// Plays `steps` and reports to `exchange` how that ended.
    #[must_use]
    pub fn new(steps: Script, exchange: Exchange) -> Self {
        Self { steps, state: State::Next, exchange: Some(exchange) }
    }

    /// Bytes of an answer that belongs to no scripted exchange.
    #[must_use]
    pub fn fixed(bytes: Bytes) -> Self {
        Self { steps: Box::new(std::iter::once(Step::Last(bytes))), state: State::Next, exchange: None }
    }

    fn completed(&mut self) {
        self.state = State::Over;
        if let Some(exchange) = self.exchange.take() {
            exchange.completed();
        }
    }

    fn broken(&mut self) {
        self.state = State::Over;
        if let Some(exchange) = self.exchange.take() {
            exchange.broken();
        }
    }

    /// The next step, taken; ready when it has bytes for the connection.
    fn take_step(&mut self) -> Option<Bytes> {
        match self.steps.next() {
            None | Some(Step::End) => self.completed(),
            Some(Step::Send(bytes)) => return Some(bytes),
            Some(Step::Last(bytes)) => {
                self.completed();
                return Some(bytes);
            }
            Some(Step::Pause(pause)) if pause.is_zero() => {}
            Some(Step::Pause(pause)) => self.state = State::Pausing(Box::pin(tokio::time::sleep(pause))),
            Some(Step::Cut) => self.state = State::Cutting { turns: TURNS_BEFORE_CUT },
            Some(Step::Stall) => self.state = State::Stalled,
        }
        None
    }
}

impl Body for ScriptBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            match &mut self.state {
                State::Next => {
                    if let Some(bytes) = self.take_step() {
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                }
                State::Pausing(sleep) => match sleep.as_mut().poll(cx) {
                    Poll::Ready(()) => self.state = State::Next,
                    Poll::Pending => return Poll::Pending,
                },
                State::Cutting { turns: 0 } => {
                    self.broken();
                    return Poll::Ready(Some(Err(Broken)));
                }
                State::Cutting { turns } => {
                    *turns -= 1;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::Stalled => return Poll::Pending,
                State::Over => return Poll::Ready(None),
            }
        }
    }
}
