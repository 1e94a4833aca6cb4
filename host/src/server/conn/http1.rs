//! A connection that speaks HTTP/1.1: one call at a time. hyper itself bounds the time without a request.

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;

use super::{Ends, First, HEAD_WAIT, Serve, Wire, last_calls, poll_served};
use crate::woken::Woken;

/// Serves it to its end.
pub(super) async fn serve<I, S>(wire: Wire<I>, service: Arc<S>, ends: Ends)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: Serve,
{
    let Wire { io, writes, traffic, mut leaving } = wire;
    let answer = service_fn(|request: Request<Incoming>| {
        writes.begin();
        let answer = service.clone().serve(request, writes.clone());
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT);
    // How a connection ends is the client's affair: what matters was settled by the calls on it.
    let mut connection = pin!(builder.serve_connection(io, answer));
    let closing = pin!(ends.closing.cancelled());
    let mut closing = Woken::new(closing);
    let first = poll_fn(|cx| {
        if poll_served(connection.as_mut(), &traffic, &mut leaving, cx).is_ready() {
            return Poll::Ready(First::Ended);
        }
        pin!(&mut closing).poll(cx).map(|()| First::Goodbye)
    });
    match first.await {
        First::Ended => {}
        First::Goodbye => {
            connection.as_mut().graceful_shutdown();
            last_calls(connection, &traffic, &mut leaving, &ends).await;
        }
    }
}
