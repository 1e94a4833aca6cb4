//! The only place that reads a clock. The pure core is always given the time; everything else asks here.
//!
//! Monotonic time comes from the runtime's clock, so that tests which pause it pause everything.

use std::time::{Instant, SystemTime};

/// The moment everything is measured from.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time of day, for what is shown and for dates in headers. May jump; nothing is measured with it.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn wall() -> SystemTime {
    SystemTime::now()
}
