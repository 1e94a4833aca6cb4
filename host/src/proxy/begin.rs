//! The begin of an attempt: the right to call, a credential, the permits. And their end: what an attempt holds
//! is given back when its exchange is really over.

use std::time::Instant;

use sluice_core::kind::Outcome;
use tokio_util::task::TaskTracker;

use super::call::Call;
use super::ending::Ending;
use super::error::Failure;
use crate::clock;
use crate::generation::Target;
use crate::state::{GateRefusal, Lease, Permit, Pick, Priority, Running, Ticket};
use crate::upstream::Line;

/// What one attempt holds from its begin to its very end, a stream included. Dropped, it has taught nothing.
pub(super) struct Attempt {
    /// Position of its target in the route.
    pub position: usize,
    /// Number of the attempt.
    pub number: u32,
    /// When it began.
    pub started: Instant,
    /// The right to teach the breaker.
    pub ticket: Ticket,
    /// The credential in use.
    pub credential: Option<Lease>,
    pub hold: Hold,
}

/// What an attempt needs, before it has begun. Dropped, nothing has happened.
pub(super) struct Place {
    ticket: Ticket,
    credential: Option<Lease>,
    permits: Vec<Permit>,
    /// When everything was there.
    pub at: Instant,
}

/// What is given back only when the exchange is really over: at once after a proper end, else when its
/// connection has closed.
pub(super) struct Hold {
    /// The connection in use.
    pub line: Line,
    held: Option<(Vec<Permit>, Running)>,
    tracker: TaskTracker,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.line.after_close(held, &self.tracker);
        }
    }
}

/// Why an attempt did not begin.
pub(super) enum NotBegun {
    /// The target is not able after all.
    Skipped,
    /// A gate of ours refused.
    Saturated(Failure),
    /// The request ends with this.
    End(Failure),
}

impl From<Failure> for NotBegun {
    fn from(failure: Failure) -> Self {
        Self::End(failure)
    }
}

/// The permits of an attempt at a target, where all are free.
///
/// # Errors
/// Those of the gates before the first that is full.
fn at_once(target: &Target) -> Result<Vec<Permit>, Vec<Permit>> {
    let mut permits = Vec::with_capacity(1);
    for gate in target.cell.gates() {
        match gate.try_enter(Priority::Newcomer) {
            Some(permit) => permits.push(permit),
            None => return Err(permits),
        }
    }
    Ok(permits)
}

/// A stream or whole answer has ended well. Gives what the attempt still holds.
pub(super) fn served(call: &mut Call, attempt: Attempt) -> Hold {
    let now = clock::now();
    call.target(attempt.position).cell.observe_result(now, true);
    attempt.ticket.success(now);
    call.ledger.attempt_served(now);
    let outcome = if call.ledger.degraded() { Outcome::FallbackSuccess } else { Outcome::Success };
    call.ledger.end(Ending { status: 200, outcome, error_code: None });
    attempt.hold
}

impl Call {
    /// Takes what an attempt needs: the ticket first, so that one call alone waits as the probe; then a
    /// credential and the permits.
    pub async fn place(&mut self, position: usize, now: Instant) -> Result<Place, NotBegun> {
        let target = &self.route.targets[position];
        let Ok(ticket) = target.cell.admit(now) else {
            self.ledger.skipped(target);
            return Err(NotBegun::Skipped);
        };
        // The clock is read again only where time can have passed.
        let (permits, at) = match at_once(target) {
            Ok(permits) => (permits, now),
            Err(permits) => {
                let permits = Box::pin(self.queue(position, permits)).await?;
                (permits, clock::now().max(now))
            }
        };
        let target = &self.route.targets[position];
        let failed = self.failed_with(target);
        let credential = match target.upstream.pick(at, &failed) {
            Pick::Lease(lease) => Some(lease),
            Pick::NoneNeeded => None,
            Pick::AllAside(_) | Pick::NoneLeft => {
                self.ledger.skipped(target);
                return Err(NotBegun::Skipped);
            }
        };
        Ok(Place { ticket, credential, permits, at })
    }

    /// Begins the attempt that has its place.
    pub fn begin(&mut self, position: usize, place: Place, now: Instant) -> Attempt {
        let target = &self.route.targets[position];
        let Place { ticket, credential, permits, at: _ } = place;
        let (input, output) = self.estimate();
        self.ledger.quota = target.upstream.uses(now, input.saturating_add(output));
        let role = self.choice.role(position);
        let number = self.ledger.attempt_begins(target, role, ticket.is_probe(), now);
        let hold = Hold {
            line: Line::default(),
            held: Some((permits, target.cell.run())),
            tracker: self.ledger.shared().tracker.clone(),
        };
        Attempt { position, number, started: now, ticket, credential, hold }
    }

    /// The permits of an attempt that are not among these, waited for. A call that has to wait gives its global permit
    /// back meanwhile, and takes one again ahead of newcomers.
    async fn queue(&mut self, position: usize, mut permits: Vec<Permit>) -> Result<Vec<Permit>, NotBegun> {
        let route = self.route.clone();
        let target = &route.targets[position];
        let deadline = self.budget.deadline();
        for gate in target.cell.gates().skip(permits.len()) {
            if let Some(permit) = gate.try_enter(Priority::Newcomer) {
                permits.push(permit);
                continue;
            }
            let shared = self.ledger.shared().clone();
            if shared.draining.is_cancelled() {
                // No wait begins any more; calls that need none are still served.
                gate.turn_away();
                return Err(NotBegun::Saturated(Failure::QueueFull));
            }
            let began = clock::now();
            self.global = None;
            // In this order: a failure that opens the target also sets free the place that is waited for.
            let entered = tokio::select! {
                biased;
                () = target.cell.refusing() => {
                    self.ledger.skipped(target);
                    self.regain(began).await?;
                    return Err(NotBegun::Skipped);
                }
                () = shared.draining.cancelled() => return Err(Failure::Draining.into()),
                entered = gate.enter(Priority::Newcomer, deadline) => entered,
            };
            let refusal = match entered {
                Ok(permit) => {
                    permits.push(permit);
                    None
                }
                Err(refusal) => Some(refusal),
            };
            self.regain(began).await?;
            match refusal {
                None if target.cell.refuses(clock::now()) => {
                    self.ledger.skipped(target);
                    return Err(NotBegun::Skipped);
                }
                None => {}
                Some(GateRefusal::Full) => return Err(NotBegun::Saturated(Failure::QueueFull)),
                Some(GateRefusal::TimedOut) => return Err(NotBegun::Saturated(Failure::QueueTimeout)),
            }
        }
        Ok(permits)
    }

    async fn regain(&mut self, began: Instant) -> Result<(), Failure> {
        let deadline = self.budget.deadline();
        if self.global.is_none() {
            let gate = self.ledger.generation().global_gate().clone();
            let shared = self.ledger.shared().clone();
            let entered = tokio::select! {
                biased;
                entered = gate.enter(Priority::Returning, deadline) => entered,
                () = shared.draining.cancelled() => return Err(Failure::Draining),
            };
            self.global = match entered {
                Ok(permit) => Some(permit),
                Err(_) if clock::now() >= deadline => return Err(Failure::BudgetExhausted),
                Err(GateRefusal::Full) => return Err(Failure::QueueFull),
                Err(GateRefusal::TimedOut) => return Err(Failure::QueueTimeout),
            };
        }
        let now = clock::now();
        self.ledger.waited += now.saturating_duration_since(began);
        if now >= deadline { Err(Failure::BudgetExhausted) } else { Ok(()) }
    }
}
