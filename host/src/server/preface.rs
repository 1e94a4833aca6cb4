//! Which HTTP a client speaks, told from its first bytes.
//!
//! HTTP/2 begins with a fixed preface, with which no request of HTTP/1.1 begins. The bytes that were looked at are
//! given on in front of the others, and together with them: who reads takes all that is there at once.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// Or something else altogether: what is wrong with it is then said in HTTP/1.1.
    Http1,
    /// With prior knowledge, or as it was agreed in the handshake.
    Http2,
}

/// A connection that can be looked at before it is read.
#[derive(Debug)]
pub struct Begun<T> {
    inner: T,
    held: [u8; PREFACE.len()],
    /// Bytes of `held` that were read.
    read: usize,
    /// And of those, how many were given on.
    given: usize,
    /// How the connection broke behind them: a socket says that once.
    broken: Option<io::Error>,
}

impl<T: Read + Unpin> Begun<T> {
    /// Around a connection of which nothing was read.
    pub const fn new(inner: T) -> Self {
        Self { inner, held: [0; PREFACE.len()], read: 0, given: 0, broken: None }
    }

    /// Reads until it is clear what is spoken.
    ///
    /// # Errors
    /// The connection broke. One that ended speaks HTTP/1.1.
    pub async fn spoken(&mut self) -> io::Result<Spoken> {
        poll_fn(|cx| self.poll_spoken(cx)).await
    }

    fn poll_spoken(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Spoken>> {
        loop {
            let read = self.read;
            if self.held[..read] != PREFACE[..read] {
                return Poll::Ready(Ok(Spoken::Http1));
            }
            if read == PREFACE.len() {
                return Poll::Ready(Ok(Spoken::Http2));
            }
            let mut free = ReadBuf::new(&mut self.held[read..]);
            ready!(Pin::new(&mut self.inner).poll_read(cx, free.unfilled()))?;
            match free.filled().len() {
                0 => return Poll::Ready(Ok(Spoken::Http1)),
                more => self.read += more,
            }
        }
    }
}

impl<T: Read + Unpin> Read for Begun<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.given == this.read {
            return match this.broken.take() {
                Some(error) => Poll::Ready(Err(error)),
                None => Pin::new(&mut this.inner).poll_read(cx, buf),
            };
        }
        let end = this.read.min(this.given + buf.remaining());
        buf.put_slice(&this.held[this.given..end]);
        this.given = end;
        if buf.remaining() > 0 {
            // Whatever comes of it, there are bytes to give. An end is met again by the next read.
            if let Poll::Ready(Err(error)) = Pin::new(&mut this.inner).poll_read(cx, buf) {
                this.broken = Some(error);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for Begun<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
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
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop where it fails")]

    use std::time::Duration;

    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_spoken_is_told_from_the_first_bytes_and_nothing_of_them_is_lost() {
        let behind = [&PREFACE[..], b"more"].concat();
        let almost = [&PREFACE[..23], b"x"].concat();
        let table: [(&[u8], Spoken); 8] = [
            (PREFACE, Spoken::Http2),
            (&behind, Spoken::Http2),
            (&almost, Spoken::Http1),
            (b"POST /v1/chat/completions HTTP/1.1\r\n\r\n", Spoken::Http1),
            (b"P", Spoken::Http1),
            (b"PRI * HTTP/2.0\r\n\r\n", Spoken::Http1),
            (b"\r\n\r\nGET", Spoken::Http1),
            (b"", Spoken::Http1),
        ];
        for (bytes, spoken) in table {
            // In one piece, and byte for byte with a pause before each.
            for piece in [usize::MAX, 1] {
                let (ours, mut theirs) = tokio::io::duplex(64);
                let sent = bytes.to_vec();
                let mut sends = tokio::task::JoinSet::new();
                sends.spawn(async move {
                    for piece in sent.chunks(piece) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        theirs.write_all(piece).await.unwrap();
                    }
                });
                let mut begun = Begun::new(TokioIo::new(ours));
                assert_eq!(begun.spoken().await.unwrap(), spoken, "{bytes:?} by {piece}");
                let mut got = Vec::new();
                TokioIo::new(begun).read_to_end(&mut got).await.unwrap();
                assert_eq!(got, bytes, "by {piece}");
            }
        }
    }

    #[tokio::test]
    async fn what_was_looked_at_comes_together_with_what_is_behind_it() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(&[b'a'; 60]).await.unwrap();
        let mut begun = Begun::new(TokioIo::new(ours));
        begun.spoken().await.unwrap();
        let mut bytes = [0; 64];
        assert_eq!(TokioIo::new(&mut begun).read(&mut bytes).await.unwrap(), 60);

        // Into little room bit by bit.
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(&[b'a'; 60]).await.unwrap();
        let mut begun = Begun::new(TokioIo::new(ours));
        begun.spoken().await.unwrap();
        let mut sizes = Vec::new();
        for _ in 0..4 {
            sizes.push(TokioIo::new(&mut begun).read(&mut bytes[..10]).await.unwrap());
        }
        assert_eq!(sizes, [10, 10, 10, 10]);
    }

    /// Gives bytes, then says once that it broke, as a socket does, and then that it ended.
    struct Breaks(Vec<io::Result<&'static [u8]>>);

    impl Read for Breaks {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            mut buf: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            let next = if self.0.is_empty() { Ok(&[][..]) } else { self.0.remove(0) };
            Poll::Ready(next.map(|bytes| buf.put_slice(bytes)))
        }
    }

    #[tokio::test]
    async fn a_connection_that_breaks_behind_its_first_bytes_does_not_look_as_if_it_ended() {
        let reset = || Err(io::ErrorKind::ConnectionReset.into());
        let mut begun = Begun::new(Breaks(vec![Ok(b"POST /"), reset()]));
        assert_eq!(begun.spoken().await.unwrap(), Spoken::Http1);
        let mut begun = TokioIo::new(begun);
        let mut bytes = [0; 64];
        assert_eq!(begun.read(&mut bytes).await.unwrap(), 6);
        let broken = begun.read(&mut bytes).await.map_err(|error| error.kind());
        assert_eq!(broken, Err(io::ErrorKind::ConnectionReset));
        assert_eq!(begun.read(&mut bytes).await.unwrap(), 0);
    }
}
