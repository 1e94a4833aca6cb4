//! A certificate made for one test.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A self-signed certificate and its key: its own authority.
pub struct Identity {
    pem: String,
    config: Arc<ServerConfig>,
}

impl Identity {
    /// For a host name or an address, speaking HTTP/1.1.
    ///
    /// # Panics
    /// When the name is none.
    #[must_use]
    pub fn new(host: &str) -> Self {
        Self::with_protocols(host, &["http/1.1"])
    }

    /// The same, speaking these protocols, the best first.
    ///
    /// # Panics
    /// When the name is none.
    #[must_use]
    pub fn with_protocols(host: &str, protocols: &[&str]) -> Self {
        let made = rcgen::generate_simple_self_signed([host.to_owned()]).expect("a host name");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate and its own key");
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Self { pem: made.cert.pem(), config: Arc::new(config) }
    }

    /// The certificate, to be trusted.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Accepts connections as this identity.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}
