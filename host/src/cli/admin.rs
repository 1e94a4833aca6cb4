//! Reads a page of a running gateway's admin listener, over TLS where it speaks it.

mod trust;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::uri::Authority;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use trust::{MarkedAsAuthority, Verifier};

/// A page that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest page, bytes.
const PAGE_MAX: usize = 16 << 20;

/// Where a gateway can be asked.
#[derive(Debug, Clone, clap::Args)]
pub struct AdminArgs {
    /// Its admin listener; https://HOST:PORT where that speaks TLS (`admin_tls`)
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9090")]
    pub admin: String,
    /// Certificates (PEM) to trust for https, instead of the system's or those of SSL_CERT_FILE
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Nobody listens.
    #[error(
        "no gateway answers at {address}: {source}; --admin HOST:PORT takes the `admin` of its configuration"
    )]
    Connect {
        /// As it was given.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not trusted, or does not speak TLS.
    #[error("{address}: no TLS connection: {what}; --ca-file FILE names whom to trust")]
    Tls {
        /// As it was given.
        address: String,
        /// What went wrong.
        what: String,
    },
    /// Its certificate is no server's.
    #[error(
        "{address}: no TLS connection: the listener's certificate is marked as an authority's and can be no server's: it needs \
         the basic constraint CA:FALSE (openssl: -addext basicConstraints=critical,CA:FALSE)"
    )]
    Authority {
        /// As it was given.
        address: String,
    },
    /// It took too long.
    #[error("{address} gave no page within {PATIENCE:?}")]
    Patience {
        /// As it was given.
        address: String,
    },
    /// What listens there does not speak HTTP, or broke off.
    #[error("{address} gave no whole page: {what}")]
    Broken {
        /// As it was given.
        address: String,
        /// What went wrong.
        what: String,
    },
    /// It is another server, or another page.
    #[error(
        "{address}{path} answered {status}, expected 200: is this the admin listener of a gateway, and does it speak TLS (https://)?"
    )]
    Status {
        /// As it was given.
        address: String,
        /// What was asked for.
        path: &'static str,
        /// What came.
        status: u16,
    },
}

/// The body of a page.
///
/// # Errors
/// [`PageError`].
pub async fn page(of: &AdminArgs, path: &'static str) -> Result<Bytes, PageError> {
    match tokio::time::timeout(PATIENCE, Box::pin(fetch(of, path))).await {
        Ok(page) => page,
        Err(_) => Err(PageError::Patience { address: of.admin.clone() }),
    }
}

async fn fetch(of: &AdminArgs, path: &'static str) -> Result<Bytes, PageError> {
    let connect = |source| PageError::Connect { address: of.admin.clone(), source };
    let (tls, host) = match of.admin.split_once("://") {
        None => (false, of.admin.as_str()),
        Some((scheme, rest)) => (scheme == "https", rest.trim_end_matches('/')),
    };
    let found: Vec<SocketAddr> = tokio::net::lookup_host(host).await.map_err(connect)?.collect();
    let stream = TcpStream::connect(&*found).await.map_err(connect)?;
    if !tls {
        return exchange(of, host, path, stream).await;
    }
    let trust = |what: String| PageError::Tls { address: of.admin.clone(), what };
    let connector = connector(of).map_err(|error| trust(error.to_string()))?;
    let stream = connector.connect(server_name(host).map_err(trust)?, stream).await;
    let stream = stream.map_err(|error| match MarkedAsAuthority::is_behind(&error) {
        true => PageError::Authority { address: of.admin.clone() },
        false => trust(error.to_string()),
    });
    exchange(of, host, path, stream?).await
}

/// The name that the certificate has to be for.
fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    let authority: Authority = host.parse().map_err(|_| "expected https://HOST:PORT".to_owned())?;
    let name = authority.host().trim_matches(['[', ']']).to_owned();
    ServerName::try_from(name).map_err(|error| error.to_string())
}

fn connector(of: &AdminArgs) -> io::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    match &of.ca_file {
        Some(file) => {
            let named = |what: String| io::Error::other(format!("{}: {what}", file.display()));
            let found = CertificateDer::pem_file_iter(file).map_err(|error| named(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| named(error.to_string()))?;
                roots.add(certificate).map_err(|error| named(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(named("expected certificates in PEM, found none".to_owned()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = Verifier(verifier.build().map_err(io::Error::other)?);
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn exchange(
    of: &AdminArgs,
    host: &str,
    path: &'static str,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Bytes, PageError> {
    let address = || of.admin.clone();
    let broken = |what: String| PageError::Broken { address: address(), what };
    let request = Request::get(path).header("host", host).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| broken(error.to_string()))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(error.to_string()))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(PageError::Status { address: address(), path, status });
        }
        let body = Limited::new(response.into_body(), PAGE_MAX).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| broken(error.to_string()))
    };
    tokio::pin!(connection, answer);
    // The connection may end as soon as the answer is on its way; the answer is what counts.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}
