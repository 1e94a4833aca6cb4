//! What a call holds while it has to do with a target: the right to call it, and the attempt that runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use sluice_core::breaker::{self, Lesson};

use super::{Kept, lock};

/// The right to one call of a target. Settles exactly once: dropped, it has taught nothing.
#[must_use = "a ticket that is dropped teaches nothing and gives a probe's slot back"]
pub struct Ticket {
    kept: Arc<Kept>,
    /// There until it is settled.
    ticket: Option<breaker::Ticket>,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("target", &self.kept.key).field("ticket", &self.ticket).finish()
    }
}

impl Ticket {
    pub(super) fn new(kept: &Arc<Kept>, ticket: breaker::Ticket) -> Self {
        Self { kept: kept.clone(), ticket: Some(ticket) }
    }

    /// It ended well.
    pub fn success(mut self, now: Instant) {
        self.settle(Lesson::Success, now);
    }

    /// One counted failure.
    pub fn failure(mut self, now: Instant) {
        self.settle(Lesson::Failure, now);
    }

    /// A failure that opens the breaker at once.
    pub fn open(mut self, now: Instant) {
        self.settle(Lesson::Open, now);
    }

    /// It taught nothing.
    pub fn neutral(self) {}

    /// First content went to the caller. As the probe, it closes the breaker, and what is left of the call is
    /// an ordinary one.
    pub fn commit(&mut self) {
        let change = self.ticket.as_mut().and_then(|ticket| lock(&self.kept.inner).breaker.commit(ticket));
        self.kept.tell(change);
    }

    /// It is the probe, and has not committed.
    pub fn is_probe(&self) -> bool {
        self.ticket.as_ref().is_some_and(breaker::Ticket::is_probe)
    }

    /// The call runs on beyond a limit of its own. A probe has failed by that, so that others need not wait for it, and
    /// what becomes of it teaches nothing any more; any other call is judged by its end. Gives whether it was the probe.
    pub fn runs_over(&mut self, now: Instant) -> bool {
        let probe = self.is_probe();
        if probe {
            self.settle(Lesson::Failure, now);
        }
        probe
    }

    fn settle(&mut self, lesson: Lesson, now: Instant) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let factor = 1.0 + 0.2 * fastrand::f64();
        let change = lock(&self.kept.inner).breaker.settle(ticket, lesson, now, factor);
        self.kept.tell(change);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            lock(&self.kept.inner).breaker.release(ticket);
        }
    }
}

/// An attempt that is running.
#[must_use = "the attempt counts as over when this is dropped"]
pub struct Running {
    kept: Arc<Kept>,
}

impl Running {
    pub(super) fn new(kept: &Arc<Kept>) -> Self {
        kept.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { kept: kept.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kept.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
