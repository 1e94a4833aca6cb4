//! What pages and gauges show, read from the live state at one moment. Looking takes nothing: no probe, no
//! permit, no credential.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_core::facts::PluginKind;
use sluice_core::latency::Percentiles;
use tokio_util::sync::CancellationToken;

use super::pages::{self, NotReady, Page};
use crate::clock;
use crate::config::{Config, Readiness};
use crate::generation::Generation;
use crate::plugin::{PluginState, PluginStatus};
use crate::proxy::Shared;
use crate::state::{Able, AsideState, Gate, TargetCell, UpstreamCell};
use crate::telemetry::metrics::{GateGauges, PluginGauges, PluginVersion, Scrape, TargetGauges};

/// What readiness depends on beside the targets.
#[derive(Debug, Default)]
pub struct Health {
    /// Cancelled once the gateway goes down.
    pub draining: CancellationToken,
}

/// `/livez` or `/readyz`. Callers are told of targets only where they may know them.
pub(super) fn health_page(path: &str, health: &Health, shared: &Shared, to: Reader) -> Page {
    if path == "/livez" {
        return pages::livez();
    }
    let generation = shared.current.load();
    let mut page = readyz(health, &generation);
    if to == Reader::Caller && !generation.config.tags.expose_upstream {
        page.blocked.clear();
    }
    pages::readyz(&page)
}

/// Who reads a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// Somebody on the main listener.
    Caller,
    /// Somebody on the admin listener.
    Operator,
}

fn readyz(health: &Health, generation: &Generation) -> pages::Readyz {
    let now = clock::now();
    let mut able = std::collections::HashSet::new();
    let mut blocked = Vec::new();
    for cell in &generation.cells.targets {
        match blocked_by(cell, now) {
            None => drop(able.insert(cell.key().clone())),
            Some((why, until)) => {
                let until = until.map(|until| until.saturating_duration_since(now));
                blocked.push(pages::Blocked { target: cell.key().clone(), why, until });
            }
        }
    }
    let count = |route: &crate::config::Route| {
        let denied = generation.route(&route.name).is_some_and(|route| route.policy.denies());
        let able = route.targets.iter().filter(|target| able.contains(&target.target.key));
        if denied { 0 } else { able.count() }
    };
    let routes: BTreeMap<_, _> =
        generation.config.routes.iter().map(|(name, route)| (name.clone(), count(route))).collect();
    let by_targets = generation.config.readiness == Readiness::Targets;
    let reason = if health.draining.is_cancelled() {
        Some(NotReady::Draining)
    } else if generation.denies_all() {
        Some(NotReady::Plugin)
    } else if by_targets && routes.values().all(|able| *able == 0) {
        Some(NotReady::NoTarget)
    } else {
        None
    };
    pages::Readyz { reason, routes, blocked }
}

fn blocked_by(cell: &TargetCell, now: Instant) -> Option<(pages::BlockedBy, Option<Instant>)> {
    match cell.able(now) {
        Able::Open { until } => Some((pages::BlockedBy::Open, until)),
        Able::Cooling { until, .. } => Some((pages::BlockedBy::Cooling, Some(until))),
        Able::Yes | Able::Probe => cell.upstream().all_aside(now).map(|aside| match aside.state {
            AsideState::RateLimited | AsideState::Quota => (pages::BlockedBy::Cooling, Some(aside.until)),
            AsideState::Denied => (pages::BlockedBy::NoCredential, Some(aside.until)),
        }),
    }
}

/// `/debug/upstreams`.
pub(super) fn upstreams(health: &Health, shared: &Shared) -> pages::Upstreams {
    let now = clock::now();
    let generation = shared.current.load();
    let cells = &generation.cells;
    let targets = generation.config.targets.iter().zip(&cells.targets);
    let routes = routes_of_targets(&generation.config);
    let row = |(config, cell): (&Arc<crate::config::Target>, _)| {
        let routes = routes.get(&config.key).cloned().unwrap_or_default();
        pages::TargetRow { routes, ..target_row(config, cell, now) }
    };
    pages::Upstreams {
        now: clock::wall(),
        version: env!("CARGO_PKG_VERSION"),
        readiness: readyz(health, &generation),
        targets: targets.map(row).collect(),
        upstreams: cells.upstreams.values().map(|cell| upstream_row(cell, now)).collect(),
        gates: gates(&generation)
            .map(|gate| {
                let page = gate.snapshot();
                let (in_flight, limit, queue) = (page.in_flight, page.limit, page.queue);
                pages::GateRow { gate: gate.name().clone(), in_flight, limit, queue }
            })
            .collect(),
        records: shared
            .telemetry
            .records()
            .standing()
            .map(|store| pages::RecordsRow { away_since: store.away_since, spooled: store.spooled }),
    }
}

/// Which routes list a target, each list sorted.
fn routes_of_targets(config: &crate::config::Config) -> BTreeMap<Arc<str>, Vec<Arc<str>>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (name, route) in &config.routes {
        for target in &route.targets {
            found.entry(target.target.key.clone()).or_default().push(name.clone());
        }
    }
    for names in found.values_mut() {
        names.sort();
        names.dedup();
    }
    found
}

fn target_row(config: &crate::config::Target, cell: &Arc<TargetCell>, now: Instant) -> pages::TargetRow {
    let page = cell.page(now);
    let ago = |at: Instant| clock::wall() - now.saturating_duration_since(at);
    pages::TargetRow {
        target: config.key.clone(),
        upstream: config.upstream.name.clone(),
        model: config.model.clone(),
        routes: Vec::new(),
        able: blocked_by(cell, now).is_none(),
        breaker: pages::BreakerRow {
            state: page.breaker.state,
            failures: page.breaker.failures,
            rate: page.breaker.rate,
            opened_at: page.breaker.opened_at.map(ago),
            until: page.breaker.until.map(|until| until.saturating_duration_since(now)),
            opens: page.breaker.opens,
        },
        cooldown: page.cooling.map_or(Duration::ZERO, |(left, _)| left),
        cooldown_kind: page.cooling.map(|(_, kind)| kind),
        in_flight: page.in_flight,
        success_rate_1m: page.last_minute.share(),
        latency_ms: percentiles(page.latency),
        first_content_ms: percentiles(page.first_content),
        quota_left: page.quota_left,
    }
}

fn percentiles(of: Option<Percentiles>) -> pages::Percentiles {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    of.map_or_else(pages::Percentiles::default, |p| pages::Percentiles {
        p50: Some(ms(p.p50)),
        p95: Some(ms(p.p95)),
        p99: Some(ms(p.p99)),
    })
}

fn upstream_row(cell: &UpstreamCell, now: Instant) -> pages::UpstreamRow {
    let gate = cell.gate().snapshot();
    let credential = |c: crate::state::CredentialPage| pages::CredentialRow {
        index: c.index,
        state: match c.aside.map(|aside| aside.state) {
            None => pages::CredentialState::Ok,
            Some(AsideState::RateLimited) => pages::CredentialState::RateLimited,
            Some(AsideState::Quota) => pages::CredentialState::Quota,
            Some(AsideState::Denied) => pages::CredentialState::Denied,
        },
        until: c.aside.map(|aside| aside.until.saturating_duration_since(now)),
        in_flight: c.in_flight,
    };
    pages::UpstreamRow {
        upstream: cell.name().clone(),
        gate: pages::UpstreamGate {
            in_flight: gate.in_flight,
            limit: gate.limit,
            queue: gate.queue,
            queue_limit: gate.queue_limit,
        },
        credentials: cell.page(now).into_iter().map(credential).collect(),
    }
}

/// Every gate once.
fn gates(generation: &Generation) -> impl Iterator<Item = &Arc<Gate>> {
    let cells = &generation.cells;
    let of_targets = cells.targets.iter().flat_map(|cell| {
        let upstream = cell.upstream().gate();
        cell.gates().filter(move |gate| !Arc::ptr_eq(gate, upstream))
    });
    let of_callers = cells.callers.iter().map(|cell| cell.gate());
    let of_upstreams = cells.upstreams.values().map(|cell| cell.gate());
    std::iter::once(&cells.global).chain(of_callers).chain(of_upstreams).chain(of_targets)
}

/// The gauges of a scrape.
pub(super) fn scrape(shared: &Shared, plugins: &[PluginStatus]) -> Scrape {
    let now = clock::now();
    let generation = shared.current.load();
    let target = |cell: &Arc<TargetCell>| {
        let page = cell.page(now);
        let cooldown = page.cooling.map_or(Duration::ZERO, |(left, _)| left);
        TargetGauges { target: cell.key().clone(), breaker: page.breaker.state, cooldown }
    };
    let gate = |gate: &Arc<Gate>| {
        let page = gate.snapshot();
        GateGauges {
            gate: gate.name().clone(),
            in_flight: page.in_flight,
            limit: page.limit,
            queue: page.queue,
        }
    };
    Scrape {
        targets: generation.cells.targets.iter().map(target).collect(),
        gates: gates(&generation).map(gate).collect(),
        plugins: plugins.iter().map(plugin_gauges).collect(),
        generation: generation.number,
        records_spooled: shared.telemetry.records().spooled(),
        certificates: certificates(&generation.config),
    }
}

fn certificates(config: &Config) -> Vec<(&'static str, i64)> {
    let of = [("main", &config.tls), ("admin", &config.admin_tls)];
    of.into_iter().filter_map(|(listener, tls)| Some((listener, tls.as_ref()?.expires?))).collect()
}

fn plugin_gauges(status: &PluginStatus) -> PluginGauges {
    use crate::telemetry::events::PluginState as Shown;
    let running = status.digest.as_deref().zip(status.version.as_deref()).zip(status.contract);
    PluginGauges {
        plugin: status.name.as_str().into(),
        state: match status.state {
            PluginState::Active => Shown::Active,
            PluginState::Rejected => Shown::Rejected,
            PluginState::LastGood => Shown::LastGood,
            PluginState::SetAside => Shown::SetAside,
            PluginState::Disabled => Shown::Disabled,
            PluginState::Removed => Shown::Removed,
        },
        running: running.map(|((digest, version), contract)| PluginVersion {
            kinds: PluginKind::ALL.into_iter().filter(|kind| status.kinds.contains(&kind.as_str())).collect(),
            digest: digest.into(),
            version: version.into(),
            contract: contract.into(),
        }),
    }
}
