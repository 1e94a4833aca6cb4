//! `tls` and `admin_tls`: the certificate a listener shows and the key that proves it. Both files are read, parsed
//! and held against each other here, so that a pair which could not serve is a mistake of the file with a place;
//! as with every file that is read here, a change of one is a change of the configuration.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use sluice_core::certificate::{self, Ending};

use super::field::{Field, Map};
use crate::clock;

/// Largest file of a certificate or key, bytes. A chain of four with large keys is a hundredth of it.
const FILE_MAX: u64 = 1 << 20;
/// Protocols that are spoken, the best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// How a listener speaks TLS.
#[derive(Clone)]
pub struct Tls {
    /// Shows the certificate, agrees on `h2` or `http/1.1`.
    pub server: Arc<ServerConfig>,
    /// Seconds since 1970 until which its first certificate holds; none: it does not say so legibly.
    pub expires: Option<i64>,
}

/// The key is nobody's business.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// None: plain text, which is also what an empty section says.
pub(super) fn read(field: &Field<'_>) -> Option<Tls> {
    field.map(|m| {
        if !m.get("cert_file").is_set() && !m.get("key_file").is_set() {
            return None;
        }
        let (certificates, key) = (m.require("cert_file"), m.require("key_file"));
        // The key is a secret like others; without it there is nothing to serve with.
        if !key.follows_secrets() {
            return certificates.path().and(key.path()).and(None);
        }
        let (chain, key_read) = (chain(&certificates), private_key(&key));
        identity(m, chain?, key_read?)
    })
}

fn chain(field: &Field<'_>) -> Option<Vec<CertificateDer<'static>>> {
    let bytes = content(field)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(chain) if chain.is_empty() => field.error("the file holds no PEM certificate"),
        Ok(chain) if chain.iter().any(|der| ParsedCertificate::try_from(der).is_err()) => {
            field.error("the file holds a certificate that cannot be parsed");
        }
        Ok(chain) => return Some(chain),
        Err(_) => field.error("the file holds a PEM section that is not valid"),
    }
    None
}

fn private_key(field: &Field<'_>) -> Option<PrivateKeyDer<'static>> {
    let key = PrivateKeyDer::from_pem_slice(&content(field)?);
    if key.is_err() {
        field.error("the file holds no private key in PEM (PKCS #8, PKCS #1 or SEC 1, not encrypted)");
    }
    key.ok()
}

fn content(field: &Field<'_>) -> Option<Vec<u8>> {
    let path = field.path()?;
    field.cx.read(&path, FILE_MAX).map_err(|text| field.error(format!("the file {text}"))).ok()
}

fn identity(m: &Map<'_>, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Option<Tls> {
    let expires = chain.first().and_then(|first| certificate::not_after(first));
    if let Some(first) = chain.first() {
        warn(&m.get("cert_file"), first, expires);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    match server {
        Ok(mut server) => {
            server.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
            return Some(Tls { server: Arc::new(server), expires });
        }
        Err(rustls::Error::InconsistentKeys(_)) => {
            m.get("key_file").error("the key is not that of the first certificate in \"cert_file\"");
        }
        Err(_) => m
            .get("key_file")
            .error("expected a key that can sign for TLS: RSA with 2048 bits or more, ECDSA on P-256 or P-384, or Ed25519"),
    }
    None
}

/// What of a certificate that can serve clients may take amiss.
fn warn(field: &Field<'_>, certificate: &[u8], expires: Option<i64>) {
    if let Some(until) = expires {
        let now = clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let at = Duration::from_secs(until.max(0).unsigned_abs());
        let at = humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + at);
        match certificate::ending(until, i64::try_from(now).unwrap_or(i64::MAX)) {
            Some(Ending::Over) => field.warn(format!("the certificate expired at {at}: clients refuse it")),
            Some(Ending::In(_)) => field.warn(format!("the certificate expires soon, at {at}")),
            None => {}
        }
    }
    if certificate::is_authority(certificate) {
        field.warn(
            "the certificate is marked as an authority's, and strict clients refuse such a one as a server's: it needs the \
             basic constraint CA:FALSE (openssl: -addext basicConstraints=critical,CA:FALSE)",
        );
    }
}
