//! Tools of the tests: scripted upstreams, a raw client, a gateway process, and the conventions that
//! every worked case shares. A case reads as it is told:
//!
//! ```no_run
//! use harness::prelude::*;
//!
//! # async fn b009_cut_in_mid_answer() {
//! let x = Setup::new().start().await;
//! x.a.play([ROLE, TXT("one "), TXT("two "), CUT]);
//! let r = x.call("chat").await;
//! r.broken_stream("one two ");
//! r.tags("A/a1", false);
//! x.calls([1, 0, 0]);
//! x.end().await;
//! # }
//! ```
//!
//! Nothing here knows how the gateway works inside: it is a process with two ports and a log. What a
//! test waits for is waited for by its event and a generous bound; a script's own pauses are part of
//! the peer that it plays.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a harness reports trouble by failing its test"
)]

pub mod attempt;
pub mod call;
pub mod case;
pub mod client;
mod connection;
pub mod gateway;
pub mod judge;
pub mod metrics;
mod peer;
pub mod postgres;
pub mod reading;
pub mod refuse;
pub mod response;
pub mod setup;
pub mod step;
pub mod storm;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod upstream;
pub mod z;

use std::time::{Duration, Instant};

/// What a case needs in its first line.
pub mod prelude {
    pub use crate::case::Case;
    pub use crate::client::Client;
    pub use crate::gateway::Gateway;
    pub use crate::response::{End, Response};
    pub use crate::setup::{Setting, Setup};
    pub use crate::step::*;
    pub use crate::upstream::{Attempt, How, Upstream};
    pub use crate::{HEALTHY_TEXT, ms, now};
    pub use serde_json::{Value, json};
}

/// The text of a healthy answer.
pub const HEALTHY_TEXT: &str = "one two three";

/// Bound of every wait that is not itself the measured thing.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Milliseconds.
#[must_use]
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The clock of the tests: the one place that reads it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place of the tests that reads a clock")]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
