//! The series of one route, one gate and one plugin (those of a target are in [`super::target`]), each looked
//! up once and held, so that counting costs an atomic step and at most one look-up with a small key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus::{Histogram, IntCounter};
use sluice_core::facts::{PluginKind, Usage};
use sluice_core::kind::Outcome;

use super::bound::{NONE, OTHER};
use super::families::Families;
use super::family::Slot;
use super::quick::Quick;
use super::target::TargetSeries;
use crate::telemetry::names::{CallResult, GateRefusal};

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
pub(super) fn status_key(status: Option<u16>) -> Option<u16> {
    status.map(|status| if STATUSES.contains(&status) { status } else { 0 })
}

/// A flag as a label value.
pub const fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// Series that are looked up by a small key the first time.
#[derive(Debug)]
pub(super) struct Cache<K, S>(RwLock<HashMap<K, S, Quick>>);

impl<K: Eq + Hash, S> Cache<K, S> {
    pub(super) fn new() -> Self {
        Self(RwLock::default())
    }

    /// Counts in the series of a key.
    pub(super) fn count(&self, key: K, find: impl FnOnce() -> S, step: impl FnOnce(&S)) {
        if let Some(found) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return step(found);
        }
        let found = find();
        step(&found);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key, found);
    }
}

/// Empty slots.
pub(super) fn slots<S, const N: usize>() -> [Slot<S>; N] {
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

    /// One of `sluice_requests_total`; `served` none: nobody served.
    pub fn ended(&self, served: Option<&TargetSeries>, status: u16, outcome: Outcome, fallback: bool) {
        let status = status_key(Some(status));
        let key = EndKey { served: served.map_or(0, |t| t.id), status, outcome, fallback };
        let find = || {
            let (model, upstream) = served.map_or((NONE, NONE), |t| (&*t.model, &*t.upstream));
            let status = status_label(status);
            self.families.requests.with(&[
                &self.name,
                model,
                upstream,
                &status,
                outcome.as_str(),
                flag(fallback),
            ])
        };
        self.ended.count(key, find, IntCounter::inc);
    }

    /// `sluice_tokens_total`, input and output.
    pub fn tokens(&self, served: Option<&TargetSeries>, usage: Usage) {
        let find = || {
            let model = served.map_or(NONE, |t| &*t.model);
            let source = crate::telemetry::record::token_source(usage);
            ["input", "output"]
                .map(|direction| self.families.tokens.with(&[&self.name, model, direction, source]))
        };
        let key = (served.map_or(0, |t| t.id), usage.estimated);
        self.tokens.count(key, find, |[input, output]| {
            input.inc_by(usage.input);
            output.inc_by(usage.output);
        });
    }

    /// `sluice_request_duration_seconds`.
    pub fn duration(&self, outcome: Outcome) -> &Histogram {
        let find = || self.families.request_duration.with(&[&self.name, outcome.as_str()]);
        self.duration[outcome as usize].get_or_init(find)
    }

    /// `sluice_time_to_first_token_seconds`.
    pub fn first(&self, fallback: bool) -> &Histogram {
        self.first[usize::from(fallback)]
            .get_or_init(|| self.families.time_to_first_token.with(&[&self.name, flag(fallback)]))
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
