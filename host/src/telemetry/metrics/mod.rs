//! What is counted, in the words of the gateway: a request ended, an attempt ended, a gate refused.
//!
//! Label values are bounded: names come from the configuration and the plugins folder ([`bound`]), all else
//! from closed sets. A name that a reload takes away keeps its series until the next reload, so that requests
//! which started with it are still counted in full and a scrape sees their last value; then they go.

mod bound;
mod families;
mod family;
mod handles;
mod quick;
mod scrape;
mod target;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::IntCounter;
use sluice_core::facts::{BreakerState, PluginKind, Usage};
use sluice_core::kind::{Outcome, Role};

use super::events::{ConfigFault, PluginFault, ProviderEvent};
use super::names::{CallResult, GateRefusal, Interruption, RecordsTo};
use bound::{Allowed, NONE, OTHER, Table};
use families::Families;
use quick::Quick;

pub use bound::{Names, TargetName};
pub use handles::{GateSeries, PluginSeries, RouteSeries};
pub use scrape::{GateGauges, PluginGauges, PluginVersion, Scrape, TargetGauges};
pub use target::{AttemptResult, TargetSeries};

/// `content-type` of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Most plugins with series of their own.
const MAX_PLUGINS: usize = 256;

/// A metric that cannot be made or shown.
#[derive(Debug, thiserror::Error)]
#[error("metrics: {0}")]
pub struct MetricsError(#[from] prometheus::Error);

/// A request that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestSummary<'a> {
    /// The requested name; none: it could not be read.
    pub model: Option<&'a str>,
    /// `upstream/model` that served; none: nobody did.
    pub target: Option<&'a str>,
    /// A stream was asked for.
    pub stream: bool,
    /// Status for the client; 499 when it had left.
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// The served target is not the first choice.
    pub fallback: bool,
    /// Arrival to the end.
    pub duration: Duration,
    /// Arrival to first content.
    pub first_content: Option<Duration>,
    /// The gateway's own part; none: not measured.
    pub overhead: Option<Duration>,
    /// Attempts it took.
    pub attempts: u32,
    /// Tokens, when known.
    pub usage: Option<Usage>,
}

/// An attempt that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttemptSummary<'a> {
    /// `upstream/model`.
    pub target: &'a str,
    /// First choice or not.
    pub role: Role,
    /// How it ended.
    pub result: AttemptResult,
    /// Status of the upstream; none: it gave none.
    pub status: Option<u16>,
    /// From its begin to its commit; none: it never committed.
    pub to_commit: Option<Duration>,
}

/// What a look at the plugins folder did to one plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginReload {
    /// A version runs from now on.
    Loaded,
    /// A version was refused.
    Rejected(PluginFault),
    /// It is gone.
    Removed,
    /// The last good version runs again.
    RolledBack,
}

/// All metrics of one gateway.
#[derive(Debug)]
pub struct Metrics {
    families: Arc<Families>,
    routes: Table<RouteSeries>,
    /// Requests without a model.
    no_model: RouteSeries,
    targets: Table<TargetSeries>,
    gates: Table<GateSeries>,
    plugins: Table<PluginSeries>,
    records_dropped: IntCounter,
    next_target: AtomicU64,
    /// What the names in force allow. Held while names change.
    allowed: Mutex<Allowed>,
}

impl Metrics {
    /// Metrics for `names`, all at zero.
    pub fn new(names: &Names) -> Result<Self, MetricsError> {
        let families = Arc::new(Families::new()?);
        let other: Arc<str> = OTHER.into();
        let target =
            TargetSeries::new(families.clone(), u64::MAX, other.clone(), other.clone(), other.clone());
        let metrics = Self {
            routes: Table::new(RouteSeries::new(families.clone(), other.clone())),
            no_model: RouteSeries::new(families.clone(), NONE.into()),
            targets: Table::new(target),
            gates: Table::new(GateSeries::new(families.clone(), other.clone())),
            plugins: Table::new(PluginSeries::new(families.clone(), other)),
            records_dropped: families.records_dropped.with(&[]),
            next_target: AtomicU64::new(1),
            allowed: Mutex::default(),
            families,
        };
        for fault in ConfigFault::ALL {
            metrics.config(Err(*fault));
        }
        metrics.config(Ok(()));
        for to in RecordsTo::ALL {
            metrics.records_written(*to, 0);
        }
        metrics.spans_exported(0);
        metrics.spans_dropped(0);
        metrics.set_names(names);
        Ok(metrics)
    }

    /// Takes the names of a new configuration. Names that are gone are `other` from now on; their series go
    /// with the next change.
    pub fn set_names(&self, names: &Names) {
        let mut allowed = self.lock();
        let families = || self.families.clone();
        // Fresh series objects for every name, so that no look-up of an older configuration outlives this
        // one.
        let routes = names
            .routes
            .iter()
            .map(|name| (name.clone(), Arc::new(RouteSeries::new(families(), name.clone()))));
        self.routes.set(routes.collect());
        let targets = names.targets.iter().map(|t| {
            let id = self.next_target.fetch_add(1, Ordering::Relaxed);
            let series =
                TargetSeries::new(families(), id, t.key.clone(), t.upstream.clone(), t.model.clone());
            (t.key.clone(), Arc::new(series.at_zero()))
        });
        self.targets.set(targets.collect());
        let gates =
            names.gates().map(|gate| (gate.clone(), Arc::new(GateSeries::new(families(), gate).at_zero())));
        self.gates.set(gates.collect());
        let new = Allowed::of(names);
        let old = std::mem::replace(&mut *allowed, new.clone());
        self.families.retain(&|label, value| new.allows(label, value) || old.allows(label, value));
    }

    /// Takes the plugins that there are now, the bundled and the rejected ones included, and what each can be
    /// asked for. Those that are gone go with the next change.
    pub fn set_plugins(&self, plugins: &[(Arc<str>, Vec<PluginKind>)]) {
        let _changing = self.lock();
        let series = plugins.iter().take(MAX_PLUGINS).map(|(name, kinds)| {
            let series = PluginSeries::new(self.families.clone(), name.clone());
            (name.clone(), Arc::new(series.at_zero(kinds)))
        });
        let series: HashMap<_, _, Quick> = series.collect();
        let mut keep = Allowed::default();
        keep.set_plugins(self.plugins.names().into_iter().chain(series.keys().cloned()));
        self.plugins.set(series);
        self.families.retain(&|label, value| keep.allows(label, value));
    }

    /// The series of a requested name; none: the requests that had none.
    fn with_route<T>(&self, model: Option<&str>, then: impl FnOnce(&RouteSeries) -> T) -> T {
        match model {
            Some(name) => self.routes.with(name, then),
            None => then(&self.no_model),
        }
    }

    /// The series of a target, to be held for a while: at most for the life of a generation.
    pub fn target(&self, key: &str) -> Arc<TargetSeries> {
        self.targets.get(key)
    }

    /// The series of a gate (`global`, `upstream:NAME`, `target:NAME/MODEL`, `caller:NAME`).
    pub fn gate(&self, gate: &str) -> Arc<GateSeries> {
        self.gates.get(gate)
    }

    /// The series of a plugin. A name that was not announced by [`Metrics::set_plugins`] is taken up while
    /// there is room.
    pub fn plugin(&self, name: &str) -> Arc<PluginSeries> {
        if let Some(found) = self.plugins.find(name) {
            return found;
        }
        let _changing = self.lock();
        self.plugins.add(name, MAX_PLUGINS, || PluginSeries::new(self.families.clone(), name.into()))
    }

    /// A request has ended.
    pub fn request_ended(&self, ended: &RequestSummary<'_>) {
        match ended.target {
            Some(target) => self.targets.with(target, |target| self.ended(ended, Some(target))),
            None => self.ended(ended, None),
        }
    }

    fn ended(&self, ended: &RequestSummary<'_>, served: Option<&TargetSeries>) {
        self.with_route(ended.model, |route| {
            route.ended(served, ended.status, ended.outcome, ended.fallback);
            route.duration(ended.outcome).observe(ended.duration.as_secs_f64());
            route.attempts().observe(ended.attempts.into());
            if let Some(first) = ended.first_content.filter(|_| ended.stream) {
                route.first(ended.fallback).observe(first.as_secs_f64());
            }
            if let Some(overhead) = ended.overhead {
                route.overhead().observe(overhead.as_secs_f64());
            }
            if let Some(usage) = ended.usage {
                route.tokens(served, usage);
            }
        });
    }

    /// An attempt has ended.
    pub fn attempt_ended(&self, ended: &AttemptSummary<'_>) {
        self.targets.with(ended.target, |target| {
            target.attempts(ended.role, ended.result).inc();
            if let Some(to_commit) = ended.to_commit {
                target.duration(ended.role).observe(to_commit.as_secs_f64());
            }
            if let AttemptResult::Failed(kind) = ended.result {
                target.failure(kind, ended.status, ended.role);
            }
        });
    }

    /// A call goes on to another target with so much left until its deadline.
    pub fn switch(&self, model: &str, budget_left: Duration) {
        self.routes.get(model).budget_left().observe(budget_left.as_secs_f64());
    }

    /// A further attempt on the same target.
    pub fn retry(&self, target: &str) {
        self.target(target).retries().inc();
    }

    /// The retry budget forbade a retry on this target, or a switch away from it.
    pub fn retry_budget_denied(&self, target: &str) {
        self.target(target).retry_budget_denied().inc();
    }

    /// A stream broke after commit.
    pub fn stream_interrupted(&self, target: &str, reason: Interruption) {
        self.target(target).interrupted(reason).inc();
    }

    /// An event of a stream could not be read.
    pub fn malformed_event(&self, target: &str) {
        self.target(target).malformed().inc();
    }

    /// A call got its permit, or gave up, after so long in the queue.
    pub fn gate_waited(&self, gate: &str, waited: Duration) {
        self.gates.with(gate, |gate| gate.wait().observe(waited.as_secs_f64()));
    }

    /// A gate refused a call.
    pub fn gate_refused(&self, gate: &str, reason: GateRefusal) {
        self.gate(gate).refused(reason).inc();
    }

    /// A plugin was called. `took` is none when it did not run (`saturated`, `set_aside`).
    pub fn plugin_called(&self, plugin: &str, kind: PluginKind, result: CallResult, took: Option<Duration>) {
        let count = |plugin: &PluginSeries| {
            plugin.calls(kind, result).inc();
            if let Some(took) = took {
                plugin.duration(kind).observe(took.as_secs_f64());
            }
        };
        if self.plugins.with_known(plugin, count).is_none() {
            count(&self.plugin(plugin));
        }
    }

    /// Something happened at a target. Called by [`super::Telemetry::event`].
    pub fn provider_event(&self, target: &str, event: ProviderEvent) {
        self.target(target).event(event).inc();
    }

    /// A breaker changed its state. Called by [`super::Telemetry::event`].
    pub fn breaker_transition(&self, target: &str, to: BreakerState) {
        self.target(target).transition(to).inc();
    }

    /// What runs of a plugin changed. Called by [`super::Telemetry::event`].
    pub fn plugin_reloaded(&self, plugin: &str, reload: PluginReload) {
        let (result, reason) = match reload {
            PluginReload::Loaded => ("loaded", NONE),
            PluginReload::Rejected(fault) => ("rejected", fault.as_str()),
            PluginReload::Removed => ("removed", NONE),
            PluginReload::RolledBack => ("rolled_back", NONE),
        };
        self.plugin(plugin).reloads(result, reason).inc();
    }

    /// A configuration was read again. Called by [`super::Telemetry::event`].
    pub fn config_reloaded(&self, result: Result<(), ConfigFault>) {
        self.config(result).inc();
    }

    /// Records found no room, in the log or on the way to the store, or could not be kept.
    pub fn records_dropped(&self, records: u64) {
        self.records_dropped.inc_by(records);
    }

    /// Records are safe in the store, or until then in its spool.
    pub fn records_written(&self, to: RecordsTo, records: u64) {
        self.families.records_written.with(&[to.as_str()]).inc_by(records);
    }

    /// The collector took so many spans.
    pub fn spans_exported(&self, spans: u64) {
        self.families.spans_exported.with(&[]).inc_by(spans);
    }

    /// So many spans found no room or no collector.
    pub fn spans_dropped(&self, spans: u64) {
        self.families.spans_dropped.with(&[]).inc_by(spans);
    }

    /// Everything in the text exposition format ([`CONTENT_TYPE`]).
    pub fn render(&self, scrape: &Scrape) -> Result<String, MetricsError> {
        let mut out = String::with_capacity(64 << 10);
        self.families.render(&mut out)?;
        scrape::render(scrape, self, &mut out)?;
        Ok(out)
    }

    fn config(&self, result: Result<(), ConfigFault>) -> IntCounter {
        let (result, reason) = match result {
            Ok(()) => ("applied", NONE),
            Err(fault) => ("rejected", fault.as_str()),
        };
        self.families.config_reloads.with(&[result, reason])
    }

    fn lock(&self) -> MutexGuard<'_, Allowed> {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl scrape::Labels for Metrics {
    fn target(&self, name: &str) -> Arc<str> {
        self.target(name).key().clone()
    }

    fn gate(&self, name: &str) -> Arc<str> {
        self.gate(name).name().clone()
    }

    fn plugin(&self, name: &str) -> Arc<str> {
        self.plugin(name).name().clone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
