//! The body of an answer: all of it at once, or a relay.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::relay::Relay;
use super::unwind;

/// A response body. It never fails: a stream that breaks ends with an error event and a proper end.
pub struct Body(Kind);

enum Kind {
    Full(Option<Bytes>),
    Relay(Box<Relay>),
}

impl Body {
    /// All of it.
    pub fn full(bytes: Bytes) -> Self {
        Self(Kind::Full((!bytes.is_empty()).then_some(bytes)))
    }

    /// Nothing.
    pub fn empty() -> Self {
        Self(Kind::Full(None))
    }

    pub(super) fn relay(relay: Box<Relay>) -> Self {
        Self(Kind::Relay(relay))
    }

    /// With other bytes, where all of them are there.
    pub(super) fn mapped(self, change: impl FnOnce(Bytes) -> Bytes) -> Self {
        match self.0 {
            Kind::Full(Some(bytes)) => Self::full(change(bytes)),
            other => Self(other),
        }
    }

    /// The call runs until the last of these bytes is written. A relay sees to that itself.
    pub(super) fn runs(self, running: TaskTrackerToken) -> Self {
        match self.0 {
            // The body is dropped as soon as it has handed its bytes on, so it is they that carry the token.
            Kind::Full(Some(bytes)) => {
                Self(Kind::Full(Some(Bytes::from_owner(Running { bytes, _token: running }))))
            }
            other => Self(other),
        }
    }
}

/// Bytes of a call that runs for as long as they are there.
struct Running {
    bytes: Bytes,
    _token: TaskTrackerToken,
}

impl AsRef<[u8]> for Running {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Relay(relay) => {
                unwind::poll_caught(&mut **relay, cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Kind::Relay(_) => SizeHint::default(),
        }
    }
}
