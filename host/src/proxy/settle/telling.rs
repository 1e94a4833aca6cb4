//! What a ledger tells: taggers, errors and, once, the record.

use super::*;
use crate::policy::Named;

impl Ledger {
    /// What a tagger is told.
    pub fn answer_facts(&self, phase: TagPhase, ending: Option<&Ending>, status: u16) -> AnswerFacts {
        let now = clock::now();
        AnswerFacts {
            phase,
            served: self.served_index,
            degraded: self.degraded(),
            failure_kind: self.failure_kind(),
            attempts: self
                .attempts
                .iter()
                .map(|note| AttemptFacts {
                    target: note.target_index,
                    kind: note.record.kind,
                    status: note.record.status,
                    took: note.record.took,
                })
                .collect(),
            latency: self.latency.unwrap_or_else(|| now.saturating_duration_since(self.arrival)),
            first_content: self.first_content,
            duration: (phase == TagPhase::Record).then(|| now.saturating_duration_since(self.arrival)),
            status,
            outcome: ending.map(|e| e.outcome),
            error_code: ending.and_then(|e| e.error_code.clone()),
            usage: self.usage,
            max_tokens_lowered: self.max_tokens_lowered,
            policy: self.policy_line(phase),
        }
    }

    /// Those that decided so far, and those that are about to.
    fn policy_line(&self, phase: TagPhase) -> String {
        let to_come = self.policy.taggers(phase == TagPhase::Head);
        policy::policy_line(self.generation.number, self.asked.iter().map(Named::from).chain(to_come))
    }

    /// The attempts, as an error shows them.
    pub fn attempt_views(&self, with_target: bool) -> Vec<AttemptView> {
        let view = |note: &AttemptNote| AttemptView {
            n: note.record.n,
            role: note.record.role.as_str(),
            target: with_target.then(|| note.record.target.to_string()),
            kind: note.record.kind.map(FailureKind::as_str),
            status: note.record.status,
            ms: u64::try_from(note.record.took.as_millis()).unwrap_or(u64::MAX),
        };
        self.attempts.iter().map(view).collect()
    }

    pub(super) fn record(&mut self, ending: &Ending) -> (Record, Decision, Option<Duration>) {
        let attempts: Vec<AttemptRecord> = self.attempts.drain(..).map(|note| note.record).collect();
        let duration = clock::now().saturating_duration_since(self.arrival);
        let busy: Duration = attempts.iter().map(|a| a.took).sum();
        let overhead = self.latency.map(|latency| latency.saturating_sub(busy + self.waited));
        let record = Record {
            time: self.wall,
            request_id: self.facts.id.clone(),
            caller: self.facts.caller.clone(),
            endpoint: std::mem::take(&mut self.endpoint),
            model: self.model.clone(),
            served: self.served.take(),
            role: self.role,
            stream: self.facts.streaming,
            status: ending.status,
            outcome: ending.outcome,
            failure_kind: self.failure_kind(),
            latency: self.latency,
            ttft: self.first_content,
            duration,
            attempts,
            budget: self.budget.map_or(Duration::ZERO, |b| b.total()),
            budget_left: self.budget_left.unwrap_or_default(),
            tokens: self.usage,
            max_tokens_lowered: self.max_tokens_lowered,
            generation: self.generation.number,
            plugins: std::mem::take(&mut self.asked),
            decision: self.choices.take(),
            tags: std::mem::take(&mut self.record_tags),
        };
        (record, std::mem::take(&mut self.decision), overhead)
    }
}
