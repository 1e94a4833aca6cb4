//! The calls of one HTTP/2 connection, as far as somebody has to know whether there are any.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::Notify;

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Calls {
    running: Arc<Running>,
    /// There was one.
    begun: AtomicBool,
    /// Those that come now count for nothing.
    closed: AtomicBool,
}

/// Calls that run.
#[derive(Debug, Default)]
struct Running {
    count: AtomicUsize,
    changed: Notify,
}

impl Running {
    fn is_none(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}

impl Calls {
    /// A request has come. It runs until its body, or what it would have become, is dropped.
    pub(super) fn begin(&self) -> Call {
        self.begun.store(true, Ordering::Relaxed);
        if self.closed.load(Ordering::Relaxed) {
            return Call(None);
        }
        self.running.count.fetch_add(1, Ordering::SeqCst);
        self.running.changed.notify_waiters();
        Call(Some(self.running.clone()))
    }

    /// Whether there ever was one.
    pub(super) fn were_any(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Calls from now on are answered if there is time for it, and no reason to wait.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Ready once there was no call for so long.
    pub(super) async fn quiet(&self, wait: Duration) {
        loop {
            let mut changed = pin!(self.running.changed.notified());
            // Before looking, so that no change falls between the two.
            changed.as_mut().enable();
            if !self.running.is_none() {
                changed.await;
            } else if tokio::time::timeout(wait, changed).await.is_err() {
                return;
            }
        }
    }
}

/// One call; none: it does not count.
#[derive(Debug)]
pub(super) struct Call(Option<Arc<Running>>);

impl Call {
    /// The call lasts until this body is done with.
    pub(super) fn holds<B>(self, body: B) -> Held<B> {
        Held { body, _call: self }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(running) = &self.0 {
            running.count.fetch_sub(1, Ordering::SeqCst);
            running.changed.notify_waiters();
        }
    }
}

/// A body whose call runs as long as it is there.
#[derive(Debug)]
pub(super) struct Held<B> {
    body: B,
    _call: Call,
}

impl<B: HttpBody + Unpin> HttpBody for Held<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
