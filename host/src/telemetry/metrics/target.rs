//! The series of one target.

use std::sync::Arc;

use prometheus::{Histogram, IntCounter};
use sluice_core::facts::BreakerState;
use sluice_core::kind::{FailureKind, Role};

use super::families::Families;
use super::family::Slot;
use super::handles::{Cache, slots, status_key, status_label};
use crate::telemetry::events::ProviderEvent;
use crate::telemetry::names::Interruption;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptResult {
    /// It served, to its end.
    Ok,
    /// The client left.
    Cancelled,
    /// It failed, before or after commit.
    Failed(FailureKind),
}

impl AttemptResult {
    /// Label values: `ok`, `cancelled`, or the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Cancelled => "cancelled",
            Self::Failed(kind) => kind.as_str(),
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Ok => 0,
            Self::Cancelled => 1,
            Self::Failed(kind) => 2 + kind as usize,
        }
    }

    /// Every result an attempt can have. A refusal by a gate is no attempt.
    fn all() -> impl Iterator<Item = Self> {
        let kinds = FailureKind::ALL.iter().copied().filter(|kind| *kind != FailureKind::GatewaySaturated);
        [Self::Ok, Self::Cancelled].into_iter().chain(kinds.map(Self::Failed))
    }
}

const RESULTS: usize = 2 + FailureKind::ALL.len();

/// The series of one target.
#[derive(Debug)]
pub struct TargetSeries {
    pub(super) id: u64,
    key: Arc<str>,
    pub(super) upstream: Arc<str>,
    pub(super) model: Arc<str>,
    families: Arc<Families>,
    attempts: [[Slot<IntCounter>; RESULTS]; 2],
    duration: [Slot<Histogram>; 2],
    failures: Cache<(FailureKind, Option<u16>, Role), IntCounter>,
    events: [Slot<IntCounter>; ProviderEvent::ALL.len()],
    interrupted: [Slot<IntCounter>; Interruption::ALL.len()],
    transitions: [Slot<IntCounter>; 3],
    retries: Slot<IntCounter>,
    denied: Slot<IntCounter>,
    malformed: Slot<IntCounter>,
}

impl TargetSeries {
    /// `upstream/model`, or `other`.
    pub const fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Those of the target `key`. `id` is its own among all that are held at one time, and not 0.
    pub fn new(families: Arc<Families>, id: u64, key: Arc<str>, upstream: Arc<str>, model: Arc<str>) -> Self {
        Self {
            id,
            key,
            upstream,
            model,
            families,
            attempts: [slots(), slots()],
            duration: slots(),
            failures: Cache::new(),
            events: slots(),
            interrupted: slots(),
            transitions: slots(),
            retries: Slot::new(),
            denied: Slot::new(),
            malformed: Slot::new(),
        }
    }

    /// Makes every counter with a closed set of labels, so that the first step of each is seen as one.
    pub fn at_zero(self) -> Self {
        for result in AttemptResult::all() {
            self.attempts(Role::Primary, result);
            self.attempts(Role::Fallback, result);
        }
        for event in ProviderEvent::ALL {
            self.event(*event);
        }
        for reason in Interruption::ALL {
            self.interrupted(*reason);
        }
        for state in [BreakerState::Closed, BreakerState::HalfOpen, BreakerState::Open] {
            self.transition(state);
        }
        self.retries();
        self.retry_budget_denied();
        self.malformed();
        self
    }

    /// `sluice_attempts_total`.
    pub fn attempts(&self, role: Role, result: AttemptResult) -> &IntCounter {
        let find = || self.families.attempts.with(&[&self.key, role.as_str(), result.as_str()]);
        self.attempts[role as usize][result.index()].get_or_init(find)
    }

    /// `sluice_attempt_duration_seconds`.
    pub fn duration(&self, role: Role) -> &Histogram {
        self.duration[role as usize]
            .get_or_init(|| self.families.attempt_duration.with(&[&self.key, role.as_str()]))
    }

    /// One of `sluice_attempt_failures_total`.
    pub fn failure(&self, kind: FailureKind, status: Option<u16>, role: Role) {
        let status = status_key(status);
        let find = || {
            let status = status_label(status);
            self.families.attempt_failures.with(&[&self.key, kind.as_str(), &status, role.as_str()])
        };
        self.failures.count((kind, status, role), find, IntCounter::inc);
    }

    /// `sluice_provider_events_total`.
    pub fn event(&self, event: ProviderEvent) -> &IntCounter {
        self.events[event as usize]
            .get_or_init(|| self.families.provider_events.with(&[event.as_str(), &self.key]))
    }

    /// `sluice_streams_interrupted_total`.
    pub fn interrupted(&self, reason: Interruption) -> &IntCounter {
        let find = || self.families.streams_interrupted.with(&[&self.key, reason.as_str()]);
        self.interrupted[reason as usize].get_or_init(find)
    }

    /// `sluice_breaker_transitions_total`.
    pub fn transition(&self, to: BreakerState) -> &IntCounter {
        let find = || self.families.breaker_transitions.with(&[&self.key, to.as_str()]);
        self.transitions[to as usize].get_or_init(find)
    }

    /// `sluice_retries_total`.
    pub fn retries(&self) -> &IntCounter {
        self.retries.get_or_init(|| self.families.retries.with(&[&self.key]))
    }

    /// `sluice_retry_budget_denied_total`.
    pub fn retry_budget_denied(&self) -> &IntCounter {
        self.denied.get_or_init(|| self.families.retry_budget_denied.with(&[&self.key]))
    }

    /// `sluice_malformed_events_total`.
    pub fn malformed(&self) -> &IntCounter {
        self.malformed.get_or_init(|| self.families.malformed_events.with(&[&self.key]))
    }
}
