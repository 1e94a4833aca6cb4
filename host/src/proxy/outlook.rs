//! What could still be done for a call: how the target it is at and those behind it stand, and which credentials are
//! left to it. What follows from that is the core's to decide.

use std::time::{Duration, Instant};

use sluice_core::kind::FailureKind;
use sluice_core::machine::{Course, Outlook};
use sluice_core::{budget, decide};

use super::call::Call;
use super::judge::Judged;
use super::plan::is_free;
use crate::config::MinBudget;
use crate::generation::Target;
use crate::state::Ticket;

impl Call {
    /// What can be done from a target, for the core to decide: after `judged`, else after a clock of ours or the end of
    /// a pause.
    pub fn outlook(
        &self,
        now: Instant,
        position: usize,
        course: &Course<Judged>,
        judged: Option<&Judged>,
    ) -> Outlook {
        let other = |judged: &Judged| self.other_credential(self.target(position), judged.credential, now);
        Outlook {
            other_credential: judged.is_some_and(other),
            budget_allows: self.ledger.generation().cells.retry_budget.has(now),
            may_wait: !self.ledger.shared().draining.is_cancelled(),
            next: self.choice.order.iter().any(|&next| self.may_switch_to(next, course, now)),
            random: fastrand::f64(),
        }
    }

    /// Whether the call may go to a target of its plan now, having failed elsewhere.
    pub fn may_switch_to(&self, position: usize, course: &Course<Judged>, now: Instant) -> bool {
        let target = self.target(position);
        let context = target.config.target.facts.context;
        course.is_untried(position)
            && is_free(target, now)
            && decide::may_follow(course.left(now), min_budget(target, now), context, self.choice.outgrown)
    }

    /// The attempt at a target is let run on beyond a limit of its own.
    pub fn runs_over(&self, position: usize, ticket: &mut Ticket, now: Instant) {
        if ticket.runs_over(now) {
            let (target, kind) = (self.target(position), FailureKind::RetryableTimeout);
            target.cell.observe_failure(kind);
            self.ledger.probe_failed(target, kind);
        }
    }

    /// Whether a credential of the target's upstream is left that is not `in_use`, and that this call has not
    /// failed with.
    pub fn other_credential(&self, target: &Target, in_use: Option<usize>, now: Instant) -> bool {
        let failed = self.failed_with(target);
        let other = |index| Some(index) != in_use && !failed.contains(&index);
        target.upstream.page(now).iter().any(|c| c.aside.is_none() && other(c.index))
    }

    /// The credentials of the target's upstream that this call has failed with.
    pub fn failed_with(&self, target: &Target) -> Vec<usize> {
        let name = target.upstream.name();
        self.failed_credentials
            .iter()
            .filter(|(upstream, _)| upstream == name)
            .map(|(_, index)| *index)
            .collect()
    }

    /// A credential whose wait is sat out may be used once more.
    pub fn forgive(&mut self, position: usize, credential: Option<usize>) {
        let name = self.target(position).upstream.name().clone();
        self.failed_credentials.retain(|(upstream, index)| *upstream != name || Some(*index) != credential);
    }
}

fn min_budget(target: &Target, now: Instant) -> Duration {
    match target.config.min_budget {
        MinBudget::Fixed(fixed) => fixed,
        MinBudget::P95 { floor } => budget::min_budget(floor, target.cell.p95_to_commit(now)),
    }
}
