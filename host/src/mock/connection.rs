//! Connections of a scripted upstream: accepted up to a bound, served, ended gently when told to stop.
//!
//! Nothing here knows what is answered. The one thing a provider does that a server library will not do
//! for us is a TCP reset; the stream wrapper at the end does it when a script asked for one.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Shared;
use super::exchange;
use crate::tracked::Tracked;

/// Connections at a time; later ones wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 4096;
/// A request head that takes longer is no request.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// What running answers have after the stop.
const GRACE: Duration = Duration::from_secs(1);
/// Before accepting again when the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until stopped.
pub(super) async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    tracker: TaskTracker,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accepted => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (shared, executor, stop) = (Arc::clone(&shared), Tracked::new(tracker.clone()), stop.clone());
        tracker.spawn(async move {
            serve(stream, shared, executor, stop).await;
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, executor: Tracked, stop: CancellationToken) {
    // Without it small events wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(Resettable { stream, reset: Arc::clone(&reset) });
    let mut builder = auto::Builder::new(executor);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    builder.http2().timer(TokioTimer::new());
    let service =
        service_fn(move |request| exchange::answer(request, Arc::clone(&shared), Arc::clone(&reset)));
    let mut connection = pin!(builder.serve_connection(io, service));
    // How a connection ends is told by the counters: most ends here are the ones a script wanted.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(GRACE, connection).await;
}

/// A connection that ends in a TCP reset once its flag is set.
struct Resettable {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Resettable {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Acquire) {
            // A socket that cannot be told so closes the ordinary way, which callers see as a cut.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Resettable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Resettable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
