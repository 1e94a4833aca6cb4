//! From one generation to the next: by another set of plugins, or by another configuration.
//!
//! One task makes all of them, so that no two changes meet. A configuration comes into force whole or not at
//! all: everything that can fail is done first and aside, the last of it the plugins, which take the new targets
//! as a whole too; what follows cannot fail, and ends with one swap. Requests keep what they began with.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::doors::Doors;
use super::gaps::{self, Gap};
use super::look::{Bell, Found, Look};
use super::parts::{Before, Clients, PluginSetup, Workshop, name_plugins};
use super::refusal::Refusal;
use super::{StartError, expiry, probe};
use crate::clock;
use crate::config::{Config, Loaded, Reading, Sources};
use crate::generation::Generation;
use crate::plugin::{PluginSet, Registry};
use crate::policy::Policy;
use crate::proxy::Shared;
use crate::server::ConfigBoard;
use crate::state::{Cells, State};
use crate::store::Archive;
use crate::telemetry::events::Event;
use crate::telemetry::log;
use crate::telemetry::metrics::Names;
use crate::traces::Courier;

/// What runs, as far as a change needs to know it.
pub(super) struct Running {
    pub config: Arc<Config>,
    /// What it was read from.
    pub sources: Sources,
    pub cells: Arc<Cells>,
    pub clients: Clients,
    pub plugins: PluginSetup,
    /// The set of the generation in force.
    pub set: Arc<PluginSet>,
    /// Ends what goes on in the background of this configuration.
    pub probes: CancellationToken,
}

/// The one that makes generations.
pub(super) struct Reloader {
    pub shared: Arc<Shared>,
    pub state: State,
    pub registry: Registry,
    pub workshop: Workshop,
    pub doors: Arc<Doors>,
    pub archive: Arc<Archive>,
    pub courier: Arc<Courier>,
    pub board: Arc<ConfigBoard>,
    pub bell: Arc<Bell>,
    pub running: Running,
    /// Plugins that routes name and that do not run.
    pub missing: BTreeSet<Gap>,
    /// The level of the process's log follows the configuration.
    pub process_log: bool,
    /// The refusal that was told last, and what it was about.
    pub told: Option<(Sources, Refusal)>,
}

impl Reloader {
    /// Runs until the gateway stops, and looks at the file of its configuration if that is watched.
    pub(super) fn start(self, file: Option<PathBuf>) {
        let (tracker, stop) = (self.workshop.tracker.clone(), self.workshop.stop.clone());
        let (to, found) = mpsc::channel(1);
        if let Some(file) = file {
            let look = Look::new(file, self.bell.clone(), self.shared.clone(), tracker.clone());
            tracker.spawn(look.run(to, stop.clone()));
        }
        tracker.spawn(Box::pin(self.run(found, stop)));
    }

    /// Runs until `stop`.
    async fn run(mut self, mut found: mpsc::Receiver<Found>, stop: CancellationToken) {
        let mut sets = self.registry.subscribe();
        loop {
            let set = sets.borrow_and_update().clone();
            self.take_set(set);
            tokio::select! {
                changed = sets.changed() => if changed.is_err() { return },
                Some(found) = found.recv() => self.judge(found).await,
                () = stop.cancelled() => return,
            }
        }
    }

    /// A generation of a new set of plugins.
    fn take_set(&mut self, set: Arc<PluginSet>) {
        if Arc::ptr_eq(&set, &self.running.set) {
            return;
        }
        self.running.set = set;
        name_plugins(&self.shared.telemetry, &self.registry);
        self.publish();
        if self.board.is_rejected() {
            // What was missing may be there now.
            self.bell.doubt();
        }
    }

    /// What runs becomes the generation that new requests get: its number.
    fn publish(&mut self) -> u64 {
        let Running { config, cells, clients, set, .. } = &self.running;
        let missing = gaps::gaps_of(config, set);
        gaps::tell(&self.missing, &missing);
        self.missing = missing;
        let number = self.shared.current.load().number + 1;
        let policy = Policy::new(set.clone(), number);
        let generation = Generation::assemble(number, config.clone(), policy, cells.clone(), clients);
        self.shared.current.store(Arc::new(generation));
        number
    }

    async fn judge(&mut self, found: Found) {
        let Found { reading: Reading { outcome, sources }, asked } = found;
        if sources == self.running.sources {
            // Nothing is wrong with what runs: the file may have been put right by its old content.
            self.told = None;
            self.board.put_right();
            if asked {
                tracing::info!(event = "config_unchanged", "the configuration is what runs already");
            }
            return;
        }
        let judged = match outcome {
            Ok(loaded) => {
                let file = loaded.config.file.clone().unwrap_or_default();
                let applied = Box::pin(self.apply(loaded, sources.clone())).await;
                applied.map_err(|error| Refusal::of_start(&file, &error))
            }
            Err(errors) => Err(Refusal::of_file(&errors)),
        };
        match judged {
            Ok(()) => self.told = None,
            Err(refusal) => self.refuse(refusal, sources, asked),
        }
    }

    /// Tells of a refusal: the same one once, unless somebody asks.
    fn refuse(&mut self, refusal: Refusal, sources: Sources, asked: bool) {
        let new = (sources, refusal);
        if !asked && self.told.as_ref() == Some(&new) {
            return;
        }
        self.board.rejected(new.1.for_page(clock::wall()));
        self.shared.telemetry.event(&new.1.event());
        self.told = Some(new);
    }

    async fn apply(&mut self, loaded: Loaded, sources: Sources) -> Result<(), StartError> {
        let Loaded { mut config, warnings } = loaded;
        let needs_restart = keep_what_cannot_change(&mut config, &self.running.config);
        log::level(&config.log.level).map_err(crate::telemetry::TelemetryError::from)?;
        let before = Before { clients: &self.running.clients, sources: &self.running.sources, now: &sources };
        let clients = self.workshop.clients(&config, Some(&before))?;
        let doors = self.doors.prepare(&config)?;
        let plugins = PluginSetup::of(&config);
        if let Some(records) = &config.records {
            Archive::rehearse(records)?;
        }
        if let Some(traces) = &config.traces {
            Courier::rehearse(traces)?;
        }
        let set = self.reconfigure(&plugins).await?;
        // From here on nothing fails.
        self.archive.take(config.records.as_ref())?;
        self.courier.take(config.traces.as_ref())?;
        let config = Arc::new(config);
        let telemetry = self.shared.telemetry.clone();
        // The level is the one thing that could be wrong, and it was looked at above.
        let _ = telemetry.reconfigure(&Names::of(&config), &config.log, config.decisions);
        if self.process_log {
            let _ = log::relevel(&config.log.level);
        }
        let cells = Arc::new(self.state.attach(&config, clock::now()));
        let probes = self.workshop.stop.child_token();
        let new = Running { config, sources, cells, clients, plugins, set, probes };
        std::mem::replace(&mut self.running, new).probes.cancel();
        name_plugins(&telemetry, &self.registry);
        let generation = self.publish();
        let Running { config, cells, clients, probes, .. } = &self.running;
        probe::start(config, cells, clients, &telemetry, &self.workshop.tracker, probes);
        expiry::start(config, &self.workshop.tracker, probes);
        self.board.loaded(clock::wall(), needs_restart.clone());
        telemetry.event(&Event::ConfigReloaded { generation, needs_restart });
        if self.doors.go(doors, config) {
            tracing::info!(event = "listening", listen = %self.doors.listen(), admin = %self.doors.admin());
        }
        let file = config.file.as_deref().unwrap_or(std::path::Path::new(""));
        for warning in &warnings {
            tracing::warn!("{}", warning.line_for_warning(file));
        }
        Ok(())
    }

    /// The plugins with another setup. The same instances go on where nothing of it concerns them.
    async fn reconfigure(&self, setup: &PluginSetup) -> Result<Arc<PluginSet>, StartError> {
        if *setup == self.running.plugins {
            return Ok(self.registry.current());
        }
        let PluginSetup { plugins, targets, builtin } = setup.clone();
        Ok(self.registry.reconfigure(&plugins, targets, builtin).await?)
    }
}

/// Puts back what a running process cannot change, and names the keys whose value in the file waits for a
/// restart.
fn keep_what_cannot_change(config: &mut Config, running: &Config) -> Vec<&'static str> {
    let mut keys = Vec::new();
    // The last good versions of the plugins that run are there, and by default the records.
    if config.state_dir != running.state_dir {
        if let Some(records) = &mut config.records {
            records.follow_state_dir(&config.state_dir, &running.state_dir);
        }
        config.state_dir.clone_from(&running.state_dir);
        config.shown = config.shown.with("state_dir", &running.state_dir.to_string_lossy());
        keys.push("state_dir");
    }
    keys
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::config::{self, RecordPlace, Records};

    fn config(state_dir: &str, records: &str) -> Config {
        let text = format!(
            "state_dir: {state_dir}\nrecords: {records}\nupstreams: {{a: {{base_url: 'http://127.0.0.1:9', models: {{m: {{}}}}}}}}\nroutes: {{r: {{targets: [a/m]}}}}\n"
        );
        config::parse(&text, Path::new("/etc/test.yaml"), &|_| None).unwrap().config
    }

    #[test]
    fn records_that_follow_the_state_dir_wait_for_the_restart_that_it_waits_for() {
        let running = config("/one", "{}");
        let cases = [
            ("{}", "/one/records.sqlite", "/one/records-spool"),
            ("{sqlite: /here/it.sqlite}", "/here/it.sqlite", "/one/records-spool"),
            ("{spool: {dir: /here/spool}}", "/one/records.sqlite", "/here/spool"),
        ];
        for (records, sqlite, spool) in cases {
            let mut new = config("/two", records);
            assert_eq!(keep_what_cannot_change(&mut new, &running), ["state_dir"]);
            let Some(Records { place: RecordPlace::Sqlite(place), spool: waits, .. }) = new.records else {
                unreachable!("{records} is a file")
            };
            assert_eq!((place, waits.dir), (PathBuf::from(sqlite), PathBuf::from(spool)), "{records}");
        }
    }
}
