//! A connection that speaks HTTP/2: many calls at a time, whose bodies are watched one by one, and a bound to the
//! time without any.

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use tokio_util::task::TaskTracker;

use super::{Ends, First, HEAD_WAIT, Serve, Wire, last_calls, poll_served};
use crate::server::calls::Calls;
use crate::server::io::{Traffic, WriteLimit};
use crate::server::unread::{Served, Watch};
use crate::tracked::Tracked;
use crate::woken::Woken;

/// A connection that was asked to end, carries no call and writes nothing may take this long to do so.
pub(super) const GOODBYE_WAIT: Duration = Duration::from_secs(5);
/// The last bytes of its answers may take this long.
pub(super) const LAST_BYTES_WAIT: Duration = Duration::from_secs(600);
/// Streams of one connection.
const STREAMS_MAX: u32 = 256;

/// Serves it to its end.
pub(super) async fn serve<I, S>(wire: Wire<I>, service: Arc<S>, tracker: TaskTracker, ends: Ends)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: Serve,
{
    let Wire { io, writes, traffic, mut leaving } = wire;
    let calls = Calls::default();
    let answer = service_fn(|request: Request<Incoming>| {
        let call = calls.begin();
        let limit = WriteLimit::default();
        let answer = service.clone().serve(request, limit.clone());
        let (writes, tracker) = (writes.clone(), tracker.clone());
        async move {
            let answer = answer.await.map(|body| call.holds(body));
            writes.widen(&limit);
            Ok::<_, Infallible>(answer.map(|body| match limit.get() {
                Some(limit) => Served::Watched(Watch::over(body, limit, &tracker)),
                None => Served::Plain(body),
            }))
        }
    });
    let mut builder = http2::Builder::new(Tracked::new(tracker.clone()));
    builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX);
    // How a connection ends is the client's affair: what matters was settled by the calls on it.
    let mut connection = pin!(builder.serve_connection(io, answer));
    let first = {
        let closing = pin!(ends.closing.cancelled());
        let mut closing = Woken::new(closing);
        let quiet = pin!(calls.quiet(HEAD_WAIT));
        let mut quiet = Woken::new(quiet);
        poll_fn(|cx| {
            if poll_served(connection.as_mut(), &traffic, &mut leaving, cx).is_ready() {
                return Poll::Ready(First::Ended);
            }
            if pin!(&mut closing).poll(cx).is_ready() {
                return Poll::Ready(First::Goodbye);
            }
            pin!(&mut quiet).poll(cx).map(|()| First::Goodbye)
        })
        .await
    };
    match first {
        First::Ended => {}
        First::Goodbye => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                // What this writes at once is then no reason to wait longer.
                biased;
                () = last_calls(connection, &traffic, &mut leaving, &ends) => {}
                () = is_at_rest(&calls, &traffic, &writes) => {}
                () = is_without_calls(&calls) => {}
            }
        }
    }
}

/// Ready once there was no call, and nothing was written, for a while. A call ends when its last bytes are handed to the
/// connection, and its client may be taking them still: for each piece it has as long as for one of a call.
async fn is_at_rest(calls: &Calls, traffic: &Traffic, writes: &WriteLimit) {
    loop {
        let written = traffic.written();
        let limit = writes.get().unwrap_or(LAST_BYTES_WAIT).max(GOODBYE_WAIT);
        calls.quiet(if calls.were_any() { limit } else { GOODBYE_WAIT }).await;
        if traffic.written() == written {
            return;
        }
    }
}

/// Ready once there was no call for so long that it does not matter what is written: a client may keep that up for ever,
/// and also asking. What crosses the goodbye on its way is still a call; what comes after that is not.
async fn is_without_calls(calls: &Calls) {
    tokio::time::sleep(GOODBYE_WAIT).await;
    calls.close();
    calls.quiet(LAST_BYTES_WAIT).await;
}
