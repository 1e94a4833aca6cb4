//! Noticing that a client has left while nobody reads from it.
//!
//! HTTP/1.1 reads on behind a request only as long as nothing unread is left. Once there is, be it a stray
//! line end, the end of the connection would go unseen until the answer is written. So in that state alone
//! the socket itself is asked, through a second descriptor that is made then and not before.

use std::future::Future;
use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A socket that is served in one place and looked at from another.
#[derive(Debug, Clone)]
pub struct Socket(Arc<Mutex<TcpStream>>);

impl Socket {
    /// Around a connection.
    pub fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    fn lock(&self) -> MutexGuard<'_, TcpStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(cx, buf)
    }

    /// There is nothing to flush in a socket: what was written is the kernel's.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write_vectored(cx, bufs)
    }
}

/// The leave of one client.
pub enum Leaving {
    /// Cannot be seen from outside of the connection.
    Unseen,
    /// Was not looked for yet.
    Of(Socket),
    /// Is waited for.
    Awaited(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl Leaving {
    /// Ready once the client has closed its side or reset the connection.
    pub fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Of(socket) = self {
            let second = second(&socket.lock());
            *self = match second {
                Ok(stream) => Self::Awaited(Box::pin(closed(stream))),
                Err(error) => {
                    tracing::warn!(%error, "whether a client leaves will be seen late");
                    Self::Unseen
                }
            };
        }
        match self {
            Self::Awaited(closed) => closed.as_mut().poll(cx),
            Self::Unseen | Self::Of(_) => Poll::Pending,
        }
    }
}

/// The same socket once more, with a readiness of its own.
fn second(stream: &TcpStream) -> io::Result<TcpStream> {
    let descriptor = stream.as_fd().try_clone_to_owned()?;
    TcpStream::from_std(descriptor.into())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
async fn closed(stream: TcpStream) {
    // Of the readable kinds this one alone is silent about bytes. Urgent bytes, the other thing it stands for,
    // are asked of no socket of ours.
    match stream.ready(tokio::io::Interest::PRIORITY).await {
        Ok(ready) if !ready.is_read_closed() => std::future::pending().await,
        Ok(_) | Err(_) => {}
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
async fn closed(_stream: TcpStream) {
    std::future::pending().await
}
