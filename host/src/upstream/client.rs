//! Requests to one upstream over connections that are kept.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper::rt::{Read as _, ReadBuf, Write as _};
use hyper_util::rt::TokioTimer;
use secrecy::ExposeSecret as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::UpstreamBody;
use super::dial::{Dial, Io};
use super::dialing::{Dialing, Turn};
use super::error::{ConnectError, ExchangeError};
use super::line::Line;
use super::pool::{Connection, Pool};
use super::shared::{Place, Shared, Usage, Watched};
use crate::config::Upstream;
use crate::tracked::Tracked;

/// While exchanges run on an HTTP/2 connection and nothing comes, its peer is asked so often whether it is there,
const PING_EVERY: Duration = Duration::from_secs(5);
/// and has so long to answer before the connection is given up.
const PING_WAIT: Duration = Duration::from_secs(5);
/// An HTTP/2 peer whose first word takes longer gets the one exchange for which the connection was made.
const FIRST_WORD: Duration = Duration::from_secs(1);

/// Everything needed to call one upstream. Shared by all generations that agree on its connection settings.
pub struct Client {
    upstream: Arc<Upstream>,
    dial: Arc<dyn Dial>,
    pool: Arc<Pool>,
    credentials: Vec<HeaderValue>,
    fixed: Vec<(http::HeaderName, HeaderValue)>,
    tracker: TaskTracker,
    dialing: Arc<Dialing>,
}

/// An answer whose head has come.
pub struct Exchange {
    /// Status and headers.
    pub head: http::response::Parts,
    /// The body.
    pub body: UpstreamBody,
}

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
        Self {
            credentials: credentials.collect(),
            fixed: fixed.collect(),
            pool: Pool::new(upstream.pool_idle, tracker.clone(), stop),
            upstream,
            dial,
            tracker,
            dialing: Arc::default(),
        }
    }

    /// The settings this client was made from.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Writes what belongs to the upstream into a request: address, host, fixed headers, the credential.
    /// `path` begins with a slash and stands behind the base URL's.
    pub fn address(&self, request: &mut Request<Full<Bytes>>, path: &str, credential: Option<usize>) {
        let base = &self.upstream.base;
        let target = match &base.query {
            Some(query) => format!("{}{path}?{query}", base.path),
            None => format!("{}{path}", base.path),
        };
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(base.authority.as_str()) {
            headers.insert(http::header::HOST, host);
        }
        headers.insert(http::header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in &self.fixed {
            headers.insert(name.clone(), value.clone());
        }
        if let Some(value) = credential.and_then(|index| self.credentials.get(index)) {
            headers.insert(self.upstream.auth_header.clone(), value.clone());
        }
        if let Ok(uri) = target.parse() {
            *request.uri_mut() = uri;
        }
    }

    /// Sends a request and waits for the head. `line` is told which HTTP/1.1 connection is used. `make` builds the
    /// request, a second time when a reused connection turns out dead.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection it was using, or resets its stream of an HTTP/2 connection.
    ///
    /// # Errors
    /// When no connection could be made within `connect_limit`, or it failed before the head was complete.
    pub async fn exchange(
        &self,
        connect_limit: Duration,
        line: &Line,
        make: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<Exchange, ExchangeError> {
        while let Some(mut kept) = self.pool.take() {
            if kept.ready().await.is_err() {
                continue;
            }
            return match self.send(kept, line, make()).await {
                Ok(exchange) => Ok(exchange),
                // It closed in the very moment it was picked up, or its server does not serve twice.
                Err(error) if is_dead(&error) => {
                    let fresh = self.connect(connect_limit).await?;
                    self.send(fresh, line, make()).await.map_err(ExchangeError::Send)
                }
                Err(error) => Err(ExchangeError::Send(error)),
            };
        }
        let fresh = self.connect(connect_limit).await?;
        self.send(fresh, line, make()).await.map_err(ExchangeError::Send)
    }

    async fn send(
        &self,
        mut connection: Connection,
        line: &Line,
        request: Request<Full<Bytes>>,
    ) -> Result<Exchange, hyper::Error> {
        let sent = match &mut connection {
            Connection::Http1 { sender, closed } => {
                line.uses(closed);
                sender.send_request(request).await
            }
            Connection::Http2 { sender, place } => {
                place.begins();
                let sent = sender.send_request(self.for_http2(request)).await;
                if sent.is_ok() {
                    place.answered()
                } else {
                    place.breaks()
                }
                sent
            }
        };
        let (head, incoming) = sent?.into_parts();
        let body =
            UpstreamBody::new(incoming, connection, self.pool.clone(), line.clone(), self.tracker.clone());
        Ok(Exchange { head, body })
    }

    /// In HTTP/2 the host is a part of the address.
    fn for_http2(&self, mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
        let base = &self.upstream.base;
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(if base.tls { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP });
        parts.authority = Some(base.authority.clone());
        if let Ok(uri) = http::Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        request.headers_mut().remove(http::header::HOST);
        request
    }

    async fn connect(&self, limit: Duration) -> Result<Connection, ConnectError> {
        let opening = async {
            loop {
                if let Some(turn) = self.dialing.turn().await {
                    return self.open(turn).await;
                }
                if let Some(made_meanwhile) = self.pool.take() {
                    return Ok(made_meanwhile);
                }
            }
        };
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        tokio::time::timeout(limit, opening).await.map_err(|_| ConnectError::TimedOut { limit_ms })?
    }

    /// Makes a connection.
    async fn open(&self, turn: Turn) -> Result<Connection, ConnectError> {
        let dialed = self.dial.dial(&self.upstream.base).await?;
        if dialed.http2 {
            return self.open_http2(dialed.io, turn).await;
        }
        self.dialing.expect(1);
        let closed = CancellationToken::new();
        // A broken connection shows itself to whoever is using it; there is nobody else to tell.
        let gone = closed.clone().drop_guard();
        let (sender, connection) =
            http1::Builder::new().handshake(dialed.io).await.map_err(ConnectError::Http)?;
        self.tracker.spawn(async move {
            if let Ok(parts) = connection.without_shutdown().await {
                close(parts.io).await;
            }
            drop(gone);
        });
        Ok(Connection::Http1 { sender, closed })
    }

    async fn open_http2(&self, io: Box<dyn Io>, turn: Turn) -> Result<Connection, ConnectError> {
        let usage = Usage::new();
        let (sender, connection) = http2::Builder::new(Tracked::new(self.tracker.clone()))
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_WAIT)
            .handshake(Watched::new(io, usage.clone()))
            .await
            .map_err(ConnectError::Http)?;
        let place = Place::take(&usage, Arc::downgrade(&self.pool));
        let pool = Arc::downgrade(&self.pool);
        let waits = Waits { shared: Shared { sender: sender.clone(), usage }, pool, _turn: turn };
        self.tracker.spawn(drive(connection, waits, self.dialing.clone()));
        Ok(Connection::Http2 { sender, place })
    }

    /// HTTP/2 connections that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.pool.kept()
    }
}

/// A connection that is shared once its peer's limits are known.
struct Waits {
    shared: Shared,
    pool: Weak<Pool>,
    _turn: Turn,
}

impl Waits {
    fn over(self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.share(self.shared);
        }
    }
}

/// Drives a connection to its end and keeps an eye on what its peer allows. A broken connection shows itself to
/// whoever is using it; there is nobody else to tell.
async fn drive(
    connection: http2::Connection<Watched, Full<Bytes>, Tracked>,
    waits: Waits,
    dialing: Arc<Dialing>,
) {
    let usage = waits.shared.usage.clone();
    let mut waits = Some(waits);
    let mut connection = std::pin::pin!(connection);
    let mut patience = std::pin::pin!(tokio::time::sleep(FIRST_WORD));
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = usage.bell.notified() => {
                dialing.expect(usage.allow(connection.current_max_send_streams()));
                if let Some(waits) = waits.take() {
                    waits.over();
                }
            }
            () = patience.as_mut(), if waits.is_some() => waits = None,
        }
    }
}

impl Connection {
    async fn ready(&mut self) -> Result<(), hyper::Error> {
        match self {
            Self::Http1 { sender, .. } => sender.ready().await,
            Self::Http2 { sender, .. } => sender.ready().await,
        }
    }
}

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

/// The connection was gone before it gave one byte of an answer.
fn is_dead(error: &hyper::Error) -> bool {
    use sluice_core::kind::TransportError as T;
    !error.is_parse() && matches!(super::error::http_class(error), T::Closed | T::Reset)
}
