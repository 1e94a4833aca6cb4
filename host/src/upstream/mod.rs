//! One exchange with an upstream: find or make a connection, send the request, hand over head and body.
//!
//! Connections are kept and reused here. A reused one that turns out dead is replaced once by a fresh one,
//! which is nobody's fault and part of the same attempt. What a failure means, whether there is another
//! attempt, and every clock but that of connecting are the caller's.

mod body;
mod client;
mod dial;
mod dialing;
mod error;
mod line;
mod pool;
mod shared;

pub use body::UpstreamBody;
pub use client::{Client, Exchange};
pub use dial::{Dial, Dialed, Io, TcpDial, TlsSetupError};
pub use error::{ConnectError, ExchangeError, http_class};
pub use line::Line;

#[cfg(test)]
mod tests;
