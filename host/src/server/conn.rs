//! Connections: accepted within a bound, served by HTTP/1.1 or HTTP/2, and closed in order.
//!
//! A connection on which nothing is asked for a while is closed: here before its first bytes, in `http1` and `http2`
//! after them.

mod http1;
mod http2;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::io::{Bounded, Traffic, WriteLimit};
use super::leaving::Leaving;
use super::preface::{Begun, Spoken};
use super::tls::{self, Accepted, TlsSlot};
use crate::config::Tls;
use crate::proxy::Body;
use crate::turn::Turn;

/// Connections of one listener at a time; further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 32 << 10;
/// The first bytes of a connection must be there within this, and then, or after the request before, a whole head.
const HEAD_WAIT: Duration = Duration::from_secs(30);
/// Between failing attempts to accept, when the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Something that answers requests.
pub trait Serve: Send + Sync + 'static {
    /// Answers one request. Dropped when the client leaves.
    fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        writes: WriteLimit,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

    /// Answers one that came in plain text where TLS is spoken: it was read by others than us already, so that nothing
    /// in it counts any more.
    fn refuse_plain_text(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
}

/// What answers a client that speaks plain text where TLS is spoken.
struct Misled<S>(Arc<S>);

impl<S: Serve> Serve for Misled<S> {
    fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        _: WriteLimit,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        self.refuse_plain_text(request)
    }

    fn refuse_plain_text(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        self.0.clone().refuse_plain_text(request)
    }
}

/// A bound socket and what answers on it.
pub struct Listener<S> {
    socket: TcpListener,
    tls: Arc<TlsSlot>,
    service: Arc<S>,
    tracker: TaskTracker,
}

impl<S: Serve> Listener<S> {
    /// A listener on a bound socket. Each connection is accepted as `tls` has it in that moment, and ends with that.
    pub fn new(socket: TcpListener, tls: Arc<TlsSlot>, service: Arc<S>, tracker: TaskTracker) -> Self {
        Self { socket, tls, service, tracker }
    }

    /// Accepts until `ends.closing`.
    pub async fn run(self, ends: Ends) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = ends.closing.cancelled() => return,
            };
            let stream = match accepted {
                Ok((stream, _peer)) => stream,
                Err(error) => {
                    // A connection that died in the queue says nothing; running out of descriptors does.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Without it small events would wait for acknowledgements; a socket that is gone already shows itself.
            let _ = stream.set_nodelay(true);
            hold_little(&stream);
            let (speech, service, tracker) = (self.tls.get(), self.service.clone(), self.tracker.clone());
            let ends = Ends { closing: speech.closing.clone(), torn: ends.torn.clone() };
            self.tracker.spawn(async move {
                serve_stream(stream, speech.tls.clone(), service, tracker, ends).await;
                drop(place);
            });
        }
    }
}

/// Serves a connection as it comes from the socket.
async fn serve_stream<S: Serve>(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    service: Arc<S>,
    tracker: TaskTracker,
    ends: Ends,
) {
    let accepted = tokio::select! {
        biased;
        accepted = tls::accept(stream, tls) => accepted,
        () = ends.closing.cancelled() => None,
    };
    match accepted {
        None => {}
        Some(Accepted::Plain(socket)) => {
            let leaving = Leaving::Of(socket.clone());
            serve_connection(TokioIo::new(socket), leaving, service, tracker, ends).await;
        }
        Some(Accepted::Tls(stream, socket)) => {
            let leaving = Leaving::Of(socket);
            // Apart, so that connections without TLS do not carry the place for it.
            Box::pin(serve_connection(TokioIo::new(stream), leaving, service, tracker, ends)).await;
        }
        Some(Accepted::Misled(socket)) => {
            let (leaving, service) = (Leaving::Of(socket.clone()), Arc::new(Misled(service)));
            Box::pin(serve_connection(TokioIo::new(socket), leaving, service, tracker, ends)).await;
        }
    }
}

/// Bytes that wait in the kernel before it takes no more.
const UNSENT_MAX: u32 = 128 << 10;

/// Without a bound of its own the kernel takes megabytes for a client that reads slowly, and then, for as long
/// as those take, nothing: that would look like a client that reads nothing.
fn hold_little(stream: &TcpStream) {
    // A socket that is gone already shows itself.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_MAX);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (stream, UNSENT_MAX);
}

/// How connections come to their end.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    /// Nothing new is let in, and the call a connection is in is its last.
    pub closing: CancellationToken,
    /// What is left is dropped.
    pub torn: CancellationToken,
}

/// Serves one connection to its end.
pub async fn serve_connection<I, S>(
    io: I,
    leaving: Leaving,
    service: Arc<S>,
    tracker: TaskTracker,
    ends: Ends,
) where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: Serve,
{
    let (writes, traffic) = (WriteLimit::default(), Traffic::default());
    let mut io = Begun::new(io);
    // Who is there with first bytes that tell what is spoken is still answered.
    let spoken = tokio::select! {
        biased;
        spoken = tokio::time::timeout(HEAD_WAIT, io.spoken()) => spoken,
        () = ends.closing.cancelled() => return,
    };
    let Ok(Ok(spoken)) = spoken else { return };
    let io = Turn::new(Bounded::new(io, writes.clone(), traffic.clone()));
    let wire = Wire { io, writes, traffic, leaving };
    match spoken {
        Spoken::Http1 => http1::serve(wire, service, ends).await,
        // Apart, so that connections of HTTP/1.1 do not carry the place for it.
        Spoken::Http2 => Box::pin(http2::serve(wire, service, tracker, ends)).await,
    }
}

/// A connection of which it is known what is spoken.
struct Wire<I> {
    io: Turn<Bounded<Begun<I>>>,
    writes: WriteLimit,
    traffic: Traffic,
    leaving: Leaving,
}

/// What comes first to a connection that is served.
enum First {
    /// It ended, or its client left.
    Ended,
    /// It is to end.
    Goodbye,
}

/// Ready once the connection has ended, or its client has left without the connection being able to see it.
fn poll_served(
    connection: Pin<&mut impl Future>,
    traffic: &Traffic,
    leaving: &mut Leaving,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if connection.poll(cx).is_ready() {
        return Poll::Ready(());
    }
    if traffic.reads_wait() { Poll::Pending } else { leaving.poll_left(cx) }
}

/// What a connection that was asked to end still has to do, until it is torn.
async fn last_calls(
    mut connection: Pin<&mut impl Future>,
    traffic: &Traffic,
    leaving: &mut Leaving,
    ends: &Ends,
) {
    tokio::select! {
        () = poll_fn(|cx| poll_served(connection.as_mut(), traffic, leaving, cx)) => {}
        () = ends.torn.cancelled() => {}
    }
}

#[cfg(test)]
mod tests;
