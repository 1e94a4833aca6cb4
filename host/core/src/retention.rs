//! Up to which moment old records may be deleted, when the time of day cannot be trusted blindly.
//!
//! Deleting is the one thing that a wrong clock makes irrevocable: one that jumps ahead by a year makes
//! everything look old. A jump ahead of what the monotonic clock says is therefore believed only after it has
//! stood for a while; a jump back is believed at once, because it only keeps more.

use std::time::{Duration, Instant, SystemTime};

#[cfg(test)]
mod tests;

/// So much ahead of the monotonic clock is drift or correction, not a jump.
const DRIFT: Duration = Duration::from_secs(60);
/// A jump that has stood for so long is the truth.
const BELIEVED: Duration = Duration::from_secs(3600);

/// The last pair of clocks that agreed.
#[derive(Debug, Clone)]
pub struct Horizon {
    wall: SystemTime,
    at: Instant,
    /// Since when the time of day is ahead of what it should be.
    ahead_since: Option<Instant>,
}

impl Horizon {
    /// Begins with a time of day that is taken as it is: there is nothing yet to compare it with.
    #[must_use]
    pub fn new(wall: SystemTime, now: Instant) -> Self {
        Self { wall, at: now, ahead_since: None }
    }

    /// What is older than this may go, if everything younger than `keep` stays; none: nothing is that old.
    pub fn cutoff(&mut self, wall: SystemTime, now: Instant, keep: Duration) -> Option<SystemTime> {
        self.trusted(wall, now).checked_sub(keep)
    }

    fn trusted(&mut self, wall: SystemTime, now: Instant) -> SystemTime {
        let expected = self.wall + now.saturating_duration_since(self.at);
        let ahead = wall.duration_since(expected).unwrap_or_default();
        if ahead > DRIFT {
            let since = *self.ahead_since.get_or_insert(now);
            if now.saturating_duration_since(since) < BELIEVED {
                return expected;
            }
        }
        *self = Self::new(wall, now);
        wall
    }
}
