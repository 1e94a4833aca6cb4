//! The way from an accepted connection to one that can be served: a handshake where the listener speaks TLS, within a
//! time of its own, and a word to who does not know that it does.
//!
//! A handshake holds one of the listener's places and nothing else. It is nobody's call: a drain drops it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::leaving::Socket;
use crate::config::Tls;

/// A handshake takes two round trips; a client that is not through with it by then has something else in mind.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// First byte of every handshake.
const HANDSHAKE: u8 = 22;

/// How one listener speaks, for the connections from now on.
#[derive(Debug)]
pub struct TlsSlot {
    now: ArcSwap<Speech>,
    /// Of the listener.
    closing: CancellationToken,
}

/// A way of speaking, and the end of the connections that have it.
#[derive(Debug)]
pub(super) struct Speech {
    /// None: plain text.
    pub(super) tls: Option<Arc<Tls>>,
    /// The listener is closing, or speaks otherwise.
    pub(super) closing: CancellationToken,
}

impl Speech {
    fn new(tls: Option<Tls>, closing: &CancellationToken) -> Self {
        Self { tls: tls.map(Arc::new), closing: closing.child_token() }
    }
}

impl TlsSlot {
    /// Of a listener that lets nobody in any more once `closing` is cancelled.
    #[must_use]
    pub fn new(tls: Option<Tls>, closing: CancellationToken) -> Self {
        Self { now: ArcSwap::from_pointee(Speech::new(tls, &closing)), closing }
    }

    /// Connections that come now are accepted so. With another certificate those that are there go on as they are. Between plain
    /// text and TLS they are asked to end: who switches one of them off does not want it spoken on for hours. For one task alone.
    pub fn set(&self, tls: Option<Tls>) {
        let before = self.now.load_full();
        if before.tls.is_some() == tls.is_some() {
            let speech = Speech { tls: tls.map(Arc::new), closing: before.closing.clone() };
            self.now.store(Arc::new(speech));
        } else {
            // The new way is there before the old one ends, so that nobody comes in between and stays.
            self.now.store(Arc::new(Speech::new(tls, &self.closing)));
            before.closing.cancel();
        }
    }

    pub(super) fn get(&self) -> Arc<Speech> {
        self.now.load_full()
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
