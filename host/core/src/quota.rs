//! How much of an upstream's configured quota is left, by what was sent to it in the last minute. It refuses nobody:
//! providers do that themselves, and what they tell about it is more exact than this. It is what routers are told as long
//! as a provider tells nothing.

use std::time::Instant;

use crate::allowance::minute::{Minute, Place};

/// What a provider allows. None: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Requests in any sixty seconds.
    pub requests: Option<u32>,
    /// Tokens in any sixty seconds, input and output together.
    pub tokens: Option<u32>,
}

/// What was sent to one upstream.
#[derive(Debug)]
pub struct Quota {
    requests: Minute,
    tokens: Minute,
}

/// What one attempt counts for, until it is known better.
#[derive(Debug)]
#[must_use = "an estimate that is not settled stands for a minute"]
pub struct Taken {
    place: Place,
    tokens: u64,
}

impl Quota {
    /// Nothing sent.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let minute = |limit: Option<u32>| Minute::new(limit.map(u64::from));
        Self { requests: minute(limits.requests), tokens: minute(limits.tokens) }
    }

    /// Takes other limits in place; what was sent stays sent.
    pub fn set(&mut self, limits: Limits) {
        self.requests.set(limits.requests.map(u64::from));
        self.tokens.set(limits.tokens.map(u64::from));
    }

    /// An attempt begins, of about so many tokens.
    pub fn take(&mut self, now: Instant, tokens: u64) -> Taken {
        let _ = self.requests.take(now, 1);
        Taken { place: self.tokens.take(now, tokens), tokens }
    }

    /// It was so many.
    pub fn settle(&mut self, now: Instant, taken: &Taken, tokens: u64) {
        self.tokens.settle(now, taken.place, taken.tokens, tokens);
    }

    /// Share that is left, 0 to 1, of what is scarcer; none: neither is known.
    pub fn left(&mut self, now: Instant) -> Option<f64> {
        let shares = [&mut self.requests, &mut self.tokens].map(|minute| share(minute, now));
        shares.into_iter().flatten().min_by(f64::total_cmp)
    }
}

/// A minute of 2⁵³ or more is nobody's.
#[expect(clippy::cast_precision_loss, reason = "limits have 32 bits")]
fn share(minute: &mut Minute, now: Instant) -> Option<f64> {
    let limit = minute.limit().filter(|limit| *limit > 0)?;
    minute.left(now).map(|left| left as f64 / limit as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_scarcer_share_is_told_and_comes_back_after_a_minute() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut quota = Quota::new(Limits { requests: Some(4), tokens: Some(1000) });
        assert_eq!(quota.left(start), Some(1.0));
        let first = quota.take(at(0), 100);
        assert_eq!(quota.left(at(0)), Some(0.75));
        let second = quota.take(at(10), 700);
        assert_eq!(quota.left(at(10)), Some(0.2));
        // Shorter than thought, and longer.
        quota.settle(at(11), &second, 100);
        assert_eq!(quota.left(at(11)), Some(0.5));
        quota.settle(at(12), &first, 2000);
        assert_eq!(quota.left(at(12)), Some(0.0));
        assert_eq!(quota.left(at(61)), Some(0.0));
        assert_eq!(quota.left(at(73)), Some(1.0));
    }

    #[test]
    fn what_is_not_configured_is_not_known_and_a_limit_that_comes_later_knows_what_was_sent() {
        let now = Instant::now();
        let mut quota = Quota::new(Limits::default());
        let _ = quota.take(now, 10);
        assert_eq!(quota.left(now), None);
        quota.set(Limits { requests: None, tokens: Some(40) });
        assert_eq!(quota.left(now), Some(0.75));
        quota.set(Limits { requests: Some(2), tokens: Some(40) });
        assert_eq!(quota.left(now), Some(0.5));
    }
}
