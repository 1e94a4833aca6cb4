//! The one place that reads the clock.
//!
//! It reads tokio's, so that a test which pauses time pauses it for everything that asks here.
//! Decisions in `core` never ask: they are given the time.

use std::time::Instant;

/// Now.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
