//! What the books note of each attempt: that it began, and which of its four ends it had. Who is blamed for an end is
//! decided before.

use super::*;

impl Ledger {
    /// An exchange begins.
    pub fn attempt_begins(&mut self, target: &Target, role: Role, probe: bool, now: Instant) -> u32 {
        let n = self.attempts() + 1;
        self.role = role;
        let record = AttemptRecord {
            n,
            target: target.config.target.key.clone(),
            role,
            kind: None,
            status: None,
            began: now.saturating_duration_since(self.arrival),
            took: Duration::ZERO,
            ttft: None,
            upstream_request_id: None,
        };
        let target_index = u32::try_from(target.config.index).unwrap_or(u32::MAX);
        if self.attempts.is_empty() {
            // Most calls have one, and a stream keeps it for as long as it runs.
            self.attempts.reserve_exact(1);
        }
        self.attempts.push(AttemptNote { record, target_index, started: now, committed: None });
        if let Some(trace) = &mut self.trace {
            let begin = now.saturating_duration_since(self.arrival);
            trace.attempts.push(AttemptSpan {
                span_id: trace::span_id(),
                target: target.config.target.clone(),
                begin,
                end: None,
                probe,
                cancelled: false,
            });
        }
        n
    }

    /// The exchange of the running attempt is over.
    fn span_ends(&mut self, now: Instant, cancelled: bool) {
        let arrival = self.arrival;
        if let Some(span) = self.trace.as_mut().and_then(|trace| trace.attempts.last_mut()) {
            span.end = Some(now.saturating_duration_since(arrival));
            span.cancelled = cancelled;
        }
    }

    /// The running attempt has failed: before commit, or by breaking after it.
    pub fn attempt_failed(
        &mut self,
        kind: FailureKind,
        status: Option<u16>,
        upstream_request_id: Option<String>,
        now: Instant,
    ) {
        self.first_failure.get_or_insert(kind);
        self.span_ends(now, false);
        let Some(note) = self.attempts.last_mut() else { return };
        note.record.kind = Some(kind);
        note.record.status = status.or(note.record.status);
        if note.committed.is_none()
            && let Some(quota) = self.quota.take()
        {
            // A provider that refuses has generated nothing.
            quota.settle(now, 0);
        }
        note.record.took = note.committed.unwrap_or_else(|| now.saturating_duration_since(note.started));
        if upstream_request_id.is_some() {
            note.record.upstream_request_id = upstream_request_id;
        }
        let (record, committed) = (note.record.clone(), note.committed);
        self.count_last(AttemptResult::Failed(kind));
        let what =
            if committed.is_some() { ProviderEvent::StreamInterrupted } else { ProviderEvent::RequestFailed };
        self.event(what, record.target, Some(kind), record.status, Some(record.took));
    }

    /// The running attempt serves from now on.
    pub fn commits(
        &mut self,
        target: &Target,
        status: u16,
        content: bool,
        upstream_request_id: Option<String>,
        now: Instant,
    ) {
        self.latency = Some(now.saturating_duration_since(self.arrival));
        // What is held until it is whole reaches the client at commit, whenever it came.
        self.first_content = self.latency.filter(|_| content);
        self.budget_left = self.budget.map(|b| b.left(now));
        self.served = Some(Served {
            target: target.config.target.key.clone(),
            upstream: target.config.target.upstream.name.clone(),
            model: target.config.target.model.clone(),
        });
        self.served_index = u32::try_from(target.config.index).ok();
        if let Some(note) = self.attempts.last_mut() {
            let took = now.saturating_duration_since(note.started);
            note.committed = Some(took);
            note.record.took = took;
            note.record.ttft = Some(took).filter(|_| content);
            note.record.status = Some(status);
            note.record.upstream_request_id = upstream_request_id;
        }
    }

    /// The running attempt has served to its end.
    pub fn attempt_served(&mut self, now: Instant) {
        self.served_until = Some(now);
        self.span_ends(now, false);
        self.count_last(AttemptResult::Ok);
        let Some(note) = self.attempts.last() else { return };
        if note.record.role == Role::Fallback {
            let took = note.record.took;
            self.event(
                ProviderEvent::FallbackSucceeded,
                note.record.target.clone(),
                None,
                note.record.status,
                Some(took),
            );
        }
    }

    /// The running attempt ends with the client, or with the gateway.
    pub fn attempt_cancelled(&mut self) {
        let now = clock::now();
        let Some(note) = self.attempts.last_mut().filter(|note| note.record.kind.is_none()) else { return };
        if note.committed.is_none() {
            note.record.took = now.saturating_duration_since(note.started);
        }
        self.count_last(AttemptResult::Cancelled);
        self.span_ends(now, true);
    }

    /// Counts the last attempt as having ended so.
    fn count_last(&self, result: AttemptResult) {
        if let Some(AttemptNote { record, committed, .. }) = self.attempts.last() {
            self.shared.telemetry.metrics().attempt_ended(&AttemptSummary {
                target: &record.target,
                role: record.role,
                result,
                status: record.status,
                to_commit: *committed,
            });
        }
    }
}
