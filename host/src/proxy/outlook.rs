//! What could still be done for a call: how the target it is at and those behind it stand, and which credentials are
//! left to it. What follows from that is the core's to decide.

use std::time::{Duration, Instant};

use sluice_core::budget;
use sluice_core::decide::NextTarget;
use sluice_core::kind::FailureKind;
use sluice_core::machine::{Course, Outlook};

use super::call::Call;
use super::judge::Judged;
use super::plan::{is_free, is_larger};
use crate::config::MinBudget;
use crate::generation::Target;

impl Call {
    /// What can be done from a target, for the core to decide: after `judged`, else after a clock of ours or the
    /// last failure there was.
    pub fn outlook(
        &self,
        now: Instant,
        position: usize,
        course: &Course<Judged>,
        judged: Option<&Judged>,
    ) -> Outlook {
        let target = self.target(position);
        let context = target.config.target.facts.context;
        let kind = judged.or(course.last()).map(|judged| judged.verdict.kind);
        let next = self.next_able(now, course, kind, context).map(|next| NextTarget {
            min_budget: min_budget(next, now),
            larger_context: is_larger(next, context),
        });
        Outlook {
            min_budget: min_budget(target, now),
            other_credential: judged
                .is_some_and(|judged| self.other_credential(target, judged.credential, now)),
            budget_allows: self.ledger.generation().cells.retry_budget.has(now),
            next,
            random: fastrand::f64(),
        }
    }

    /// The next target that would be tried after a failure of this kind.
    fn next_able(
        &self,
        now: Instant,
        course: &Course<Judged>,
        kind: Option<FailureKind>,
        context: Option<u32>,
    ) -> Option<&Target> {
        let untried = self.choice.order.iter().filter(|&&p| course.is_untried(p)).map(|&p| self.target(p));
        let mut able = untried.filter(|target| is_free(target, now));
        match kind {
            Some(FailureKind::ContextLengthExceeded) => able.find(|t| is_larger(t, context)),
            _ => able.next(),
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
