//! What one caller may still do: requests and tokens a minute, money a day.
//!
//! A call takes its estimate of all three when it comes in, all or nothing, and settles when it ends with what
//! it really was. So many calls at once cannot overdraw what each of them alone would have fitted into; what
//! an estimate was short of counts afterwards, and holds up those that come next.

mod day;
pub(crate) mod minute;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use day::Days;
use minute::{Minute, Place};

/// Money in the unit of the configured prices, in whole millionths of a millionth: sums are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Money(u64);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    const PER_UNIT: f64 = 1e12;
    const PER_MILLION: f64 = 1e6;

    /// So many units. What is no amount is nothing.
    pub fn units(units: f64) -> Self {
        Self(whole(units * Self::PER_UNIT))
    }

    /// The cost of so many tokens at a price per million.
    pub fn of_tokens(tokens: u64, price_per_million: f64) -> Self {
        Self(tokens.saturating_mul(whole(price_per_million * (Self::PER_UNIT / Self::PER_MILLION))))
    }

    /// The sum, or the most there can be.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or nothing.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "held between its bounds, and rounded"
)]
fn whole(amount: f64) -> u64 {
    amount.round().max(0.0) as u64
}

/// What a caller is limited to. None: not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Requests in any sixty seconds.
    pub requests: Option<u32>,
    /// Tokens in any sixty seconds, input and output together.
    pub tokens: Option<u32>,
    /// Money on one day, UTC.
    pub day: Option<Money>,
}

/// What a call takes: an estimate at first, then what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Need {
    /// Input and output.
    pub tokens: u64,
    /// What they cost.
    pub cost: Money,
}

/// A moment, on the clock that never goes back and on the one on the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For minutes.
    pub at: Instant,
    /// Since the Unix epoch, for days.
    pub wall: Duration,
}

/// How long something is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// Less than the call wants is allowed at all.
    Never,
    /// So long, if nothing else is taken meanwhile.
    For(Duration),
}

/// Which limit a call does not fit into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Requests a minute.
    Requests(Short),
    /// Tokens a minute.
    Tokens(Short),
    /// Money a day.
    Day(Short),
}

/// What a call has taken, until it is settled or given back.
#[derive(Debug)]
#[must_use = "what was taken is settled or given back"]
pub struct Taken {
    request: Place,
    tokens: Place,
    need: Need,
}

/// One limit a minute, as callers are told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The limit.
    pub limit: u64,
    /// What is left of it.
    pub left: u64,
    /// Until all of it is there again.
    pub resets: Duration,
}

/// The account of one caller.
#[derive(Debug)]
pub struct Allowance {
    requests: Minute,
    tokens: Minute,
    days: Days,
}

impl Allowance {
    /// A caller who has taken nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            requests: Minute::new(limits.requests.map(u64::from)),
            tokens: Minute::new(limits.tokens.map(u64::from)),
            days: Days::new(limits.day),
        }
    }

    /// Takes new limits in place; what was taken under the old ones counts.
    pub fn set(&mut self, limits: Limits) {
        self.requests.set(limits.requests.map(u64::from));
        self.tokens.set(limits.tokens.map(u64::from));
        self.days.set(limits.day);
    }

    /// A call comes in. All of its estimate is taken, or nothing.
    ///
    /// # Errors
    /// The limit it does not fit into; of several, the one that it has to wait for longest.
    pub fn take(&mut self, now: Now, need: Need) -> Result<Taken, Refusal> {
        let requests = self.requests.fits(now.at, 1).map_err(Refusal::Requests);
        let tokens = self.tokens.fits(now.at, need.tokens).map_err(Refusal::Tokens);
        let day = self.days.fits(now.wall, need.cost).map_err(Refusal::Day);
        let refusals = [requests, tokens, day].into_iter().filter_map(Result::err);
        if let Some(refusal) = refusals.max_by_key(|refusal| refusal.wait()) {
            return Err(refusal);
        }
        self.days.take(need.cost);
        let request = self.requests.take(now.at, 1);
        Ok(Taken { request, tokens: self.tokens.take(now.at, need.tokens), need })
    }

    /// A call that was let in has ended.
    pub fn settle(&mut self, now: Now, taken: Taken, real: Need) {
        let Taken { tokens, need, request: _ } = taken;
        self.tokens.settle(now.at, tokens, need.tokens, real.tokens);
        self.days.settle(now.wall, need.cost, real.cost);
    }

    /// A call was not let in after all: as if it had not come.
    pub fn give_back(&mut self, now: Now, taken: Taken) {
        self.requests.settle(now.at, taken.request, 1, 0);
        self.settle(now, taken, Need::default());
    }

    /// The requests of a minute; none: no limit.
    pub fn requests(&mut self, at: Instant) -> Option<Shown> {
        shown(&mut self.requests, at)
    }

    /// The tokens of a minute; none: no limit.
    pub fn tokens(&mut self, at: Instant) -> Option<Shown> {
        shown(&mut self.tokens, at)
    }
}

fn shown(minute: &mut Minute, at: Instant) -> Option<Shown> {
    let (limit, left) = (minute.limit()?, minute.left(at)?);
    Some(Shown { limit, left, resets: minute.resets(at) })
}

impl Refusal {
    /// How long it lasts; [`Short::Never`] is longest.
    fn wait(self) -> Duration {
        let (Self::Requests(short) | Self::Tokens(short) | Self::Day(short)) = self;
        match short {
            Short::Never => Duration::MAX,
            Short::For(wait) => wait,
        }
    }
}
