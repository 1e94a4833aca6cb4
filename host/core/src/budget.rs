//! How long a request may take, and what of it is left: one deadline for everything, fixed at arrival.
//!
//! Also the arithmetic of one attempt's own limit inside that deadline, of pauses between attempts, and of
//! the whole seconds told to callers. What to do when time is up is decided elsewhere.

use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Longest span that is ever added to a moment: a limit beyond it is no limit, and adding cannot overflow.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// `at` plus `span`, which counts as ten years when it is longer.
pub(crate) fn after(at: Instant, span: Duration) -> Instant {
    at + span.min(FAR)
}

/// The time of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    arrival: Instant,
    total: Duration,
    reserve: Duration,
}

impl Budget {
    /// The budget of a request that arrived at `arrival`. The caller's own wish can only shorten it. The
    /// reserve is at most a quarter of what is then in force, so that a short budget still leaves time to try.
    pub fn new(arrival: Instant, configured: Duration, reserve: Duration, caller: Option<Duration>) -> Self {
        let total = caller.map_or(configured, |wish| wish.min(configured)).min(FAR);
        Self { arrival, total, reserve: reserve.min(total / 4) }
    }

    /// When the request arrived.
    pub const fn arrival(&self) -> Instant {
        self.arrival
    }

    /// The budget in force, the reserve included.
    pub const fn total(&self) -> Duration {
        self.total
    }

    /// When attempts end.
    pub fn deadline(&self) -> Instant {
        self.arrival + (self.total - self.reserve)
    }

    /// Left until the deadline.
    pub fn left(&self, now: Instant) -> Duration {
        self.deadline().saturating_duration_since(now.max(self.arrival))
    }

    /// The clock of an attempt that begins now and has `own` for itself; where what it says is held back to
    /// its end, also `first_content` until something comes.
    pub fn attempt(&self, now: Instant, own: Duration, first_content: Option<Duration>) -> AttemptClock {
        AttemptClock {
            own_end: after(now, own),
            first_content_end: first_content.map(|limit| after(now, limit)),
            deadline: self.deadline(),
        }
    }
}

/// When an attempt ends for lack of time, and who is to blame for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptClock {
    own_end: Instant,
    /// A second limit of its own, for as long as no content has come.
    first_content_end: Option<Instant>,
    deadline: Instant,
}

impl AttemptClock {
    /// The next moment after `now` at which a limit or the deadline ends the attempt. A limit that is over has
    /// fired already: what could not be replaced then is let run on.
    pub fn fires(&self, now: Instant, content: bool) -> Instant {
        let ahead = self.own(content).into_iter().flatten().filter(|at| *at > now);
        ahead.min().map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// The attempt had a full limit of its own by `now`: it may be replaced, and its target is to blame.
    /// Otherwise nobody is, the request had too little time.
    pub fn target_to_blame(&self, now: Instant, content: bool) -> bool {
        self.own(content).into_iter().flatten().any(|at| now >= at)
    }

    fn own(&self, content: bool) -> [Option<Instant>; 2] {
        [Some(self.own_end), self.first_content_end.filter(|_| !content)]
    }
}

/// What a switch to a target needs: its floor, or its recent p95 to commit where that is asked for and longer.
pub fn min_budget(floor: Duration, p95: Option<Duration>) -> Duration {
    p95.map_or(floor, |p95| p95.max(floor))
}

/// Reads `x-sluice-budget-ms`: a positive whole number of milliseconds. One too large to be held is as good
/// as the largest, since it can only shorten. None for anything else.
pub fn parse_budget_ms(value: &str) -> Option<Duration> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || value.bytes().all(|byte| byte == b'0') {
        return None;
    }
    Some(Duration::from_millis(value.parse().unwrap_or(u64::MAX)))
}

/// A wait as callers are told it: whole seconds, rounded up, 1 to 60.
pub fn retry_after_seconds(wait: Duration) -> u64 {
    let up = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(up).clamp(1, 60)
}

/// The pause before same-target retry number `n` (from 0): `base` × 2ⁿ, at most `max`, times 0.5 to 1.0.
/// `random` is 0 to 1.
pub fn pause(n: u32, base: Duration, max: Duration, random: f64) -> Duration {
    let grown = base.saturating_mul(2_u32.saturating_pow(n)).min(max).min(FAR);
    grown.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}
