//! The other end of one connection, as a scripted upstream holds it: requests in, bytes out, and a
//! close by the gateway noticed during either.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::step::Latch;
use crate::upstream::How;

/// Most that a peer may send while an answer is played.
const MAX_EARLY: usize = 1 << 20;

/// The other end of one connection.
pub(crate) struct Peer {
    stream: Stream,
    /// What came while an answer was played, or behind a request.
    early: BytesMut,
}

impl Peer {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, early: BytesMut::new() }
    }

    /// The connection will end in a TCP reset.
    pub(crate) fn reset_on_close(&self) {
        self.stream.tcp().set_zero_linger().expect("a socket takes linger");
    }

    /// The next request; none when the gateway closed instead.
    pub(crate) async fn request(&mut self) -> io::Result<Option<(String, Bytes)>> {
        let end = loop {
            if let Some(end) = self.early.windows(4).position(|w| w == b"\r\n\r\n") {
                break end;
            }
            if self.stream.read_buf(&mut self.early).await? == 0 {
                return Ok(None);
            }
        };
        let head = String::from_utf8_lossy(&self.early.split_to(end)).into_owned();
        self.early.advance(4);
        let field = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim().to_owned())
        };
        let body = if field("transfer-encoding").is_some() {
            self.chunked().await?
        } else {
            let length =
                field("content-length").map_or(0, |n| n.parse().expect("content-length is a number"));
            self.exactly(length).await?
        };
        Ok(Some((head, body)))
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Bytes> {
        while self.early.len() < length {
            if self.stream.read_buf(&mut self.early).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.early.split_to(length).freeze())
    }

    async fn chunked(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let line = loop {
                if let Some(end) = self.early.windows(2).position(|w| w == b"\r\n") {
                    break self.exactly(end + 2).await?;
                }
                if self.stream.read_buf(&mut self.early).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            };
            let digits = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
            let size = usize::from_str_radix(digits.trim(), 16).expect("a chunk size is hexadecimal");
            let chunk = self.exactly(size + 2).await?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return Ok(body.freeze());
            }
        }
    }

    /// Ready only when the gateway has left.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<How> {
        let mut space = [0_u8; 4096];
        loop {
            let mut buf = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)) {
                Err(_) => return Poll::Ready(How::Reset),
                Ok(()) if buf.filled().is_empty() => return Poll::Ready(How::Closed),
                Ok(()) => {
                    assert!(
                        self.early.len() < MAX_EARLY,
                        "the gateway floods an upstream that is still answering"
                    );
                    self.early.extend_from_slice(buf.filled());
                }
            }
        }
    }

    pub(crate) async fn write_some(&mut self, bytes: &[u8]) -> Result<usize, How> {
        poll_fn(|cx| {
            if let Poll::Ready(how) = self.poll_left(cx) {
                return Poll::Ready(Err(how));
            }
            Pin::new(&mut self.stream).poll_write(cx, bytes).map_err(|_| How::Reset)
        })
        .await
    }

    pub(crate) async fn flush(&mut self) -> Result<(), How> {
        self.stream.flush().await.map_err(|_| How::Reset)
    }

    /// Waits, unless the gateway leaves first.
    pub(crate) async fn pause(&mut self, time: Duration) -> Result<(), How> {
        if time.is_zero() {
            return Ok(());
        }
        tokio::select! {
            how = poll_fn(|cx| self.poll_left(cx)) => Err(how),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }

    /// Waits for the test, unless the gateway leaves first.
    pub(crate) async fn hold(&mut self, latch: &Latch) -> Result<(), How> {
        tokio::select! {
            how = poll_fn(|cx| self.poll_left(cx)) => Err(how),
            () = latch.opened() => Ok(()),
        }
    }

    pub(crate) async fn cut(&mut self) {
        // The gateway may have been faster; then there is nothing to close.
        let _ = self.stream.shutdown().await;
    }
}

/// Plain or TLS, of either side.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
