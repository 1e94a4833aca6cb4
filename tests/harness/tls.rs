//! A certificate made for one test.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A self-signed certificate and its key: its own authority.
pub struct Identity {
    pem: String,
    key: String,
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
        Self::made(host, protocols, |_| {})
    }

    /// For a host name or an address; the certificate holds for so long from now on.
    ///
    /// # Panics
    /// When the name is none.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a certificate's end is of the wall's clock")]
    pub fn for_so_long(host: &str, time: Duration) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
        let until = rcgen::date_time_ymd(1970, 1, 1) + since + time;
        Self::made(host, &["http/1.1"], |params| params.not_after = until)
    }

    /// For a host name or an address; the certificate says that it is an authority's.
    ///
    /// # Panics
    /// When the name is none.
    #[must_use]
    pub fn of_authority(host: &str) -> Self {
        let authority = IsCa::Ca(BasicConstraints::Unconstrained);
        Self::made(host, &["http/1.1"], |params| params.is_ca = authority)
    }

    fn made(host: &str, protocols: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Self {
        let signing = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([host.to_owned()]).expect("a host name");
        change(&mut params);
        let cert = params.self_signed(&signing).expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("a certificate and its own key");
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let (pem, key) = (cert.pem(), signing.serialize_pem());
        Self { pem, key, config: Arc::new(config) }
    }

    /// The private key, as a file holds it.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key
    }

    /// Connects to whoever is this identity and to nobody else, and speaks these protocols.
    ///
    /// # Panics
    /// When its own certificate is none.
    #[must_use]
    pub fn connector(&self, protocols: &[&str]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("our own PEM");
        roots.add(own).expect("a certificate of our own");
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
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
