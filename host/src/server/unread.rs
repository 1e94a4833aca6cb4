//! A body that its client may not leave unread for ever.
//!
//! Over HTTP/1.1 an unread answer shows itself as a write that waits, and `io` bounds that. Over HTTP/2 a client
//! that gives a stream no window stops it without any write: the body is then just not asked for more. So
//! a watch stands beside it, and takes the body away when it was not asked for too long. Dropping it is the
//! client leaving; the stream ends as one that was reset, never as one that was complete.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::clock;

/// The client left its answer unread for longer than the route allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client did not read its answer")]
pub struct Unread;

#[derive(Debug)]
struct Watched<B> {
    /// None once it was taken away.
    body: Option<B>,
    /// Since when the client has been waited for; none: the client waits.
    unread_since: Option<Instant>,
}

/// A body under a watch, or one that needs none.
#[derive(Debug)]
pub(super) struct Watch<B> {
    watched: Arc<Mutex<Watched<B>>>,
    /// Ends the task beside it at once: its next look may be as far away as the limit.
    _over: DropGuard,
}

impl<B: Body + Unpin + Send + 'static> Watch<B> {
    /// Watches `body` until the watch is dropped.
    pub fn over(body: B, limit: Duration, tracker: &TaskTracker) -> Self {
        let watched = Arc::new(Mutex::new(Watched { body: Some(body), unread_since: Some(clock::now()) }));
        let weak = Arc::downgrade(&watched);
        let over = CancellationToken::new();
        let is_over = over.clone();
        tracker.spawn(async move {
            let mut wait = limit;
            loop {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = is_over.cancelled() => return,
                }
                let Some(watched) = weak.upgrade() else { return };
                let taken = {
                    let mut watched = lock(&watched);
                    let unread = watched
                        .unread_since
                        .map_or(Duration::ZERO, |since| clock::now().saturating_duration_since(since));
                    wait = limit.saturating_sub(unread);
                    if wait.is_zero() { watched.body.take() } else { None }
                };
                if wait.is_zero() {
                    // Dropped here, off the lock: it settles a request.
                    drop(taken);
                    return;
                }
            }
        });
        Self { watched, _over: over.drop_guard() }
    }
}

fn lock<B>(watched: &Mutex<Watched<B>>) -> MutexGuard<'_, Watched<B>> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Body + Unpin> Body for Watch<B> {
    type Data = B::Data;
    type Error = Unread;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Unread>>> {
        let mut watched = lock(&self.watched);
        let Some(body) = &mut watched.body else { return Poll::Ready(Some(Err(Unread))) };
        let polled = Pin::new(body).poll_frame(cx);
        watched.unread_since = match &polled {
            Poll::Pending | Poll::Ready(None | Some(Err(_))) => None,
            Poll::Ready(Some(Ok(_))) => Some(clock::now()),
        };
        polled.map(|frame| frame.map(|frame| frame.map_err(|_| Unread)))
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.watched).body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.watched).body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

/// A body over either protocol.
#[derive(Debug)]
pub(super) enum Served<B> {
    /// Bounded by its writes.
    Plain(B),
    /// Bounded by a watch.
    Watched(Watch<B>),
}

impl<B: Body + Unpin> Body for Served<B> {
    type Data = B::Data;
    type Error = Unread;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Unread>>> {
        match &mut *self {
            Self::Plain(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(|_| Unread)))
            }
            Self::Watched(watch) => Pin::new(watch).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Watched(watch) => watch.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Watched(watch) => watch.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

    fn poll<B: Body + Unpin>(body: &mut B) -> Polled<B> {
        Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_nobody_asks_for_is_taken_away_and_ends_as_an_error() {
        let tracker = TaskTracker::new();
        let mut body = Watch::over(Full::new(Bytes::from_static(b"x")), LIMIT, &tracker);
        tokio::time::sleep(LIMIT + Duration::from_millis(1)).await;
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Err(Unread)))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_for_the_upstream_is_waited_with() {
        let tracker = TaskTracker::new();
        let mut body = Watch::over(Never, LIMIT, &tracker);
        for _ in 0..10 {
            assert!(poll(&mut body).is_pending());
            tokio::time::sleep(LIMIT).await;
        }
        drop(body);
        tracker.close();
        tracker.wait().await;
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_of_a_watch_once_its_body_has_gone() {
        let tracker = TaskTracker::new();
        drop(Watch::over(Never, LIMIT, &tracker));
        tracker.close();
        let ended = tokio::time::timeout(Duration::from_millis(1), tracker.wait()).await;
        assert!(ended.is_ok(), "an end of the gateway would wait for it");
    }

    /// A body whose next bytes never come.
    struct Never;

    impl Body for Never {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }
}
