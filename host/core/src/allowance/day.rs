//! What was spent on a day of the calendar, in UTC, and whether more may be.
//!
//! The clock on the wall can jump. A day that comes again is the one it was, spent money included, so that a
//! clock which swings about midnight grants nothing twice; and a day that never was does not hold up the ones
//! that are.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Money, Short};

const DAY: u64 = 24 * 60 * 60;
/// Days that are remembered: those that were written to last.
const REMEMBERED: usize = 4;

/// What was spent, and how much may be on one day.
#[derive(Debug)]
pub(super) struct Days {
    /// None: as much as anybody likes. It is counted all the same.
    limit: Option<Money>,
    /// Number since the Unix epoch, and what was spent. The one written to last is at the end.
    spent: VecDeque<(u64, Money)>,
    /// Of calls that run.
    reserved: Money,
}

impl Days {
    /// Nothing spent.
    pub(super) const fn new(limit: Option<Money>) -> Self {
        Self { limit, spent: VecDeque::new(), reserved: Money::ZERO }
    }

    /// Takes another limit in place; what was spent stays spent.
    pub(super) const fn set(&mut self, limit: Option<Money>) {
        self.limit = limit;
    }

    /// Whether so much may be spent at this time since the Unix epoch, were all that is reserved spent too.
    ///
    /// # Errors
    /// When it may be.
    pub(super) fn fits(&self, wall: Duration, amount: Money) -> Result<(), Short> {
        let Some(limit) = self.limit else { return Ok(()) };
        if amount > limit {
            return Err(Short::Never);
        }
        // Something must be left also for what costs nothing, or is not known to.
        let spent = self.spent_on(day(wall));
        if spent.plus(amount) > limit || spent >= limit {
            return Err(Short::For(Duration::from_secs(DAY - wall.as_secs() % DAY)));
        }
        if spent.plus(self.reserved).plus(amount) > limit {
            // When a running call ends, and what it really costs, nobody knows.
            return Err(Short::For(Duration::from_secs(1)));
        }
        Ok(())
    }

    /// Reserves it, whether it fits or not: that was asked before.
    pub(super) fn take(&mut self, amount: Money) {
        self.reserved = self.reserved.plus(amount);
    }

    /// A call that had reserved `taken` has ended, today, and cost `real`.
    pub(super) fn settle(&mut self, wall: Duration, taken: Money, real: Money) {
        self.reserved = self.reserved.minus(taken);
        if real == Money::ZERO {
            return;
        }
        let today = day(wall);
        let before = self.spent_on(today);
        self.spent.retain(|(day, _)| *day != today);
        if self.spent.len() == REMEMBERED {
            self.spent.pop_front();
        }
        self.spent.push_back((today, before.plus(real)));
    }

    fn spent_on(&self, today: u64) -> Money {
        self.spent.iter().find(|(day, _)| *day == today).map_or(Money::ZERO, |(_, spent)| *spent)
    }

    #[cfg(test)]
    pub(super) fn of(&self, wall: Duration) -> (Money, Money) {
        (self.spent_on(day(wall)), self.reserved)
    }
}

const fn day(wall: Duration) -> u64 {
    wall.as_secs() / DAY
}
