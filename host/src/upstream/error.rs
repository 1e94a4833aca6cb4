//! What can go wrong below HTTP, and which class of the host's closed set it is.
//!
//! Classes are found by type, never by the text of a message, and carry no address: callers see them.

use std::error::Error;
use std::io;

use sluice_core::coding::Corrupt;
use sluice_core::kind::TransportError;

/// No connection was made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The connect clock fired.
    #[error("no connection within {limit_ms} ms")]
    TimedOut {
        /// The limit.
        limit_ms: u64,
    },
    /// The name does not resolve.
    #[error("the name does not resolve")]
    Dns(#[source] io::Error),
    /// Nobody listens, no route, or a reset while connecting.
    #[error("the connection was not accepted")]
    Io(#[source] io::Error),
    /// Handshake or certificate.
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
    /// The connection broke during the HTTP preface.
    #[error("the connection broke before the first request")]
    Http(#[source] hyper::Error),
}

impl ConnectError {
    /// The class of the failure.
    pub fn class(&self) -> TransportError {
        match self {
            Self::TimedOut { .. } => TransportError::Timeout,
            Self::Dns(_) => TransportError::Dns,
            Self::Tls(_) => TransportError::Tls,
            Self::Io(error) => io_class(error),
            Self::Http(error) => http_class(error),
        }
    }
}

/// A request was begun and got no response head.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// There was no connection to send it on.
    #[error("could not connect")]
    Connect(#[from] ConnectError),
    /// The connection failed before the head was complete.
    #[error("the connection failed before the response head")]
    Send(#[source] hyper::Error),
}

impl ExchangeError {
    /// The class of the failure.
    pub fn class(&self) -> TransportError {
        match self {
            Self::Connect(error) => error.class(),
            Self::Send(error) => http_class(error),
        }
    }
}

/// A body that cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection broke.
    #[error("the connection broke within the body")]
    Http(#[from] hyper::Error),
    /// The bytes are not what `content-encoding` says.
    #[error(transparent)]
    Coding(#[from] Corrupt),
}

impl BodyError {
    /// The class of the failure.
    pub fn class(&self) -> TransportError {
        match self {
            Self::Http(error) => http_class(error),
            Self::Coding(_) => TransportError::Protocol,
        }
    }
}

/// The class of an error of a connection that was up.
pub fn http_class(error: &hyper::Error) -> TransportError {
    if let Some(io) = find::<io::Error>(error) {
        return io_class(io);
    }
    if find::<h2::Error>(error).is_some_and(h2::Error::is_reset) {
        return TransportError::Reset;
    }
    if error.is_parse() { TransportError::Protocol } else { TransportError::Closed }
}

fn io_class(error: &io::Error) -> TransportError {
    use io::ErrorKind as K;
    match error.kind() {
        K::ConnectionRefused => TransportError::Refused,
        K::ConnectionReset | K::BrokenPipe | K::ConnectionAborted => TransportError::Reset,
        K::UnexpectedEof => TransportError::Closed,
        K::TimedOut => TransportError::Timeout,
        K::InvalidData => TransportError::Protocol,
        _ => TransportError::Unreachable,
    }
}

/// Whether a request on a connection that had served before was never looked at, because the connection was
/// gone: closed without one byte of an answer, or, on HTTP/2, refused as one stream too many or too late.
pub(super) fn is_unread(error: &hyper::Error) -> bool {
    use TransportError as T;
    if let Some(h2) = find::<h2::Error>(error) {
        return h2.is_go_away() || h2.is_io() || h2.reason() == Some(h2::Reason::REFUSED_STREAM);
    }
    !error.is_parse() && matches!(http_class(error), T::Closed | T::Reset)
}

/// The first error of a type in a chain of causes.
pub(super) fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        at = error.source();
    }
    None
}
