//! Making connections: name resolution, TCP, TLS. Behind a trait, so that the whole path above it can run
//! over pipes in memory.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tower_service::Service;

use super::error::{ConnectError, find};
use crate::config::{BaseUrl, Upstream};

/// What the system holds of an answer that is not read yet. Left to itself it takes many megabytes for each
/// client that reads slowly.
const RECEIVE_BUFFER: usize = 256 << 10;

/// A connection in both directions.
pub trait Io: hyper::rt::Read + hyper::rt::Write + Unpin + Send {}

impl<T: hyper::rt::Read + hyper::rt::Write + Unpin + Send> Io for T {}

/// A connection and the protocol both sides agreed on.
pub struct Dialed {
    /// The connection.
    pub io: Box<dyn Io>,
    /// HTTP/2 was negotiated.
    pub http2: bool,
}

/// Something that makes connections to a base URL.
pub trait Dial: Send + Sync {
    /// Makes one connection. The caller bounds it in time and may drop it at any point.
    ///
    /// # Errors
    /// The step that failed.
    fn dial<'a>(
        &'a self,
        base: &'a BaseUrl,
    ) -> Pin<Box<dyn Future<Output = Result<Dialed, ConnectError>> + Send + 'a>>;
}

/// The roots to trust could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TlsSetupError {
    /// `ca_file` is not a readable PEM file.
    #[error("upstream {upstream}: ca_file {file}: expected certificates in PEM: {source}")]
    CaFile {
        /// The upstream.
        upstream: Arc<str>,
        /// The file.
        file: String,
        /// What was wrong.
        source: rustls::pki_types::pem::Error,
    },
    /// `ca_file` holds no certificate.
    #[error("upstream {upstream}: ca_file {file}: expected certificates in PEM, found none")]
    CaEmpty {
        /// The upstream.
        upstream: Arc<str>,
        /// The file.
        file: String,
    },
    /// A certificate that cannot be a root.
    #[error("upstream {upstream}: a root certificate is of no use: {source}")]
    Root {
        /// The upstream.
        upstream: Arc<str>,
        /// What was wrong.
        source: rustls::Error,
    },
}

/// Connections over TCP, with TLS for `https`.
pub struct TcpDial {
    connector: HttpsConnector<HttpConnector<Resolver>>,
}

impl TcpDial {
    /// A dialler for an upstream: with its own roots, else the system's or those of `SSL_CERT_FILE`.
    ///
    /// # Errors
    /// When `ca_file` cannot be used.
    pub fn new(upstream: &Upstream) -> Result<Self, TlsSetupError> {
        let mut http = HttpConnector::new_with_resolver(Resolver(GaiResolver::new()));
        http.set_nodelay(true);
        http.set_recv_buffer_size(Some(RECEIVE_BUFFER));
        http.enforce_http(false);
        let roots = if upstream.base.tls { roots(upstream)? } else { rustls::RootCertStore::empty() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| TlsSetupError::Root { upstream: upstream.name.clone(), source })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(http);
        Ok(Self { connector })
    }
}

fn roots(upstream: &Upstream) -> Result<rustls::RootCertStore, TlsSetupError> {
    let mut store = rustls::RootCertStore::empty();
    match &upstream.ca_file {
        Some(file) => {
            for certificate in read_pem(upstream, file)? {
                store
                    .add(certificate)
                    .map_err(|source| TlsSetupError::Root { upstream: upstream.name.clone(), source })?;
            }
        }
        // A system without roots is no reason not to start: the handshake says what is missing.
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(store)
}

fn read_pem(upstream: &Upstream, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsSetupError> {
    let shown = || file.display().to_string();
    let fault = |source| TlsSetupError::CaFile { upstream: upstream.name.clone(), file: shown(), source };
    let found: Vec<_> =
        CertificateDer::pem_file_iter(file).map_err(fault)?.collect::<Result<_, _>>().map_err(fault)?;
    if found.is_empty() {
        return Err(TlsSetupError::CaEmpty { upstream: upstream.name.clone(), file: shown() });
    }
    Ok(found)
}

impl Dial for TcpDial {
    fn dial<'a>(
        &'a self,
        base: &'a BaseUrl,
    ) -> Pin<Box<dyn Future<Output = Result<Dialed, ConnectError>> + Send + 'a>> {
        Box::pin(async move {
            let scheme = if base.tls { "https" } else { "http" };
            let uri = http::Uri::builder()
                .scheme(scheme)
                .authority(base.authority.clone())
                .path_and_query("/")
                .build()
                .map_err(|e| ConnectError::Io(io::Error::new(io::ErrorKind::InvalidInput, e)))?;
            let mut connector = self.connector.clone();
            let stream = connector.call(uri).await.map_err(|error| classify(&*error))?;
            let http2 = stream.connected().is_negotiated_h2();
            // Without the place for TLS where none is spoken: a kilobyte for as long as the connection lives.
            let io: Box<dyn Io> = match stream {
                MaybeHttpsStream::Http(stream) => Box::new(stream),
                MaybeHttpsStream::Https(stream) => Box::new(stream),
            };
            Ok(Dialed { io, http2 })
        })
    }
}

/// The step that failed, by the types in the chain of causes.
fn classify(error: &(dyn std::error::Error + 'static)) -> ConnectError {
    if let Some(Unresolved(kind)) = find::<Unresolved>(error) {
        return ConnectError::Dns(io::Error::from(*kind));
    }
    match find::<io::Error>(error).map(innermost) {
        Some(io) if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            ConnectError::Tls(io::Error::new(io.kind(), io.to_string()))
        }
        Some(io) => match io.raw_os_error() {
            Some(code) => ConnectError::Io(io::Error::from_raw_os_error(code)),
            // Only the handshake reads before the first request.
            None if io.kind() == io::ErrorKind::UnexpectedEof => ConnectError::Tls(io.kind().into()),
            None => ConnectError::Io(io.kind().into()),
        },
        None => ConnectError::Io(io::ErrorKind::Other.into()),
    }
}

/// Layers put the I/O error of the one below into their own, which then has no cause but that of the inner.
fn innermost(mut error: &io::Error) -> &io::Error {
    while let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>()) {
        error = inner;
    }
    error
}

/// The system's resolver, with an error that can be told apart by its type.
#[derive(Clone)]
struct Resolver(GaiResolver);

#[derive(Debug, thiserror::Error)]
#[error("the name does not resolve: {0}")]
struct Unresolved(io::ErrorKind);

impl Service<Name> for Resolver {
    type Response = hyper_util::client::legacy::connect::dns::GaiAddrs;
    type Error = Unresolved;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Unresolved>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Unresolved>> {
        self.0.poll_ready(cx).map_err(|e| Unresolved(e.kind()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolving = self.0.call(name);
        Box::pin(async move { resolving.await.map_err(|e| Unresolved(e.kind())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_core::kind::TransportError as T;

    #[test]
    fn a_handshake_that_fails_is_told_by_what_it_failed_of_however_it_is_wrapped() {
        let certificate = || {
            let of = rustls::CertificateError::NotValidForName;
            io::Error::new(io::ErrorKind::InvalidData, rustls::Error::InvalidCertificate(of))
        };
        let reset = || io::Error::from_raw_os_error(104);
        let eof = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let cases = [
            (certificate(), T::Tls),
            (io::Error::other(certificate()), T::Tls),
            (io::Error::other(io::Error::other(certificate())), T::Tls),
            (reset(), T::Reset),
            (io::Error::other(reset()), T::Reset),
            (io::Error::other(eof()), T::Tls),
            (io::Error::other("anything"), T::Unreachable),
        ];
        for (error, class) in cases {
            assert_eq!(classify(&error).class(), class, "{error:?}");
        }
    }
}
