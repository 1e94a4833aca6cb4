//! The series of one route, one target, one gate and one plugin, each looked up once and held, so that counting
//! costs an atomic step and at most one look-up with a small key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus::{Histogram, IntCounter};
use sluice_core::facts::{BreakerState, PluginKind, Usage};
use sluice_core::kind::{FailureKind, Outcome, Role};

use super::bound::{NONE, OTHER};
use super::families::Families;
use super::family::Slot;
use crate::telemetry::events::ProviderEvent;
use crate::telemetry::names::{CallResult, GateRefusal, Interruption};

/// Statuses that are label values; all others are `other`, because a provider may answer anything.
#[rustfmt::skip]
const STATUSES: &[u16] = &[
    101, 200, 201, 202, 203, 204, 206, 300, 301, 302, 303, 304, 307, 308,
    400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425,
    426, 428, 429, 431, 451, 498, 499, 500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 521, 522, 523, 524, 525, 526, 527,
    529, 530, 598, 599,
];

/// A status as a label value.
pub fn status_label(status: Option<u16>) -> String {
    match status {
        None => NONE.to_owned(),
        Some(status) if STATUSES.contains(&status) => status.to_string(),
        Some(_) => OTHER.to_owned(),
    }
}

/// Statuses outside the list are one key, so that a provider cannot fill a map.
fn status_key(status: Option<u16>) -> Option<u16> {
    status.map(|status| if STATUSES.contains(&status) { status } else { 0 })
}

/// A flag as a label value.
pub const fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// Series that are looked up by a small key the first time.
#[derive(Debug)]
struct Cache<K, S>(RwLock<HashMap<K, S>>);

impl<K: Eq + Hash, S: Clone> Cache<K, S> {
    fn new() -> Self {
        Self(RwLock::new(HashMap::new()))
    }

    fn get(&self, key: K, find: impl FnOnce() -> S) -> S {
        if let Some(found) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return found.clone();
        }
        let found = find();
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
        found
    }
}

fn slots<S, const N: usize>() -> [Slot<S>; N] {
    std::array::from_fn(|_| Slot::new())
}

const OUTCOMES: usize = Outcome::ALL.len();

/// How a request ended, as far as it is a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct EndKey {
    served: u64,
    status: Option<u16>,
    outcome: Outcome,
    fallback: bool,
}

/// The series of one requested name.
#[derive(Debug)]
pub struct RouteSeries {
    name: Arc<str>,
    families: Arc<Families>,
    ended: Cache<EndKey, IntCounter>,
    tokens: Cache<(u64, bool), [IntCounter; 2]>,
    duration: [Slot<Histogram>; OUTCOMES],
    first: [Slot<Histogram>; 2],
    overhead: Slot<Histogram>,
    attempts: Slot<Histogram>,
    budget_left: Slot<Histogram>,
}

impl RouteSeries {
    /// Those of `name`.
    pub fn new(families: Arc<Families>, name: Arc<str>) -> Self {
        Self {
            name,
            families,
            ended: Cache::new(),
            tokens: Cache::new(),
            duration: slots(),
            first: slots(),
            overhead: Slot::new(),
            attempts: Slot::new(),
            budget_left: Slot::new(),
        }
    }

    /// `sluice_requests_total`; `served` none: nobody served.
    pub fn ended(&self, served: Option<&TargetSeries>, status: u16, outcome: Outcome, fallback: bool) -> IntCounter {
        let status = status_key(Some(status));
        let key = EndKey { served: served.map_or(0, |t| t.id), status, outcome, fallback };
        self.ended.get(key, || {
            let (model, upstream) = served.map_or((NONE, NONE), |t| (&*t.model, &*t.upstream));
            let status = status_label(status);
            self.families.requests.with(&[&self.name, model, upstream, &status, outcome.as_str(), flag(fallback)])
        })
    }

    /// `sluice_tokens_total`, input and output.
    pub fn tokens(&self, served: Option<&TargetSeries>, usage: Usage) -> [IntCounter; 2] {
        self.tokens.get((served.map_or(0, |t| t.id), usage.estimated), || {
            let model = served.map_or(NONE, |t| &*t.model);
            let source = crate::telemetry::record::token_source(usage);
            ["input", "output"].map(|direction| self.families.tokens.with(&[&self.name, model, direction, source]))
        })
    }

    /// `sluice_request_duration_seconds`.
    pub fn duration(&self, outcome: Outcome) -> &Histogram {
        let find = || self.families.request_duration.with(&[&self.name, outcome.as_str()]);
        self.duration[outcome as usize].get_or_init(find)
    }

    /// `sluice_time_to_first_token_seconds`.
    pub fn first(&self, fallback: bool) -> &Histogram {
        self.first[usize::from(fallback)].get_or_init(|| self.families.time_to_first_token.with(&[&self.name, flag(fallback)]))
    }

    /// `sluice_gateway_overhead_seconds`.
    pub fn overhead(&self) -> &Histogram {
        self.overhead.get_or_init(|| self.families.overhead.with(&[&self.name]))
    }

    /// `sluice_attempts_per_request`.
    pub fn attempts(&self) -> &Histogram {
        self.attempts.get_or_init(|| self.families.attempts_per_request.with(&[&self.name]))
    }

    /// `sluice_budget_left_seconds`.
    pub fn budget_left(&self) -> &Histogram {
        self.budget_left.get_or_init(|| self.families.budget_left.with(&[&self.name]))
    }
}

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
    id: u64,
    key: Arc<str>,
    upstream: Arc<str>,
    model: Arc<str>,
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
        self.duration[role as usize].get_or_init(|| self.families.attempt_duration.with(&[&self.key, role.as_str()]))
    }

    /// `sluice_attempt_failures_total`.
    pub fn failures(&self, kind: FailureKind, status: Option<u16>, role: Role) -> IntCounter {
        let status = status_key(status);
        self.failures.get((kind, status, role), || {
            let status = status_label(status);
            self.families.attempt_failures.with(&[&self.key, kind.as_str(), &status, role.as_str()])
        })
    }

    /// `sluice_provider_events_total`.
    pub fn event(&self, event: ProviderEvent) -> &IntCounter {
        self.events[event as usize].get_or_init(|| self.families.provider_events.with(&[event.as_str(), &self.key]))
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

/// The series of one gate.
#[derive(Debug)]
pub struct GateSeries {
    name: Arc<str>,
    families: Arc<Families>,
    wait: Slot<Histogram>,
    refused: [Slot<IntCounter>; GateRefusal::ALL.len()],
}

impl GateSeries {
    /// The label value.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Those of the gate `name`.
    pub fn new(families: Arc<Families>, name: Arc<str>) -> Self {
        Self { name, families, wait: Slot::new(), refused: slots() }
    }

    /// Makes both counters of refusals.
    pub fn at_zero(self) -> Self {
        for reason in GateRefusal::ALL {
            self.refused(*reason);
        }
        self
    }

    /// `sluice_gate_wait_seconds`.
    pub fn wait(&self) -> &Histogram {
        self.wait.get_or_init(|| self.families.gate_wait.with(&[&self.name]))
    }

    /// `sluice_gate_refused_total`.
    pub fn refused(&self, reason: GateRefusal) -> &IntCounter {
        let find = || self.families.gate_refused.with(&[&self.name, reason.as_str()]);
        self.refused[reason as usize].get_or_init(find)
    }
}

/// The series of one plugin.
#[derive(Debug)]
pub struct PluginSeries {
    name: Arc<str>,
    families: Arc<Families>,
    calls: [[Slot<IntCounter>; CallResult::ALL.len()]; PluginKind::ALL.len()],
    duration: [Slot<Histogram>; PluginKind::ALL.len()],
}

impl PluginSeries {
    /// The label value.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Those of the plugin `name`.
    pub fn new(families: Arc<Families>, name: Arc<str>) -> Self {
        Self { name, families, calls: [slots(), slots(), slots()], duration: slots() }
    }

    /// Makes every counter of calls of these kinds.
    pub fn at_zero(self, kinds: &[PluginKind]) -> Self {
        for kind in kinds {
            for result in CallResult::ALL {
                self.calls(*kind, *result);
            }
        }
        self
    }

    /// `sluice_plugin_calls_total`.
    pub fn calls(&self, kind: PluginKind, result: CallResult) -> &IntCounter {
        let find = || self.families.plugin_calls.with(&[&self.name, kind.as_str(), result.as_str()]);
        self.calls[kind as usize][result as usize].get_or_init(find)
    }

    /// `sluice_plugin_call_duration_seconds`.
    pub fn duration(&self, kind: PluginKind) -> &Histogram {
        let find = || self.families.plugin_call_duration.with(&[&self.name, kind.as_str()]);
        self.duration[kind as usize].get_or_init(find)
    }

    /// `sluice_plugin_reloads_total`.
    pub fn reloads(&self, result: &str, reason: &str) -> IntCounter {
        self.families.plugin_reloads.with(&[&self.name, result, reason])
    }
}
