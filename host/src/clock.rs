//! The only place that reads a clock.
//!
//! Everything else is given the time, or asks here; the pure core is always given it.

use std::time::{Instant, SystemTime};

/// The monotonic clock. Follows the runtime's clock, so that tests can pause it.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The calendar, for people and records; never for measuring.
pub fn wall() -> SystemTime {
    SystemTime::now()
}
