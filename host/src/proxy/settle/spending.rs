//! What a call has cost its caller, once it has ended.

use sluice_core::allowance::Need;
use sluice_core::facts::Usage;
use sluice_core::kind::Outcome;

use super::super::caller::cost;
use super::Ledger;
use crate::clock;

impl Ledger {
    /// Settles what was taken when the call came in. Once.
    pub(super) fn settle_spending(&mut self, outcome: Outcome) {
        if let Some(spending) = self.spending.take() {
            spending.settle(self.spent(outcome));
        }
    }

    /// What the last attempt took of its upstream's quota, if that is known. Once.
    pub(super) fn settle_quota(&mut self) {
        if let (Some(quota), Some(usage)) = (self.quota.take(), self.usage) {
            quota.settle(clock::now(), usage.input.saturating_add(usage.output));
        }
    }

    /// The tokens of the answer at the prices of who gave it. A client that left while an attempt ran has had
    /// its input read all the same, and an answer that was taken back was generated; an attempt that failed is not
    /// billed.
    fn spent(&self, outcome: Outcome) -> Need {
        let running = self.attempts.last().filter(|note| note.record.kind.is_none());
        let abandoned = running.filter(|_| outcome == Outcome::ClientCancelled || self.usage.is_some());
        let Some(target) = self.served_index.or(abandoned.map(|note| note.target_index)) else {
            return Need::default();
        };
        let input = u64::from(self.facts.input_tokens);
        let usage = self.usage.unwrap_or(Usage { input, output: 0, estimated: true });
        let target = usize::try_from(target).ok().and_then(|at| self.generation.config.targets.get(at));
        Need {
            tokens: usage.input.saturating_add(usage.output),
            cost: target.map(|target| cost(target, usage.input, usage.output)).unwrap_or_default(),
        }
    }
}
