//! A connection whose writes may not stall for ever, and of which it is known whether it is read and whether it writes.
//!
//! A client that reads nothing for as long as its route allows is dropped. The limit is set by the answer
//! that is being written; the timer runs only while a write waits.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::Sleep;

/// Until a route says otherwise: for answers that are no call's, and for refusals.
pub(super) const UNTOLD: Duration = Duration::from_secs(30);
/// No limit, in milliseconds.
const NONE: u64 = u64::MAX;

/// How long a write may wait for its client: over HTTP/1.1 of a connection, which carries one answer at a time, over HTTP/2
/// of one answer, and of the connection that carries several.
#[derive(Debug, Clone)]
pub struct WriteLimit(Arc<AtomicU64>);

impl Default for WriteLimit {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(millis(Some(UNTOLD)))))
    }
}

impl WriteLimit {
    /// Sets the limit for what is written from now on.
    pub fn set(&self, limit: Option<Duration>) {
        self.0.store(millis(limit), Ordering::Relaxed);
    }

    /// What is written from now on is another answer, of which no route has said anything. The one before it, if it is
    /// still being written, keeps its time.
    pub(super) fn begin(&self) {
        self.0.fetch_max(millis(Some(UNTOLD)), Ordering::Relaxed);
    }

    /// Allows at least as much as `other`: of the answers of one connection the most patient decides when nothing at all
    /// can be written any more.
    pub(super) fn widen(&self, other: &Self) {
        self.0.fetch_max(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Option<Duration> {
        Some(self.0.load(Ordering::Relaxed)).filter(|ms| *ms != NONE).map(Duration::from_millis)
    }
}

fn millis(limit: Option<Duration>) -> u64 {
    limit.map_or(NONE, |limit| u64::try_from(limit.as_millis()).unwrap_or(NONE))
}

/// What goes over one connection, for those who only look.
#[derive(Debug, Clone, Default)]
pub struct Traffic(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    reads_wait: AtomicBool,
    written: AtomicU64,
}

impl Traffic {
    /// The last read has given nothing yet: the connection hears of its end by itself.
    pub fn reads_wait(&self) -> bool {
        self.0.reads_wait.load(Ordering::Relaxed)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    fn writes(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(more)) = written {
            // The connection alone counts, so that nothing is lost between the two.
            self.0.written.store(self.written().wrapping_add(*more as u64), Ordering::Relaxed);
        }
    }
}

/// A connection under a [`WriteLimit`], from its first byte on.
pub struct Bounded<T> {
    inner: T,
    limit: WriteLimit,
    traffic: Traffic,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> Bounded<T> {
    /// Bounds the writes of a connection, and says what goes over it.
    pub fn new(inner: T, limit: WriteLimit, traffic: Traffic) -> Self {
        Self { inner, limit, traffic, waiting: None }
    }

    /// Passes on what a write gave, unless it has waited for too long.
    fn judge<R>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let Some(limit) = self.limit.get() else { return Poll::Pending };
        let timer = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match timer.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<T: Read + Unpin> Read for Bounded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.traffic.0.reads_wait.store(read.is_pending(), Ordering::Relaxed);
        read
    }
}

impl<T: Write + Unpin> Write for Bounded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.traffic.writes(&written);
        self.judge(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, shut)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.traffic.writes(&written);
        self.judge(cx, written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_what_a_route_said_and_what_begins_or_joins_only_lengthens_it() {
        const HASTY: Option<Duration> = Some(Duration::from_secs(1));
        const PATIENT: Option<Duration> = Some(Duration::from_secs(60));
        let limit = WriteLimit::default();
        assert_eq!(limit.get(), Some(UNTOLD));
        for (said, begun, joined_by_a_patient_one) in
            [(HASTY, Some(UNTOLD), PATIENT), (PATIENT, PATIENT, PATIENT), (None, None, None)]
        {
            limit.set(said);
            assert_eq!(limit.get(), said);
            limit.begin();
            assert_eq!(limit.get(), begun, "{said:?}");
            let other = WriteLimit::default();
            other.set(PATIENT);
            limit.widen(&other);
            assert_eq!(limit.get(), joined_by_a_patient_one, "{said:?}");
        }
    }
}
