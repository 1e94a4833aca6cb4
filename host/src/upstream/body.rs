//! The body of an upstream's answer, and the way its connection goes when the body is done with.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::Body as _;
use hyper::body::Incoming;
use sluice_core::coding::{Coding, Decoder, UnknownCoding};

use super::error::BodyError;
use super::line::Line;
use super::pool::{Connection, Pool, Sender};

/// How long an upstream may take to end a body of which everything that matters was read.
const ASIDE_MAX: Duration = Duration::from_millis(100);
/// How much is read aside in that time.
const ASIDE_BYTES_MAX: usize = 64 << 10;

/// A body that is being read. Dropped before its end, it closes the connection.
pub struct UpstreamBody {
    incoming: Incoming,
    /// Undoes a coding that nobody asked for.
    decoder: Option<Decoder>,
    connection: Option<Connection>,
    pool: Arc<Pool>,
    line: Line,
}

impl UpstreamBody {
    pub(super) fn new(incoming: Incoming, connection: Connection, pool: Arc<Pool>, line: Line) -> Self {
        Self { incoming, decoder: None, connection: Some(connection), pool, line }
    }

    /// Reads on as the headers of the answer say. Asked for plain bytes, some upstreams compress all the same.
    ///
    /// # Errors
    /// When the coding is not understood.
    pub fn decode(&mut self, headers: &HeaderMap) -> Result<(), UnknownCoding> {
        let named: Vec<&str> =
            headers.get_all(CONTENT_ENCODING).iter().map(|value| value.to_str().unwrap_or("?")).collect();
        self.decoder = Coding::of(&named.join(","))?.map(Decoder::new);
        Ok(())
    }

    /// The next bytes; none at the proper end, after which the connection is free for the next request.
    ///
    /// # Cancel safety
    /// Nothing is lost when the caller stops polling.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            if let Some(decoder) = &mut self.decoder {
                match decoder.next_piece() {
                    Ok(None) => {}
                    Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                    Err(corrupt) => return Poll::Ready(Some(Err(self.broken(corrupt)))),
                }
            }
            return match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.is_empty() => continue,
                    Ok(data) => match &mut self.decoder {
                        Some(decoder) => {
                            decoder.push(data);
                            continue;
                        }
                        None => Poll::Ready(Some(Ok(data))),
                    },
                    Err(_trailers) => continue,
                },
                Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(self.broken(error)))),
                Poll::Ready(None) => {
                    self.release();
                    match self.decoder.take().map_or(Ok(()), |decoder| decoder.ended()) {
                        Ok(()) => Poll::Ready(None),
                        Err(corrupt) => Poll::Ready(Some(Err(corrupt.into()))),
                    }
                }
                Poll::Pending => Poll::Pending,
            };
        }
    }

    /// The next bytes, as [`UpstreamBody::poll_data`].
    ///
    /// # Errors
    /// When the connection breaks before the body's end.
    pub async fn data(&mut self) -> Option<Result<Bytes, BodyError>> {
        std::future::poll_fn(|cx| self.poll_data(cx)).await
    }

    /// Nothing more is read; the connection is of no further use.
    fn broken(&mut self, error: impl Into<BodyError>) -> BodyError {
        self.connection = None;
        error.into()
    }

    fn release(&mut self) {
        self.line.released();
        if let Some(connection) = self.connection.take()
            && matches!(connection.sender, Sender::Http1(_))
        {
            self.pool.put(connection);
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
        let tracker = self.pool.tracker().clone();
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
