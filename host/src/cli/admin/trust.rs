//! Whom to trust on the other side of https: as the library has it, but that a server's certificate which is marked as an
//! authority's is told from one whose authority is not known. The first is mended at the gateway, the second here.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use sluice_core::certificate::is_authority;

/// The server shows a certificate that is marked as an authority's.
#[derive(Debug)]
pub(super) struct MarkedAsAuthority;

impl fmt::Display for MarkedAsAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the certificate is marked as an authority's")
    }
}

impl std::error::Error for MarkedAsAuthority {}

impl MarkedAsAuthority {
    /// Whether a handshake failed of it.
    pub(super) fn is_behind(error: &std::io::Error) -> bool {
        let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        matches!(
            error,
            Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(of)))) if of.is::<Self>()
        )
    }
}

/// Judges as the library does.
#[derive(Debug)]
pub(super) struct Verifier(pub(super) Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        judged.map_err(|error| match error {
            // The library has no word of its own for it.
            rustls::Error::InvalidCertificate(CertificateError::Other(_)) if is_authority(end_entity) => {
                CertificateError::Other(OtherError(Arc::new(MarkedAsAuthority))).into()
            }
            error => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
