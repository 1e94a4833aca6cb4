//! What outlives a generation: breakers, cool-downs, latencies, gates, credentials, what callers have used of
//! their limits, and the retry budget.
//!
//! Each is a pure machine of the core in a small lock that is held for nanoseconds and never across an
//! await; whoever watches is told after the lock is free again. [`State::attach`] gives a configuration its
//! [`Cells`]: views that keep the positions of that configuration while what is behind them is shared with
//! the one before, as long as `upstream/model` and the base URL stay the same.
//!
//! Nothing here decides what a failure means or which target is tried, or speaks HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sluice_core::facts::BreakerState;
use sluice_core::retry_budget::{self, RetryBudget};

use crate::config::{self, Config};

mod caller;
mod gate;
mod target_cell;
mod upstream;

#[cfg(test)]
mod tests;

pub use caller::{CallerCell, Spending};
pub use gate::{Gate, GatePage, GateRefusal, Permit};
pub use sluice_core::gate::Priority;
pub use target_cell::{Able, Running, TargetCell, TargetPage, Ticket};
pub use upstream::{Aside, AsideState, CredentialPage, Lease, Pick, QuotaUse, UpstreamCell};

/// Is told what happens in here, for metrics and events. Called outside of locks, so two calls about one
/// target may come in another order than the changes: what must be exact is read from the pages instead.
pub trait StateWatch: Send + Sync {
    /// The breaker of a target (`upstream/model`) changed.
    fn breaker_changed(&self, target: &Arc<str>, from: BreakerState, to: BreakerState);
    /// A call was let in, or gave up for lack of time, after waiting so long; zero when it did not have to.
    fn gate_waited(&self, gate: &str, waited: Duration);
    /// A call was refused.
    fn gate_refused(&self, gate: &str, reason: GateRefusal);
}

/// Nobody watches.
impl StateWatch for () {
    fn breaker_changed(&self, _: &Arc<str>, _: BreakerState, _: BreakerState) {}
    fn gate_waited(&self, _: &str, _: Duration) {}
    fn gate_refused(&self, _: &str, _: GateRefusal) {}
}

/// Owns what the running configuration uses. What it no longer uses lives on only in the calls that do.
pub struct State {
    watch: Arc<dyn StateWatch>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    global: Option<Arc<Gate>>,
    retry_budget: Option<Arc<RetryBudgetCell>>,
    upstreams: BTreeMap<String, upstream::Kept>,
    targets: BTreeMap<String, Arc<target_cell::Kept>>,
    target_gates: BTreeMap<String, Arc<Gate>>,
    callers: BTreeMap<Arc<str>, Arc<CallerCell>>,
}

/// The cells of one configuration.
pub struct Cells {
    /// All calls.
    pub global: Arc<Gate>,
    /// In the order of [`Config::targets`].
    pub targets: Vec<Arc<TargetCell>>,
    /// By name.
    pub upstreams: BTreeMap<Arc<str>, Arc<UpstreamCell>>,
    /// In the order of [`Config::callers`].
    pub callers: Vec<Arc<CallerCell>>,
    /// Retries and switches against calls.
    pub retry_budget: Arc<RetryBudgetCell>,
}

impl State {
    /// Without any cells.
    pub fn new(watch: Arc<dyn StateWatch>) -> Self {
        Self { watch, kept: Mutex::new(Kept::default()) }
    }

    /// Makes `config` the running one: its limits and thresholds apply in place, cells it does not name are
    /// let go, and denied credentials get another chance. To be called once for each configuration.
    pub fn attach(&self, config: &Config, now: Instant) -> Cells {
        let mut kept = lock(&self.kept);
        let old = std::mem::take(&mut *kept);

        let global = self.gate(old.global.clone(), "global", config.gates);
        let retry_budget = match &old.retry_budget {
            Some(cell) => {
                lock(&cell.0).set(retry_settings(config.retry_budget), now);
                cell.clone()
            }
            None => Arc::new(RetryBudgetCell::new(config.retry_budget, now)),
        };
        let upstreams = self.upstreams(config, &old, &mut kept);
        let targets = config.targets.iter().enumerate();
        let targets = targets
            .map(|(index, target)| {
                let id = target_id(target);
                let gate = self.target_gate(target, &id, &old, &mut kept);
                let behind = match old.targets.get(&id) {
                    Some(behind) => {
                        behind.set(&config.breaker);
                        behind.clone()
                    }
                    None => Arc::new(target_cell::Kept::new(&target.key, &config.breaker, &self.watch, now)),
                };
                kept.targets.insert(id, behind.clone());
                let upstream = upstreams[&target.upstream.name].clone();
                Arc::new(TargetCell::new(index, upstream, gate, behind))
            })
            .collect();
        let callers = self.callers(config, &old, &mut kept);
        kept.global = Some(global.clone());
        kept.retry_budget = Some(retry_budget.clone());
        Cells { global, targets, upstreams, callers, retry_budget }
    }

    /// Those of the configuration, and those of its targets: the same ones in every checked configuration.
    fn upstreams(
        &self,
        config: &Config,
        old: &Kept,
        kept: &mut Kept,
    ) -> BTreeMap<Arc<str>, Arc<UpstreamCell>> {
        let mut cells = BTreeMap::new();
        for upstream in config.upstreams.values().chain(config.targets.iter().map(|target| &target.upstream))
        {
            let name = &upstream.name;
            if cells.contains_key(name) {
                continue;
            }
            let id = upstream_id(upstream);
            let before = old.upstreams.get(&id);
            let gate = before.map(|before| before.gate.clone());
            let gate = self.gate(gate, &format!("upstream:{name}"), upstream.gate);
            let credentials = upstream::keep(&upstream.credentials, before);
            let quota = upstream::keep_quota(upstream.quota, before);
            let behind = upstream::Kept { gate, credentials, quota };
            cells.insert(name.clone(), Arc::new(UpstreamCell::new(name, &behind)));
            kept.upstreams.insert(id, behind);
        }
        cells
    }

    /// A target's own gate has the queue of its upstream's.
    fn target_gate(
        &self,
        target: &config::Target,
        id: &str,
        old: &Kept,
        kept: &mut Kept,
    ) -> Option<Arc<Gate>> {
        let limits = config::Gate { max_in_flight: target.max_in_flight?, ..target.upstream.gate };
        let gate = self.gate(old.target_gates.get(id).cloned(), &format!("target:{}", target.key), limits);
        kept.target_gates.insert(id.to_owned(), gate.clone());
        Some(gate)
    }

    /// A caller is the one of its name, whatever its key.
    fn callers(&self, config: &Config, old: &Kept, kept: &mut Kept) -> Vec<Arc<CallerCell>> {
        let cell = |caller: &Arc<config::Caller>| {
            let cell = match old.callers.get(&caller.name) {
                Some(cell) => {
                    cell.set(caller);
                    cell.clone()
                }
                None => Arc::new(CallerCell::new(caller, self.watch.clone())),
            };
            kept.callers.insert(caller.name.clone(), cell.clone());
            cell
        };
        config.callers.iter().map(cell).collect()
    }

    fn gate(&self, old: Option<Arc<Gate>>, name: &str, limits: config::Gate) -> Arc<Gate> {
        match old {
            Some(gate) => {
                gate.set(limits);
                gate
            }
            None => Arc::new(Gate::new(name, limits, self.watch.clone())),
        }
    }
}

/// The retry budget of the process.
pub struct RetryBudgetCell(Mutex<RetryBudget>);

impl RetryBudgetCell {
    fn new(config: config::RetryBudget, now: Instant) -> Self {
        Self(Mutex::new(RetryBudget::new(retry_settings(config), now)))
    }

    /// A call came in. Once for each request.
    pub fn call(&self, now: Instant) {
        lock(&self.0).call(now);
    }

    /// Takes one retry or switch; false: none is left.
    pub fn take(&self, now: Instant) -> bool {
        lock(&self.0).take(now)
    }

    /// Whether one is left. Takes nothing.
    pub fn has(&self, now: Instant) -> bool {
        lock(&self.0).has(now)
    }
}

fn retry_settings(config: config::RetryBudget) -> retry_budget::Settings {
    retry_budget::Settings {
        ratio: config.ratio,
        min_per_second: config.min_per_second,
        window: config.window,
    }
}

/// An upstream is another one as soon as its base URL is another.
fn upstream_id(upstream: &config::Upstream) -> String {
    let base = &upstream.base;
    let scheme = if base.tls { "https" } else { "http" };
    let query = base.query.as_deref().map_or(String::new(), |query| format!("?{query}"));
    format!("{} {scheme}://{}{}{query}", upstream.name, base.authority, base.path)
}

fn target_id(target: &config::Target) -> String {
    format!("{}/{}", upstream_id(&target.upstream), target.model)
}

/// The machines hold no half-made state between statements that can panic, so a poisoned lock is still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
