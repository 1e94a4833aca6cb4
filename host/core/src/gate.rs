//! Who runs and who waits: a FIFO gate with a bounded queue, as plain state.
//!
//! Two lines stand in front of it. Calls that gave their permit back while they waited somewhere else
//! ([`Priority::Returning`]) go ahead of newcomers. A grant is made to a waiter and stays its own until it is
//! claimed or the waiter cancels; a cancelled grant goes to the next one, so none is ever lost. How waiters
//! sleep and are woken is the host's business: `W` is whatever it wakes them with.

use std::collections::{BTreeSet, VecDeque};

#[cfg(test)]
mod tests;

/// May be changed while calls run: those above a lowered limit finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Permits.
    pub max_in_flight: u32,
    /// Newcomers that may wait; 0: none.
    pub queue: u32,
}

/// Which line a call stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// It was never in.
    Newcomer,
    /// It had a permit and gave it back while it waited elsewhere.
    Returning,
}

/// A place in a line, until it is claimed or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(u64);

/// Its line is as long as it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The gate.
#[derive(Debug)]
pub struct Gate<W> {
    limits: Limits,
    /// Permits out, granted and not yet claimed ones included.
    in_flight: u32,
    /// Both ascending, since places are numbered as they are taken.
    returning: VecDeque<(WaiterId, W)>,
    newcomers: VecDeque<(WaiterId, W)>,
    granted: BTreeSet<WaiterId>,
    next: u64,
}

impl<W> Gate<W> {
    /// An empty gate.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            in_flight: 0,
            returning: VecDeque::new(),
            newcomers: VecDeque::new(),
            granted: BTreeSet::new(),
            next: 0,
        }
    }

    /// Takes a permit if one is free and nobody stands in front: true.
    pub fn try_enter(&mut self, priority: Priority) -> bool {
        let in_front = match priority {
            Priority::Newcomer => self.waiting() > 0,
            Priority::Returning => !self.returning.is_empty(),
        };
        let enters = !in_front && self.in_flight < self.limits.max_in_flight;
        if enters {
            self.in_flight += 1;
        }
        enters
    }

    /// Stands in line. To be asked after [`Gate::try_enter`] said no, under the same lock.
    ///
    /// # Errors
    /// [`Full`]: as many newcomers wait as the queue holds. The line of returning calls has a bound of its own,
    /// as many as there are permits, so that a queue full of newcomers turns no call away that was in already.
    pub fn enqueue(&mut self, priority: Priority, waiter: W) -> Result<WaiterId, Full> {
        let (line, bound) = match priority {
            Priority::Newcomer => (&mut self.newcomers, self.limits.queue),
            Priority::Returning => (&mut self.returning, self.limits.max_in_flight),
        };
        if line.len() >= bound as usize {
            return Err(Full);
        }
        let id = WaiterId(self.next);
        self.next += 1;
        line.push_back((id, waiter));
        Ok(id)
    }

    /// A waiter takes the permit that was granted to it: true. False: none was, it still waits.
    pub fn claim(&mut self, id: WaiterId) -> bool {
        self.granted.remove(&id)
    }

    /// A waiter goes away, whether it still waits or was granted a permit it has not claimed. The one to wake
    /// is whoever gets that permit instead.
    pub fn cancel(&mut self, id: WaiterId) -> Option<W> {
        if self.granted.remove(&id) {
            return self.leave();
        }
        for line in [&mut self.returning, &mut self.newcomers] {
            if let Ok(at) = line.binary_search_by_key(&id, |(waiting, _)| *waiting) {
                line.remove(at);
            }
        }
        None
    }

    /// A permit comes back. The one to wake was granted it.
    pub fn leave(&mut self) -> Option<W> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.grant()
    }

    /// Takes new limits in place. Everyone to wake was granted a permit that a raised limit set free.
    pub fn set(&mut self, limits: Limits) -> Vec<W> {
        self.limits = limits;
        std::iter::from_fn(|| self.grant()).collect()
    }

    /// Limits in force.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Permits out. Above the limit only while calls finish that were in before it was lowered.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Waiters in both lines.
    pub fn waiting(&self) -> usize {
        self.returning.len() + self.newcomers.len()
    }

    fn grant(&mut self) -> Option<W> {
        if self.in_flight >= self.limits.max_in_flight {
            return None;
        }
        let (id, waiter) = self.returning.pop_front().or_else(|| self.newcomers.pop_front())?;
        self.in_flight += 1;
        self.granted.insert(id);
        Some(waiter)
    }
}
