//! The bare proxy that everything is a ratio of: a hyper server, a pooled hyper client, and nothing else.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::place;

/// Most bytes gathered before they are written.
const GATHERED: usize = 32 << 10;
/// Turns given to the client's connection before what is there is written.
const TURNS: u8 = 4;

type Answer = Response<UnsyncBoxBody<Bytes, hyper::Error>>;

/// Passes everything to `upstream` until it is killed.
pub async fn serve(upstream: SocketAddr, gathers: bool) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port of its own");
    place::say(listener.local_addr().expect("it is bound"));
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<HttpConnector, Incoming> =
        Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let client = client.clone();
        let pass = service_fn(move |request| pass(request, client.clone(), upstream, gathers));
        connections.spawn(async move {
            // How it ended is seen by the load.
            let _ =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), pass).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn pass(
    mut request: Request<Incoming>,
    client: Client<HttpConnector, Incoming>,
    upstream: SocketAddr,
    gathers: bool,
) -> Result<Answer, std::convert::Infallible> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::try_from(format!("http://{upstream}{path}")).expect("an address and a path");
    *request.uri_mut() = uri;
    request.headers_mut().remove(hyper::header::HOST);
    Ok(match client.request(request).await {
        Ok(answer) if gathers => answer.map(|body| Gathering::new(body).boxed_unsync()),
        Ok(answer) => answer.map(|body| body.boxed_unsync()),
        Err(error) => {
            let body = Full::new(Bytes::from(error.to_string())).map_err(|never| match never {});
            let mut answer = Response::new(body.boxed_unsync());
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        }
    })
}

/// A body that gives what is there in one piece.
struct Gathering {
    from: Incoming,
    held: BytesMut,
    turns: u8,
    over: bool,
}

impl Gathering {
    fn new(from: Incoming) -> Self {
        Self { from, held: BytesMut::new(), turns: 0, over: false }
    }

    fn give(&mut self) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.turns = 0;
        Poll::Ready(Some(Ok(Frame::data(self.held.split().freeze()))))
    }
}

impl Body for Gathering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        while !self.over && self.held.len() < GATHERED {
            let next = Pin::new(&mut self.from).poll_frame(cx);
            if next.is_pending() && !self.held.is_empty() {
                if self.turns == TURNS {
                    break;
                }
                self.turns += 1;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match ready!(next).transpose()? {
                Some(frame) => {
                    if let Ok(data) = frame.into_data() {
                        self.held.extend_from_slice(&data);
                    }
                }
                None => self.over = true,
            }
        }
        if self.held.is_empty() { Poll::Ready(None) } else { self.give() }
    }
}
