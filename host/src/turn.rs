//! One turn of the scheduler, given away before a message is written.
//!
//! Of everything that is ready at one time, the reading and deciding is then done first, for all of it, and the
//! writing after that, in a row: peers are woken once for several messages, and the same code runs several times
//! while it is at hand. A connection that alone is ready goes on at once. Nothing waits for a timer, and
//! what follows in the same message is not held up again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

/// A connection whose first write after a read comes after everybody else who is ready.
#[derive(Debug)]
pub struct Turn<T> {
    inner: T,
    /// Bytes were read since the last write.
    due: bool,
}

impl<T> Turn<T> {
    /// Around a connection on which nothing was read yet.
    pub const fn new(inner: T) -> Self {
        Self { inner, due: false }
    }

    /// The connection itself.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn give(&mut self, cx: &Context<'_>) -> bool {
        let give = std::mem::take(&mut self.due);
        if give {
            cx.waker().wake_by_ref();
        }
        give
    }
}

impl<T: Read + Unpin> Read for Turn<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.due |= read.is_ready();
        read
    }
}

impl<T: Write + Unpin> Write for Turn<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.give(cx) { Poll::Pending } else { Pin::new(&mut self.inner).poll_write(cx, buf) }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.give(cx) { Poll::Pending } else { Pin::new(&mut self.inner).poll_write_vectored(cx, bufs) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop where it fails")]

    use std::future::poll_fn;
    use std::task::Waker;

    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn only_the_first_write_after_a_read_gives_way_and_it_comes_back_by_itself() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut io = Turn::new(TokioIo::new(ours));
        let noop = &mut Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut io).poll_write(noop, b"first").is_ready(), "nothing was read yet");
        theirs.write_all(b"x").await.unwrap();
        let mut bytes = [0; 8];
        let mut read = hyper::rt::ReadBuf::new(&mut bytes);
        assert!(Pin::new(&mut io).poll_read(noop, read.unfilled()).is_ready());
        assert!(Pin::new(&mut io).poll_write(noop, b"second").is_pending());
        assert!(Pin::new(&mut io).poll_write(noop, b"second").is_ready());
        assert!(Pin::new(&mut io).poll_write(noop, b"third").is_ready());
        let mut read = hyper::rt::ReadBuf::new(&mut bytes);
        assert!(Pin::new(&mut io).poll_read(noop, read.unfilled()).is_pending());
        assert!(Pin::new(&mut io).poll_write(noop, b"fourth").is_ready(), "nothing was read since");
        theirs.write_all(b"x").await.unwrap();
        let mut read = hyper::rt::ReadBuf::new(&mut bytes);
        assert!(Pin::new(&mut io).poll_read(noop, read.unfilled()).is_ready());
        let slice = [io::IoSlice::new(b"fifth")];
        assert_eq!(poll_fn(|cx| Pin::new(&mut io).poll_write_vectored(cx, &slice)).await.unwrap(), 5);
    }
}
