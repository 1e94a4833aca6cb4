//! The gauges that mirror live state. They are not kept: each scrape makes them from a snapshot, so that
//! nothing can go stale and nothing has to be told when it changes.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Gauge;
use sluice_core::facts::{BreakerState, PluginKind};

use super::family::Family;
use crate::telemetry::events::PluginState;

/// What runs, at the moment of a scrape.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scrape {
    /// Every target.
    pub targets: Vec<TargetGauges>,
    /// Every gate.
    pub gates: Vec<GateGauges>,
    /// Every plugin, the bundled ones included.
    pub plugins: Vec<PluginGauges>,
    /// The generation that new requests get.
    pub generation: u64,
    /// Records that wait in the spool.
    pub records_spooled: u64,
    /// Listeners that speak TLS, and until when their certificate holds, seconds since 1970.
    pub certificates: Vec<(&'static str, i64)>,
}

/// One target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetGauges {
    /// `upstream/model`.
    pub target: Arc<str>,
    /// State of its breaker.
    pub breaker: BreakerState,
    /// Left of its cool-down.
    pub cooldown: Duration,
}

/// One gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateGauges {
    /// `global`, `upstream:NAME`, `target:NAME/MODEL`, `caller:NAME`.
    pub gate: Arc<str>,
    /// Permits given.
    pub in_flight: u32,
    /// Permits there are.
    pub limit: u32,
    /// Waiting.
    pub queue: u32,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginGauges {
    /// Its name.
    pub plugin: Arc<str>,
    /// Where it stands.
    pub state: PluginState,
    /// What runs of it; none: nothing.
    pub running: Option<PluginVersion>,
}

/// The version of a plugin that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginVersion {
    /// What it can be asked for.
    pub kinds: Vec<PluginKind>,
    /// SHA-256, hex.
    pub digest: Arc<str>,
    /// As it describes itself.
    pub version: Arc<str>,
    /// Version of the contract it was built for.
    pub contract: Arc<str>,
}

/// How names become label values.
pub trait Labels {
    /// Of a target.
    fn target(&self, name: &str) -> Arc<str>;
    /// Of a gate.
    fn gate(&self, name: &str) -> Arc<str>;
    /// Of a plugin.
    fn plugin(&self, name: &str) -> Arc<str>;
}

/// Version, commit and contract of this build.
const BUILD: [&str; 3] = [env!("CARGO_PKG_VERSION"), env!("SLUICE_COMMIT"), crate::telemetry::CONTRACT];

/// Appends all gauges. Rows that share a label (`other`) are added up for gates; of targets the worst is
/// shown.
pub fn render(scrape: &Scrape, labels: &dyn Labels, out: &mut String) -> prometheus::Result<()> {
    targets(&scrape.targets, labels, out)?;
    gates(&scrape.gates, labels, out)?;
    plugins(&scrape.plugins, labels, out)?;
    single("sluice_generation", "Generation that new requests get.", scrape.generation, out)?;
    single("sluice_records_spooled", "Records that wait in the spool.", scrape.records_spooled, out)?;
    certificates(&scrape.certificates, out)?;
    let build =
        gauge("sluice_build_info", "What this process was built from.", &["version", "commit", "contract"])?;
    build.with(&BUILD).set(1.0);
    build.render(out)
}

fn gauge(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
) -> prometheus::Result<Family<Gauge>> {
    Family::new(name, help, labels, &[])
}

/// A gauge without labels. Numbers above 2⁵³ lose their last digits, as in every such exposition.
#[expect(clippy::cast_precision_loss, reason = "the exposition knows only floating point")]
fn single(name: &'static str, help: &'static str, value: u64, out: &mut String) -> prometheus::Result<()> {
    let family = gauge(name, help, &[])?;
    family.with(&[]).set(value as f64);
    family.render(out)
}

#[expect(clippy::cast_precision_loss, reason = "the exposition knows only floating point")]
fn certificates(rows: &[(&'static str, i64)], out: &mut String) -> prometheus::Result<()> {
    let expires = gauge(
        "sluice_tls_certificate_expires_timestamp_seconds",
        "Until when the certificate of a listener holds, as Unix time.",
        &["listener"],
    )?;
    for (listener, at) in rows {
        expires.with(&[listener]).set(*at as f64);
    }
    expires.render(out)
}

fn targets(rows: &[TargetGauges], labels: &dyn Labels, out: &mut String) -> prometheus::Result<()> {
    let state = gauge("sluice_breaker_state", "0 closed, 1 half-open, 2 open.", &["target"])?;
    let cooldown = gauge("sluice_target_cooldown_seconds", "Left of a target's cool-down.", &["target"])?;
    for row in rows {
        let target = labels.target(&row.target);
        let number = match row.breaker {
            BreakerState::Closed => 0.0,
            BreakerState::HalfOpen => 1.0,
            BreakerState::Open => 2.0,
        };
        for (family, value) in [(&state, number), (&cooldown, row.cooldown.as_secs_f64())] {
            let series = family.with(&[&target]);
            series.set(series.get().max(value));
        }
    }
    state.render(out)?;
    cooldown.render(out)
}

fn gates(rows: &[GateGauges], labels: &dyn Labels, out: &mut String) -> prometheus::Result<()> {
    let in_flight = gauge("sluice_gate_in_flight", "Permits given.", &["gate"])?;
    let limit = gauge("sluice_gate_limit", "Permits there are.", &["gate"])?;
    let queue = gauge("sluice_gate_queue_depth", "Calls that wait.", &["gate"])?;
    for row in rows {
        let gate = labels.gate(&row.gate);
        for (family, value) in [(&in_flight, row.in_flight), (&limit, row.limit), (&queue, row.queue)] {
            family.with(&[&gate]).add(value.into());
        }
    }
    in_flight.render(out)?;
    limit.render(out)?;
    queue.render(out)
}

fn plugins(rows: &[PluginGauges], labels: &dyn Labels, out: &mut String) -> prometheus::Result<()> {
    let state = gauge("sluice_plugin_state", "1 for the state a plugin is in.", &["plugin", "state"])?;
    let info = gauge(
        "sluice_plugin_info",
        "What runs of a plugin.",
        &["plugin", "kind", "digest", "version", "contract"],
    )?;
    for row in rows {
        let plugin = labels.plugin(&row.plugin);
        for possible in PluginState::ALL {
            let series = state.with(&[&plugin, possible.as_str()]);
            if *possible == row.state {
                series.set(1.0);
            }
        }
        if let Some(version) = &row.running {
            for kind in &version.kinds {
                info.with(&[&plugin, kind.as_str(), &version.digest, &version.version, &version.contract])
                    .set(1.0);
            }
        }
    }
    state.render(out)?;
    info.render(out)
}
