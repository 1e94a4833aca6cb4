//! How much was taken in the last minute, and whether more fits.
//!
//! What is taken counts for a full minute, so that in no stretch of sixty seconds, however it is laid, more is
//! let in than the limit. Amounts that come within one second are one entry and leave together, a minute after
//! the last of them: what is kept is bounded, and no wait is longer than a minute.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Short;

/// The stretch that a limit is about.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// Amounts that come within this after the first of an entry are added to it.
const ENTRY: Duration = Duration::from_secs(1);

/// What was taken of one thing, and how much of it may be.
#[derive(Debug)]
pub(crate) struct Minute {
    /// None: as much as anybody likes. It is counted all the same, so that a limit that comes later is right.
    limit: Option<u64>,
    /// Ascending in every field but the amount.
    entries: VecDeque<Entry>,
    used: u64,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    opened: Instant,
    last: Instant,
    amount: u64,
}

impl Entry {
    fn leaves(&self) -> Instant {
        self.last + MINUTE
    }
}

/// Where an amount was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Minute {
    /// Nothing taken.
    pub(crate) const fn new(limit: Option<u64>) -> Self {
        Self { limit, entries: VecDeque::new(), used: 0, next: 0 }
    }

    /// Takes another limit in place; what was taken stays taken.
    pub(crate) const fn set(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    pub(crate) const fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Whether so much may be taken now. Takes nothing.
    ///
    /// # Errors
    /// When it may be, if nothing else is taken meanwhile.
    pub(super) fn fits(&mut self, now: Instant, amount: u64) -> Result<(), Short> {
        let now = self.expire(now);
        let Some(limit) = self.limit else { return Ok(()) };
        if amount > limit {
            return Err(Short::Never);
        }
        let mut over = self.used.saturating_add(amount).saturating_sub(limit);
        if over == 0 {
            return Ok(());
        }
        let enough = self.entries.iter().find(|entry| {
            over = over.saturating_sub(entry.amount);
            over == 0
        });
        Err(Short::For(enough.map_or(MINUTE, |entry| entry.leaves().saturating_duration_since(now))))
    }

    /// Takes it, whether it fits or not: that was asked before.
    pub(crate) fn take(&mut self, now: Instant, amount: u64) -> Place {
        let now = self.expire(now);
        self.used = self.used.saturating_add(amount);
        if let Some(entry) = self.entries.back_mut().filter(|entry| now < entry.opened + ENTRY) {
            entry.last = now;
            entry.amount = entry.amount.saturating_add(amount);
            return Place(entry.id);
        }
        let id = self.next;
        self.next += 1;
        self.entries.push_back(Entry { id, opened: now, last: now, amount });
        Place(id)
    }

    /// What was taken as an estimate turned out to be `real`. Less of it: the rest is free again at once. More:
    /// it counts from now on, even beyond the limit.
    pub(crate) fn settle(&mut self, now: Instant, place: Place, taken: u64, real: u64) {
        let now = self.expire(now);
        if real > taken {
            self.take(now, real - taken);
            return;
        }
        if let Ok(at) = self.entries.binary_search_by_key(&place.0, |entry| entry.id) {
            let entry = &mut self.entries[at];
            let back = (taken - real).min(entry.amount);
            entry.amount -= back;
            self.used = self.used.saturating_sub(back);
        }
    }

    /// What may still be taken; none: as much as anybody likes.
    pub(crate) fn left(&mut self, now: Instant) -> Option<u64> {
        self.expire(now);
        self.limit.map(|limit| limit.saturating_sub(self.used))
    }

    /// Until all of it may be taken again.
    pub(super) fn resets(&mut self, now: Instant) -> Duration {
        let now = self.expire(now);
        let last = self.entries.iter().rev().find(|entry| entry.amount > 0);
        last.map_or(Duration::ZERO, |entry| entry.leaves().saturating_duration_since(now))
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Lets go of what is a minute old. Callers read the clock before they have the lock, so `now` may be a
    /// little older than what is known; then it is as late as that.
    fn expire(&mut self, now: Instant) -> Instant {
        let now = self.entries.back().map_or(now, |entry| now.max(entry.last));
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.leaves() <= now) {
            self.used = self.used.saturating_sub(entry.amount);
        }
        now
    }
}
