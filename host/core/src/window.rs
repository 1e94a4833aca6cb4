//! Two counters over the last stretch of time, in a ring of fixed slots: recording allocates nothing.
//!
//! The oldest slot leaves as a whole, so what is read covers between N−1 and N slots.

use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How many, and how many of them were marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// All of them.
    pub all: u32,
    /// Those with the mark: what it says is the user's business.
    pub marked: u32,
}

impl Tally {
    /// Share of the marked; none of nothing.
    pub fn share(self) -> Option<f64> {
        (self.all > 0).then(|| f64::from(self.marked) / f64::from(self.all))
    }
}

impl Tally {
    const fn add(&mut self, other: Self) {
        self.all = self.all.saturating_add(other.all);
        self.marked = self.marked.saturating_add(other.marked);
    }

    const fn take(&mut self, other: Self) {
        self.all = self.all.saturating_sub(other.all);
        self.marked = self.marked.saturating_sub(other.marked);
    }
}

/// A window of `N` slots.
#[derive(Debug)]
pub struct Window<const N: usize> {
    origin: Instant,
    slot: Duration,
    /// Number, since `origin`, of the newest slot.
    newest: u64,
    slots: [Tally; N],
    /// Of all slots: it is read for every request.
    sum: Tally,
}

impl<const N: usize> Window<N> {
    /// An empty window of about `span`.
    pub fn new(span: Duration, now: Instant) -> Self {
        let slot = (span / u32::try_from(N).unwrap_or(u32::MAX)).max(Duration::from_millis(1));
        Self { origin: now, slot, newest: 0, slots: [Tally::default(); N], sum: Tally::default() }
    }

    /// Adds to the current slot.
    pub fn add(&mut self, now: Instant, tally: Tally) {
        self.advance(now);
        self.slots[index::<N>(self.newest)].add(tally);
        self.sum.add(tally);
    }

    /// Everything within the window.
    pub fn sum(&mut self, now: Instant) -> Tally {
        self.advance(now);
        self.sum
    }

    /// Empties the slots that time has passed over. A moment before the newest slot (two threads that read
    /// the clock in another order than they came here) belongs to the newest.
    fn advance(&mut self, now: Instant) {
        // In 64 bits, which last for five hundred years: a division in 128 costs many times as much.
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let target = nanos(now.saturating_duration_since(self.origin)) / nanos(self.slot).max(1);
        if target <= self.newest {
            return;
        }
        let passed = (target - self.newest).min(N as u64);
        for back in 0..passed {
            let left = std::mem::take(&mut self.slots[index::<N>(target - back)]);
            self.sum.take(left);
        }
        self.newest = target;
    }
}

fn index<const N: usize>(slot: u64) -> usize {
    usize::try_from(slot % N as u64).unwrap_or(0)
}

/// Success rate of the last minute.
#[derive(Debug)]
pub struct SuccessRate(Window<60>);

impl SuccessRate {
    /// Without samples.
    pub fn new(now: Instant) -> Self {
        Self(Window::new(Duration::from_secs(60), now))
    }

    /// One attempt was answered, or failed.
    pub fn record(&mut self, now: Instant, ok: bool) {
        self.0.add(now, Tally { all: 1, marked: u32::from(ok) });
    }

    /// Attempts of the last minute, the answered ones marked.
    pub fn last_minute(&mut self, now: Instant) -> Tally {
        self.0.sum(now)
    }
}
