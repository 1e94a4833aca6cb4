//! What a gateway is before anybody is served: telemetry first, so that the rest is told, then everything that one
//! configuration comes to, and its doors last.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use super::doors::{Doors, Reserved};
use super::gaps::{self, Gap};
use super::parts::{PluginSetup, Workshop, name_plugins};
use super::reload::Running;
use super::watch::Watch;
use super::{StartError, expiry, probe};
use crate::clock;
use crate::config::{Config, Sources};
use crate::generation::Generation;
use crate::plugin::{self, Registry};
use crate::policy::Policy;
use crate::server::{Admin, Main};
use crate::state::State;
use crate::telemetry::log::{self, Bounds, LineWriter};
use crate::telemetry::metrics::Names;
use crate::telemetry::{Telemetry, TelemetryError};

/// What the first configuration comes to.
pub(super) struct Built {
    pub state: State,
    pub registry: Registry,
    /// Plugins that routes name and that do not run.
    pub missing: BTreeSet<Gap>,
    /// The first generation.
    pub first: Generation,
    pub running: Running,
}

/// Metrics, events and records, and the log of the process if that is this gateway's.
pub(super) fn telemetry(
    config: &Config,
    out: Box<dyn Write + Send>,
    process_log: bool,
) -> Result<Telemetry, StartError> {
    let writer = LineWriter::start(out, config.log.format, Bounds::default())?;
    if process_log {
        log::install(&config.log, writer.clone()).map_err(TelemetryError::from)?;
    }
    Ok(Telemetry::new(&Names::of(config), &config.log, config.decisions, writer)?)
}

/// Makes the first generation, and starts what goes on in the background of its configuration.
pub(super) async fn build(
    config: Arc<Config>,
    sources: Sources,
    telemetry: &Telemetry,
    workshop: &Workshop,
) -> Result<Built, StartError> {
    let watch = Arc::new(Watch(telemetry.clone()));
    let state = State::new(watch.clone());
    let cells = Arc::new(state.attach(&config, clock::now()));
    let clients = workshop.clients(&config, None)?;
    let plugins = PluginSetup::of(&config);
    let registry = start_plugins(&config, &plugins, watch, workshop).await?;
    name_plugins(telemetry, &registry);
    let set = registry.current();
    let missing = gaps::gaps_of(&config, &set);
    gaps::tell(&BTreeSet::new(), &missing);
    let first = Generation::assemble(1, config.clone(), Policy::new(set.clone(), 1), cells.clone(), &clients);
    let probes = workshop.stop.child_token();
    probe::start(&config, &cells, &clients, telemetry, &workshop.tracker, &probes);
    expiry::start(&config, &workshop.tracker, &probes);
    let running = Running { config, sources, cells, clients, plugins, set, probes };
    Ok(Built { state, registry, missing, first, running })
}

async fn start_plugins(
    config: &Config,
    setup: &PluginSetup,
    watch: Arc<Watch>,
    workshop: &Workshop,
) -> Result<Registry, plugin::StartError> {
    let PluginSetup { plugins, targets, builtin } = setup.clone();
    let (tracker, stop) = (workshop.tracker.clone(), workshop.stop.clone());
    Registry::start(&plugins, &config.state_dir, targets, builtin, watch, tracker, stop).await
}

/// Opens both doors: from here on there are callers.
pub(super) fn open(
    (main_door, admin_door): (Reserved, Reserved),
    main: Main,
    admin: Admin,
    config: &Config,
    workshop: &Workshop,
) -> Result<Arc<Doors>, StartError> {
    let (main, admin) = ((main_door.open()?, Arc::new(main)), (admin_door.open()?, Arc::new(admin)));
    let (tracker, stop) = (workshop.tracker.clone(), workshop.stop.clone());
    Ok(Arc::new(Doors::serve(config, main, admin, tracker, stop)))
}
