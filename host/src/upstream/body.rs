//! The body of an upstream's answer, and the way its connection goes when the body is done with.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;
use tokio_util::task::TaskTracker;

use super::line::Line;
use super::pool::{Connection, Pool};

/// How long an upstream may take to end a body of which everything that matters was read.
const ASIDE_MAX: Duration = Duration::from_millis(100);
/// How much is read aside in that time.
const ASIDE_BYTES_MAX: usize = 64 << 10;

/// A body that is being read. Dropped before its end, it closes the connection, or resets its stream of an
/// HTTP/2 connection.
pub struct UpstreamBody {
    incoming: Incoming,
    connection: Option<(Connection, Arc<Pool>)>,
    line: Line,
    tracker: TaskTracker,
}

impl UpstreamBody {
    pub(super) fn new(
        incoming: Incoming,
        connection: Connection,
        pool: Arc<Pool>,
        line: Line,
        tracker: TaskTracker,
    ) -> Self {
        Self { incoming, connection: Some((connection, pool)), line, tracker }
    }

    /// The next bytes; none at the proper end, after which the connection is free for the next request.
    ///
    /// # Cancel safety
    /// Nothing is lost when the caller stops polling.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        loop {
            return match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.is_empty() => continue,
                    Ok(data) => Poll::Ready(Some(Ok(data))),
                    Err(_trailers) => continue,
                },
                Poll::Ready(Some(Err(error))) => {
                    if let Some((Connection::Http2 { mut place, .. }, _)) = self.connection.take() {
                        place.breaks();
                    }
                    Poll::Ready(Some(Err(error)))
                }
                Poll::Ready(None) => {
                    self.release();
                    Poll::Ready(None)
                }
                Poll::Pending => Poll::Pending,
            };
        }
    }

    /// The next bytes, as [`UpstreamBody::poll_data`].
    ///
    /// # Errors
    /// When the connection breaks before the body's end.
    pub async fn data(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        std::future::poll_fn(|cx| self.poll_data(cx)).await
    }

    fn release(&mut self) {
        self.line.released();
        match self.connection.take() {
            Some((Connection::Http1 { sender, closed }, pool)) => pool.put(sender, closed),
            Some((Connection::Http2 { mut place, .. }, _)) => place.ends(),
            None => {}
        }
    }

    /// Everything that matters was read. What is left is read aside for a moment, so that the connection
    /// can be used again; if it does not end in that time, the connection is closed. What is `held` is given
    /// back when the exchange is over.
    pub fn finish_aside<T: Send + 'static>(mut self, held: T) {
        if self.incoming.is_end_stream() {
            self.release();
            return;
        }
        let tracker = self.tracker.clone();
        tracker.spawn(async move {
            let drain = async {
                let mut read = 0;
                while let Some(Ok(data)) = self.data().await {
                    read += data.len();
                    if read > ASIDE_BYTES_MAX {
                        return;
                    }
                }
            };
            // Late or not, dropping the body does what is right.
            let _ = tokio::time::timeout(ASIDE_MAX, drain).await;
            drop(self);
            drop(held);
        });
    }
}
