//! Requests to one upstream over connections that are kept.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::{Read as _, ReadBuf, Write as _};
use hyper_util::rt::TokioTimer;
use secrecy::ExposeSecret as _;
use sluice_core::lens::wire::Wire;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::UpstreamBody;
use super::dial::{Dial, Io};
use super::error::{ConnectError, ExchangeError, is_unread};
use super::line::Line;
use super::pool::{Connection, Pool, STREAMS_MAX, Sender};
use crate::config::{BaseUrl, Upstream};
use crate::tracked::Tracked;
use crate::turn::Turn;

/// Everything needed to call one upstream. Shared by all generations that agree on its connection settings.
pub struct Client {
    upstream: Arc<Upstream>,
    dial: Arc<dyn Dial>,
    pool: Arc<Pool>,
    credentials: Vec<HeaderValue>,
    fixed: Vec<(http::HeaderName, HeaderValue)>,
    host: Option<HeaderValue>,
    /// Where calls go, by the path behind the base URL.
    paths: Vec<(&'static str, Uri)>,
    tracker: TaskTracker,
}

/// An answer whose head has come.
pub struct Exchange {
    /// Status and headers.
    pub head: http::response::Parts,
    /// The body.
    pub body: UpstreamBody,
}

/// A connection that is being made.
type Opening<'a> = Pin<Box<dyn Future<Output = Result<Connection, ConnectError>> + Send + 'a>>;

impl Client {
    /// A client without connections. The upstream's keys and fixed headers are known to be header values.
    pub fn new(
        upstream: Arc<Upstream>,
        dial: Arc<dyn Dial>,
        tracker: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let bearer = upstream.auth_header == http::header::AUTHORIZATION;
        let sensitive = |text: &str| {
            let mut value = HeaderValue::from_str(text).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        let credentials = upstream.credentials.iter().filter_map(|credential| {
            let key = credential.key.expose_secret();
            if bearer { sensitive(&format!("Bearer {key}")) } else { sensitive(key) }
        });
        let fixed = upstream
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), sensitive(value.expose_secret())?)));
        let paths = Wire::ALL.into_iter().map(Wire::path);
        Self {
            host: HeaderValue::from_str(upstream.base.authority.as_str()).ok(),
            paths: paths.filter_map(|path| Some((path, uri(&upstream.base, path)?))).collect(),
            credentials: credentials.collect(),
            fixed: fixed.collect(),
            pool: Pool::new(upstream.pool_idle, tracker.clone(), stop),
            upstream,
            dial,
            tracker,
        }
    }

    /// The settings this client was made from.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Whether it connects and speaks as `upstream` asks, so that it can go on with its connections. What is in
    /// its `ca_file` is not looked at.
    pub fn serves(&self, upstream: &Upstream) -> bool {
        let own = &*self.upstream;
        let keys = |of: &Upstream| -> Vec<String> {
            of.credentials.iter().map(|credential| credential.key.expose_secret().to_owned()).collect()
        };
        let headers = |of: &Upstream| -> Vec<_> {
            of.headers.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect()
        };
        own.name == upstream.name
            && own.base == upstream.base
            && own.auth_header == upstream.auth_header
            && own.pool_idle == upstream.pool_idle
            && own.ca_file == upstream.ca_file
            && keys(own) == keys(upstream)
            && headers(own) == headers(upstream)
    }

    /// Writes what belongs to the upstream into a request: address, host, fixed headers, the credential.
    /// `path` begins with a slash and stands behind the base URL's.
    pub fn address(&self, request: &mut Request<Full<Bytes>>, path: &str, credential: Option<usize>) {
        let known = self.paths.iter().find(|(known, _)| *known == path);
        if let Some(uri) = known.map(|(_, uri)| uri.clone()).or_else(|| uri(&self.upstream.base, path)) {
            *request.uri_mut() = uri;
        }
        let headers = request.headers_mut();
        if let Some(host) = &self.host {
            headers.insert(http::header::HOST, host.clone());
        }
        headers.insert(http::header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in &self.fixed {
            headers.insert(name.clone(), value.clone());
        }
        if let Some(value) = credential.and_then(|index| self.credentials.get(index)) {
            headers.insert(self.upstream.auth_header.clone(), value.clone());
        }
    }

    /// Sends a request, now, and waits for the head. `line` is told which connection is used. `make` builds the request, a second time when a reused
    /// connection turns out dead.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection it was using.
    ///
    /// # Errors
    /// When no connection could be made within `connect_limit`, or it failed before the head was complete.
    pub async fn exchange(
        &self,
        now: Instant,
        connect_limit: Duration,
        line: &Line,
        make: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<Exchange, ExchangeError> {
        while let Some(mut kept) = self.pool.take(now) {
            if kept.sender.ready().await.is_err() {
                continue;
            }
            return match self.send(kept, line, make()).await {
                Ok(exchange) => Ok(exchange),
                // It closed in the very moment it was picked up, or its server does not serve twice.
                Err(error) if is_unread(&error) => {
                    let fresh = self.opened(connect_limit).await?;
                    self.send(fresh, line, make()).await.map_err(ExchangeError::Send)
                }
                Err(error) => Err(ExchangeError::Send(error)),
            };
        }
        let fresh = self.opened(connect_limit).await?;
        self.send(fresh, line, make()).await.map_err(ExchangeError::Send)
    }

    /// The request goes out before there is a future, which would carry the place for it.
    fn send(
        &self,
        mut connection: Connection,
        line: &Line,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = Result<Exchange, hyper::Error>> {
        if matches!(connection.sender, Sender::Http1(_)) {
            line.uses(&connection.closed);
        }
        let answer = connection.sender.send(request, &self.upstream);
        async move {
            let (head, incoming) = answer.await?.into_parts();
            let body = UpstreamBody::new(incoming, connection, self.pool.clone(), line.clone());
            Ok(Exchange { head, body })
        }
    }

    /// Apart, so that an exchange on a connection that is there does not carry the place for making one.
    fn opened(&self, limit: Duration) -> Opening<'_> {
        Box::pin(self.connect(limit))
    }

    async fn connect(&self, limit: Duration) -> Result<Connection, ConnectError> {
        let opening = async {
            let dialed = self.dial.dial(&self.upstream.base).await?;
            let closed = CancellationToken::new();
            // A broken connection shows itself to whoever is using it; there is nobody else to tell.
            let gone = closed.clone().drop_guard();
            if dialed.http2 {
                let (sender, connection) = http2::Builder::new(Tracked::new(self.tracker.clone()))
                    .timer(TokioTimer::new())
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(STREAM_WINDOW * STREAMS_MAX)
                    .keep_alive_interval(PING_EVERY)
                    .keep_alive_timeout(PING_WAIT)
                    .handshake(dialed.io)
                    .await
                    .map_err(ConnectError::Http)?;
                self.tracker.spawn(async move {
                    drop(connection.await);
                    drop(gone);
                });
                let connection = Connection::new(Sender::Http2(sender), closed);
                if let Some(shared) = connection.shared() {
                    self.pool.put(shared);
                }
                return Ok(connection);
            }
            let (sender, mut connection) =
                http1::Builder::new().handshake(Turn::new(dialed.io)).await.map_err(ConnectError::Http)?;
            self.tracker.spawn(async move {
                if poll_fn(|cx| connection.poll_without_shutdown(cx)).await.is_ok() {
                    // Apart, so that a connection does not carry the place for its end all its life.
                    Box::pin(close(connection.into_parts().io.into_inner())).await;
                }
                drop(gone);
            });
            Ok(Connection::new(Sender::Http1(sender), closed))
        };
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        tokio::time::timeout(limit, opening).await.map_err(|_| ConnectError::TimedOut { limit_ms })?
    }
}

/// What the request line says. A base URL was checked, so that there is always one.
fn uri(base: &BaseUrl, path: &str) -> Option<Uri> {
    let target = match &base.query {
        Some(query) => format!("{}{path}?{query}", base.path),
        None => format!("{}{path}", base.path),
    };
    target.parse().ok()
}

impl Sender {
    async fn ready(&mut self) -> Result<(), hyper::Error> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        }
    }

    fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
        upstream: &Upstream,
    ) -> impl Future<Output = Result<Response<Incoming>, hyper::Error>> + use<> {
        match self {
            Self::Http1(sender) => Either::Left(sender.send_request(request)),
            Self::Http2(sender) => {
                let mut parts = std::mem::take(request.uri_mut()).into_parts();
                parts.scheme =
                    Some(if upstream.base.tls { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP });
                parts.authority = Some(upstream.base.authority.clone());
                if let Ok(uri) = http::Uri::from_parts(parts) {
                    *request.uri_mut() = uri;
                }
                request.headers_mut().remove(http::header::HOST);
                Either::Right(sender.send_request(request))
            }
        }
    }
}

/// What may be on its way on one HTTP/2 stream. A connection takes as much for each of its streams, so that a
/// client that reads slowly holds up no other.
const STREAM_WINDOW: u32 = 128 << 10;
/// A connection on which streams wait and nobody answers a ping is dead: its streams fail, and the next call
/// makes another.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_WAIT: Duration = Duration::from_secs(10);

/// How long an upstream may take to notice that it was hung up on.
const HANG_UP: Duration = Duration::from_millis(100);

/// Closes our side and waits a moment for the other: only then has the upstream let go of the exchange too.
async fn close(mut io: Box<dyn Io>) {
    let closing = async {
        poll_fn(|cx| Pin::new(&mut io).poll_shutdown(cx)).await?;
        let mut ignored = [0; 4096];
        loop {
            let mut read = ReadBuf::new(&mut ignored);
            poll_fn(|cx| Pin::new(&mut io).poll_read(cx, read.unfilled())).await?;
            if read.filled().is_empty() {
                return Ok::<_, std::io::Error>(());
            }
        }
    };
    // However it ends, the connection is dropped now.
    let _ = tokio::time::timeout(HANG_UP, closing).await;
}
