//! The calls of one connection, as far as somebody has to know whether there are any.
//!
//! HTTP/1.1 bounds the time between two requests itself, so that its calls are not counted: the first one only
//! says that it is HTTP/1.1.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Version;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::Notify;

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Calls {
    running: Arc<Running>,
    http1: AtomicBool,
}

/// Calls of HTTP/2 that run. Every connection has one, so that it is small.
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
    pub(super) fn begin(&self, version: Version) -> Call {
        if version < Version::HTTP_2 {
            self.http1.store(true, Ordering::Relaxed);
            return Call { _counted: None };
        }
        self.running.count.fetch_add(1, Ordering::SeqCst);
        self.running.changed.notify_waiters();
        Call { _counted: Some(Counted(self.running.clone())) }
    }

    /// Whether the connection speaks HTTP/1.1; false before its first request.
    pub(super) fn are_http1(&self) -> bool {
        self.http1.load(Ordering::Relaxed)
    }

    /// Ready once there was no call for so long. Never, when it is seen to elsewhere.
    pub(super) async fn quiet(&self, wait: Duration) {
        loop {
            let mut changed = pin!(self.running.changed.notified());
            // Before looking, so that no change falls between the two.
            changed.as_mut().enable();
            if !self.running.is_none() {
                changed.await;
            } else if tokio::time::timeout(wait, changed).await.is_err() {
                break;
            }
        }
        if self.are_http1() {
            std::future::pending::<()>().await;
        }
    }
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    _counted: Option<Counted>,
}

impl Call {
    /// The call lasts until this body is done with.
    pub(super) fn holds<B>(self, body: B) -> Held<B> {
        Held { body, _call: self }
    }
}

#[derive(Debug)]
struct Counted(Arc<Running>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
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
