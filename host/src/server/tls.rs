//! The way from an accepted connection to one that can be served: a handshake where the listener speaks TLS, within a
//! time of its own, and a word to who does not know that it does.
//!
//! A handshake holds one of the listener's places and nothing else. It is nobody's call: a drain drops it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::leaving::Socket;
use crate::config::Tls;

/// A handshake takes two round trips; a client that is not through with it by then has something else in mind.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// First byte of every handshake.
const HANDSHAKE: u8 = 22;

/// How one listener speaks TLS, for the connections from now on; none: plain text.
#[derive(Debug, Default)]
pub struct TlsSlot(ArcSwapOption<Tls>);

impl TlsSlot {
    /// Connections that come now are accepted so. Those that are there go on as they are.
    pub fn set(&self, tls: Option<Tls>) {
        self.0.store(tls.map(Arc::new));
    }

    pub(super) fn get(&self) -> Option<Arc<Tls>> {
        self.0.load_full()
    }
}

/// A connection that can be served.
pub(super) enum Accepted {
    /// As it came.
    Plain(Socket),
    /// Behind a handshake.
    Tls(Box<TlsStream<Socket>>, Socket),
    /// The client speaks plain text where TLS is spoken.
    Misled(Socket),
}

/// None: the client has left, wanted something else, or took too long.
pub(super) async fn accept(stream: TcpStream, tls: Option<Arc<Tls>>) -> Option<Accepted> {
    let Some(tls) = tls else { return Some(Accepted::Plain(Socket::new(stream))) };
    let shaken = async {
        let mut first = [0];
        if stream.peek(&mut first).await.ok()? == 0 {
            return None;
        }
        let socket = Socket::new(stream);
        match first[0] {
            HANDSHAKE => {
                let accepted = TlsAcceptor::from(tls.server.clone()).accept(socket.clone()).await;
                // What a stranger's handshake failed of is the stranger's affair; there may be any number of them.
                let accepted =
                    accepted.inspect_err(|error| tracing::debug!(%error, "a TLS handshake failed"));
                Some(Accepted::Tls(Box::new(accepted.ok()?), socket))
            }
            first if first.is_ascii_uppercase() => Some(Accepted::Misled(socket)),
            _ => None,
        }
    };
    tokio::time::timeout(HANDSHAKE_WAIT, shaken).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop where it fails")]

    use rustls::ServerConfig;
    use rustls::server::ResolvesServerCertUsingSni;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Without a certificate: no handshake here comes as far as that.
    fn tls() -> Arc<Tls> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        Arc::new(Tls { server: Arc::new(config), expires: None })
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_or_half_of_it_is_not_waited_for() {
        for said in [&b""[..], &[HANDSHAKE], &[HANDSHAKE, 3, 1, 1, 0, 1, 0, 0, 0xfc, 3]] {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            client.write_all(said).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            // Nothing else is ready, so that the paused clock goes on to the end of the wait by itself.
            let accepted = tokio::time::timeout(2 * HANDSHAKE_WAIT, accept(stream, Some(tls()))).await;
            assert!(matches!(accepted, Ok(None)), "held for good after {said:?}");
        }
    }
}
