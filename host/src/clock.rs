//! The only place that reads a clock. The pure core is always given the time; everything else asks here.
//!
//! Monotonic time comes from the runtime's clock, so that tests which pause it pause everything.

use std::time::{Duration, Instant, SystemTime};

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

/// Whole milliseconds, rounded to the nearest: as every time is told, to people and to plugins.
pub fn whole_ms(time: Duration) -> u64 {
    let rounded = time.saturating_add(Duration::from_micros(500)).as_millis();
    u64::try_from(rounded).unwrap_or(u64::MAX)
}
