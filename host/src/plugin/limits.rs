//! What one instance may take: memory, tables, and time in ticks in which it ran.

use std::time::{Duration, Instant};

use wasmtime::{ResourceLimiter, Result, UpdateDeadline};

use super::engine::{MEMORY_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX};
use super::ticker;
use crate::clock;

/// The wall clock ends a call at so many times its deadline, for calls that hardly ever get to run.
const WALL_FACTOR: u32 = 10;
/// And in any case after so long.
const WALL_MAX: Duration = Duration::from_secs(24 * 3600);

/// Memory of one instance. Remembers refusals: the guest itself only sees that growing failed.
#[derive(Debug)]
pub struct Memory {
    limit: u64,
    used: u64,
    refused: bool,
}

impl Memory {
    /// At most `limit` bytes of linear memory, and never more than the engine has for one instance.
    pub fn new(limit: u64) -> Self {
        Self { limit: limit.min(MEMORY_MAX), used: 0, refused: false }
    }

    /// Bytes of linear memory; it never shrinks.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Forgets refusals: a new call begins.
    pub const fn begin(&mut self) {
        self.refused = false;
    }

    /// The limit, if growth was refused since [`Memory::begin`].
    pub const fn refused(&self) -> Option<u64> {
        if self.refused { Some(self.limit) } else { None }
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let desired = u64::try_from(desired).unwrap_or(u64::MAX);
        let allowed = desired <= self.limit;
        if allowed {
            self.used = self.used.max(desired);
        } else {
            self.refused = true;
        }
        Ok(allowed)
    }

    /// Allowed and still not possible: the machine has none left.
    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> Result<()> {
        self.refused = true;
        Ok(())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let allowed = u64::try_from(desired).unwrap_or(u64::MAX) <= TABLE_ELEMENTS_MAX;
        self.refused |= !allowed;
        Ok(allowed)
    }

    fn memories(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        usize::try_from(TABLES_MAX).unwrap_or(1)
    }
}

/// The clock of one call.
#[derive(Debug)]
pub struct Meter {
    gives_way: bool,
    left: u32,
    wall: Instant,
}

impl Meter {
    /// Nothing may run before [`Meter::begin`].
    pub fn new(gives_way: bool) -> Self {
        Self { gives_way, left: 0, wall: clock::now() }
    }

    /// A call begins: it may run for `deadline`.
    pub fn begin(&mut self, deadline: Duration, now: Instant) {
        self.left = ticker::ticks(deadline);
        self.wall = now + Self::wall(deadline);
    }

    /// A tick passed while the guest ran. It goes on, perhaps after others had their turn, or ends.
    pub fn tick(&mut self) -> UpdateDeadline {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || clock::now() >= self.wall {
            return UpdateDeadline::Interrupt;
        }
        if self.gives_way {
            UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))
        } else {
            UpdateDeadline::Continue(1)
        }
    }

    /// The longest a call of this deadline can take on the wall.
    pub fn wall(deadline: Duration) -> Duration {
        deadline.saturating_mul(WALL_FACTOR).min(WALL_MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn growth_beyond_the_limit_is_refused_and_remembered_until_the_next_call() {
        let mut memory = Memory::new(1 << 20);
        assert!(memory.memory_growing(0, 1 << 20, None).unwrap());
        assert_eq!(memory.refused(), None);
        assert!(!memory.memory_growing(1 << 20, (1 << 20) + 1, None).unwrap());
        assert_eq!((memory.refused(), memory.used()), (Some(1 << 20), 1 << 20));
        memory.begin();
        assert_eq!(memory.refused(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_ticks_in_which_the_guest_ran_count_against_it() {
        let mut meter = Meter::new(true);
        meter.begin(Duration::from_millis(3), clock::now());
        for _ in 0..3 {
            assert!(
                matches!(meter.tick(), UpdateDeadline::YieldCustom(1, _)),
                "three whole milliseconds are its own"
            );
        }
        assert!(matches!(meter.tick(), UpdateDeadline::Interrupt));
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_that_does_not_give_way_has_no_more_time_for_that() {
        let mut meter = Meter::new(false);
        meter.begin(Duration::from_millis(2), clock::now());
        assert!(matches!(meter.tick(), UpdateDeadline::Continue(1)));
        assert!(matches!(meter.tick(), UpdateDeadline::Continue(1)));
        assert!(matches!(meter.tick(), UpdateDeadline::Interrupt));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wall_clock_ends_a_call_that_hardly_runs() {
        let mut meter = Meter::new(true);
        meter.begin(Duration::from_millis(10), clock::now());
        tokio::time::advance(Duration::from_millis(99)).await;
        assert!(matches!(meter.tick(), UpdateDeadline::YieldCustom(1, _)));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(matches!(meter.tick(), UpdateDeadline::Interrupt));
    }
}
