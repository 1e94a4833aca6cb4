//! What a ledger tells: taggers, errors and, once, the record.

use bytes::Bytes;
use serde::Serialize;
use sluice_core::lens::own_member::with_own_member;

use super::*;

/// What `tags.in_body` adds to an answer.
#[derive(Serialize)]
struct Own<'a> {
    route: &'static str,
    /// None: hidden from callers.
    #[serde(flatten)]
    shown: Option<Shown<'a>>,
    degraded: bool,
    failure_kind: Option<&'static str>,
    attempts: u32,
    latency_ms: u64,
    request_id: &'a str,
}

#[derive(Serialize)]
struct Shown<'a> {
    upstream: Option<&'a str>,
    served_model: Option<&'a str>,
}

impl Ledger {
    /// What a tagger is told.
    pub fn answer_facts(
        &self,
        phase: TagPhase,
        ending: Option<&Ending>,
        status: u16,
        now: Instant,
    ) -> AnswerFacts {
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
            latency: self.answer_latency(),
            first_content: self.first_content,
            duration: (phase == TagPhase::Record).then(|| now.saturating_duration_since(self.arrival)),
            status,
            outcome: ending.map(|e| e.outcome),
            error_code: ending.and_then(|e| e.error_code.clone()),
            usage: self.usage,
            max_tokens_lowered: self.max_tokens_lowered,
            policy: self.policy().line(&self.asked, phase == TagPhase::Head),
        }
    }

    /// A whole answer with the facts of the tags in it, where the configuration wants that; what is no JSON object stays as
    /// it is. The same facts as the bundled tagger has, whoever writes the headers.
    pub fn marked(&self, body: Bytes) -> Bytes {
        let tags = &self.generation.config.tags;
        if !tags.in_body {
            return body;
        }
        let served = self.served.as_ref();
        let own = Own {
            route: self.role.as_str(),
            shown: tags.expose_upstream.then(|| Shown {
                upstream: served.map(|served| &*served.upstream),
                served_model: served.map(|served| &*served.model),
            }),
            degraded: self.degraded(),
            failure_kind: self.failure_kind().map(FailureKind::as_str),
            attempts: self.attempts(),
            latency_ms: clock::whole_ms(self.answer_latency()),
            request_id: &self.facts.id,
        };
        // Texts and numbers alone: this is always JSON.
        let own = serde_json::to_vec(&own).unwrap_or_else(|_| b"null".to_vec());
        with_own_member(&body, &own).unwrap_or(body)
    }

    /// To commit, or until now.
    fn answer_latency(&self) -> Duration {
        self.latency.unwrap_or_else(|| clock::now().saturating_duration_since(self.arrival))
    }

    /// The attempts, as an error shows them.
    pub fn attempt_views(&self, with_target: bool) -> Vec<AttemptView> {
        let view = |note: &AttemptNote| AttemptView {
            n: note.record.n,
            role: note.record.role.as_str(),
            target: with_target.then(|| note.record.target.to_string()),
            kind: note.record.kind.map(FailureKind::as_str),
            status: note.record.status,
            ms: clock::whole_ms(note.record.took),
        };
        self.attempts.iter().map(view).collect()
    }

    pub(super) fn record(&mut self, ending: &Ending, ended: Instant) -> (Record, Decision, Option<Duration>) {
        let attempts: Vec<AttemptRecord> = self.attempts.drain(..).map(|note| note.record).collect();
        let duration = ended.saturating_duration_since(self.arrival);
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
