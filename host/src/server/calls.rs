//! The calls of one connection, as far as somebody has to know whether there are any.
//!
//! HTTP/1.1 bounds the time between two requests itself, so that its calls are not counted: the first one only
//! says that it is HTTP/1.1.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Version;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Calls of HTTP/2 that run.
    running: Arc<watch::Sender<usize>>,
    http1: AtomicBool,
}

impl Calls {
    /// A request has come. It runs until its body, or what it would have become, is dropped.
    pub(super) fn begin(&self, version: Version) -> Call {
        if version < Version::HTTP_2 {
            self.http1.store(true, Ordering::Relaxed);
            return Call { _counted: None };
        }
        self.running.send_modify(|running| *running += 1);
        Call { _counted: Some(Counted(self.running.clone())) }
    }

    /// Ready once there was no call for so long. Never, when it is seen to elsewhere.
    pub(super) async fn quiet(&self, wait: Duration) {
        let mut changes = self.running.subscribe();
        loop {
            let idle = *changes.borrow_and_update() == 0;
            if !idle {
                // The sender lives as long as we do.
                let _ = changes.changed().await;
            } else if tokio::time::timeout(wait, changes.changed()).await.is_err() {
                break;
            }
        }
        if self.http1.load(Ordering::Relaxed) {
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
struct Counted(Arc<watch::Sender<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
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
