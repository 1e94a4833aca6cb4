//! The HTTP client that carries batches: one connection that is kept, a limit of time, a bound for the answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioTimer;
use opentelemetry_http::{HttpClient, HttpError};
use tokio_util::task::TaskTracker;

use crate::tracked::Tracked;

/// From the connect to the last byte of the answer.
const SEND: Duration = Duration::from_secs(10);
/// An idle connection is kept for so long.
const IDLE: Duration = Duration::from_secs(30);
/// Largest answer, bytes. It says what was refused, or nothing.
const ANSWER_MAX: usize = 64 << 10;

/// What went wrong with the last batch that was not answered. The library in between has one word for all of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Cause(Arc<Mutex<Option<String>>>);

impl Cause {
    /// None: there was an answer.
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, error: &HttpError) {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(next) = source {
            text.push_str(": ");
            text.push_str(&next.to_string());
            source = next.source();
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }
}

/// Nothing came within the limit.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {SEND:?}")]
struct TooSlow;

/// Sends to one collector.
pub(super) struct Sender {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    cause: Cause,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl Sender {
    /// With `tls` the system's roots are trusted, or those of `SSL_CERT_FILE`. Its connections are on `tasks`,
    /// and what goes wrong with them is noted in `cause`.
    pub(super) fn new(tls: bool, tasks: TaskTracker, cause: Cause) -> Result<Self, rustls::Error> {
        let mut roots = rustls::RootCertStore::empty();
        if tls {
            // A system without roots is no reason not to start: the handshake says what is missing.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let connector = HttpsConnectorBuilder::new().with_tls_config(config);
        let connector = connector.https_or_http().enable_http1().wrap_connector(http);
        let client = Client::builder(Tracked::new(tasks))
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        Ok(Self { client, cause })
    }
}

impl HttpClient for Sender {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let sent = async {
                let (head, body) = self.client.request(request.map(Full::new)).await?.into_parts();
                let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
                Ok::<_, HttpError>(Response::from_parts(head, body))
            };
            let sent = tokio::time::timeout(SEND, sent).await;
            sent.unwrap_or_else(|_| Err(TooSlow.into())).inspect_err(|error| self.cause.note(error))
        })
    }
}
