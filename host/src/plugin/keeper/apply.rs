//! What a result changes.

use std::sync::{Arc, PoisonError};

use tokio_util::task::TaskTracker;

use super::super::admission::try_out;
use super::super::bundled::Bundled;
use super::super::folder::Fingerprint;
use super::super::job::{Done, Version, What, Work};
use super::super::last_good::{Change, Source};
use super::super::loaded::Plugin;
use super::super::options::PluginOptions;
use super::super::registry::{Setup, StartError};
use super::super::rejection::Rejection;
use super::super::set::PluginSet;
use super::super::status::{PluginState, RejectionStatus};
use super::super::watch::Reload;
use super::Keeper;
use crate::clock;

/// Removed files the page still shows.
const REMOVED_MAX: usize = 32;

impl Keeper {
    /// Takes a result in. One that was made for an earlier configuration is thrown away and done again.
    pub(super) fn apply(&mut self, done: Done) {
        let Done { file, epoch, what } = done;
        let Some(entry) = self.entries.get_mut(&file) else {
            return;
        };
        entry.working = false;
        if epoch != self.shop.epoch || matches!(what, What::Changed) {
            entry.doubt();
            entry.again(clock::now() + self.setup.plugins.settle);
        } else {
            match what {
                What::Changed => {}
                What::Known { fingerprint, version } => self.known(&file, fingerprint, &version),
                What::Disabled { fingerprint, options } => self.disabled(&file, fingerprint, options),
                What::Admitted { fingerprint, plugin, source } => {
                    self.admitted(&file, fingerprint, *plugin, source);
                }
                What::Refused { fingerprint, options, digest, rejection } => {
                    self.refused(&file, fingerprint, options, digest, &rejection);
                }
                What::Restored(plugin) => self.restored(&file, plugin.map(|plugin| *plugin)),
                What::RolledBack(outcome) => self.rolled_back(&file, outcome.map(|plugin| *plugin)),
            }
        }
        self.begin_due(clock::now());
        self.publish();
    }

    /// A version that was judged before. What was refused is gone when the file has what runs again.
    fn known(&mut self, file: &str, fingerprint: Fingerprint, version: &Version) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        entry.handled(fingerprint);
        if entry.running.as_ref().is_some_and(|plugin| Version::of(plugin) == *version) {
            entry.state = PluginState::Active;
            (entry.rejection, entry.refused) = (None, None);
        }
    }

    /// Its operator switched it off. When it is switched on again it starts over.
    fn disabled(&mut self, file: &str, fingerprint: Fingerprint, options: Arc<PluginOptions>) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        entry.handled(fingerprint);
        let ran = entry.running.take().is_some();
        let before = std::mem::replace(&mut entry.state, PluginState::Disabled);
        entry.previous = None;
        (entry.rejection, entry.refused) = (None, None);
        entry.options = options;
        entry.relied_on = false;
        let name = entry.name.clone();
        self.publish();
        if ran {
            self.shop.watch.reloaded(&name, Reload::Removed);
        }
        if before != PluginState::Disabled {
            self.on_disk(&name, Change::Forget);
        }
    }

    fn admitted(&mut self, file: &str, fingerprint: Fingerprint, plugin: Plugin, source: Source) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        let plugin = Arc::new(plugin);
        entry.handled(fingerprint);
        entry.options = plugin.options().clone();
        entry.relied_on = true;
        let before = entry.running.replace(plugin.clone());
        let sha256 = before.as_ref().map(|plugin| plugin.digest().to_string());
        entry.previous = before;
        entry.state = PluginState::Active;
        (entry.rejection, entry.refused) = (None, None);
        // Told after it runs: whoever hears of it finds it running.
        self.publish();
        self.shop.watch.reloaded(plugin.name(), Reload::Loaded { digest: plugin.digest() });
        self.on_disk(plugin.name(), Change::Save { source, before: sha256 });
    }

    /// A file that looks unfinished gets its time before it is refused for good; what says nothing about the
    /// bytes is told and tried again.
    fn refused(
        &mut self,
        file: &str,
        fingerprint: Fingerprint,
        options: Arc<PluginOptions>,
        digest: Option<Arc<str>>,
        rejection: &Rejection,
    ) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        let patience = entry.patience(self.setup.plugins.settle);
        if !self.starting && rejection.may_be_unfinished() && clock::now() < patience {
            entry.again(patience);
            return;
        }
        if rejection.is_passing() {
            entry.again(clock::now() + self.setup.plugins.rescan);
        } else {
            entry.handled(fingerprint);
            let options = options.clone();
            entry.refused = digest.clone().map(|digest| Version { digest, options });
        }
        entry.options = options;
        let nothing_runs = entry.running.is_none();
        self.refuse(file, digest, rejection);
        if nothing_runs {
            self.restore(file);
        }
    }

    /// Tells of a refusal. The same one is told once.
    pub(super) fn refuse(&mut self, file: &str, digest: Option<Arc<str>>, rejection: &Rejection) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        let status = RejectionStatus::new(rejection, digest.as_deref(), clock::wall());
        let told = entry
            .rejection
            .as_ref()
            .is_some_and(|before| before.digest == status.digest && before.message == status.message);
        entry.state = if entry.running.is_some() { PluginState::LastGood } else { PluginState::Rejected };
        if told {
            return;
        }
        entry.rejection = Some(status.clone());
        let name = entry.name.clone();
        self.show();
        self.shop.watch.reloaded(&name, Reload::Rejected { reason: status.reason, message: &status.message });
    }

    fn restore(&mut self, file: &str) {
        let (Some(entry), Some(found)) = (self.entries.get_mut(file), self.found.get(file)) else {
            return;
        };
        // A name that another file has, or compiled code, never ran.
        if found.refused.is_some() {
            return;
        }
        entry.working = true;
        self.spawn(found.file.clone(), Work::Restore(found.clone()));
    }

    fn restored(&mut self, file: &str, plugin: Option<Plugin>) {
        let (Some(entry), Some(plugin)) = (self.entries.get_mut(file), plugin) else {
            return;
        };
        let plugin = Arc::new(plugin);
        entry.running = Some(plugin.clone());
        entry.options = plugin.options().clone();
        entry.state = PluginState::LastGood;
        entry.relied_on = true;
        self.publish();
        self.shop.watch.reloaded(plugin.name(), Reload::Loaded { digest: plugin.digest() });
    }

    /// A plugin was set aside. If its version is new, the one before it takes its place.
    pub(super) fn roll_back(&mut self) {
        let now = clock::now();
        let probation = self.setup.plugins.probation;
        let mut failing = Vec::new();
        for (file, entry) in &mut self.entries {
            let young = |plugin: &Arc<Plugin>| {
                plugin.is_set_aside() && now.duration_since(plugin.history().began) < probation
            };
            if entry.working || !entry.running.as_ref().is_some_and(young) {
                continue;
            }
            if let Some(previous) = entry.previous.take() {
                entry.working = true;
                failing.push((file.clone(), previous));
            }
        }
        for (file, previous) in failing {
            self.spawn(file, Work::RollBack(previous));
        }
        self.show();
    }

    fn rolled_back(&mut self, file: &str, outcome: Result<Plugin, Rejection>) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        // Without an older version that runs, the failing one stays, set aside.
        let Ok(plugin) = outcome else { return };
        let plugin = Arc::new(plugin);
        let failed = entry.running.replace(plugin.clone());
        entry.refused = failed.as_deref().map(Version::of);
        let digest = failed.map(|failed| failed.digest().clone());
        entry.state = PluginState::LastGood;
        let rejection = Rejection::RolledBack(self.setup.plugins.probation);
        entry.rejection = Some(RejectionStatus::new(&rejection, digest.as_deref(), clock::wall()));
        self.publish();
        self.shop.watch.reloaded(plugin.name(), Reload::RolledBack { digest: plugin.digest() });
        self.on_disk(plugin.name(), Change::RollBack);
    }

    pub(super) fn unload(&mut self, file: &str) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        let ran = entry.running.take().is_some();
        let name = entry.name.clone();
        entry.previous = None;
        entry.relied_on = false;
        if ran {
            entry.state = PluginState::Removed;
            (entry.rejection, entry.refused) = (None, None);
            entry.doubt();
        } else {
            self.entries.remove(file);
        }
        self.forget_oldest_removed();
        self.publish();
        if ran {
            self.shop.watch.reloaded(&name, Reload::Removed);
        }
        // What another file of the name last ran is not this one's to forget.
        if !self.found.values().any(|found| found.name == name) {
            self.on_disk(&name, Change::Forget);
        }
    }

    fn forget_oldest_removed(&mut self) {
        let removed: Vec<Arc<str>> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.state == PluginState::Removed)
            .map(|(file, _)| file.clone())
            .collect();
        for file in removed.iter().rev().skip(REMOVED_MAX) {
            self.entries.remove(file);
        }
    }

    /// The keeper does not wait for the disk.
    fn on_disk(&self, name: &Arc<str>, change: Change) {
        let last_good = self.shop.last_good.clone();
        if last_good.queued(name, change) {
            self.shop.tracker.spawn_blocking(move || last_good.write());
        }
    }

    /// Makes a set of what runs, and shows it if it is another than before.
    pub(super) fn publish(&mut self) {
        self.show();
        if self.starting {
            return;
        }
        let running: Vec<Arc<Plugin>> =
            self.entries.values().filter_map(|entry| entry.running.clone()).collect();
        let denying = self.entries.values().filter(|entry| entry.denies());
        let denying: Vec<Arc<str>> = denying.map(|entry| entry.name.clone()).collect();
        let set = PluginSet::new(
            running,
            self.bundled.clone(),
            self.shop.targets.clone(),
            denying,
            self.shop.watch.clone(),
        );
        self.sets.send_if_modified(|current| {
            let changed = !current.is_same(&set);
            if changed {
                *current = Arc::new(set);
            }
            changed
        });
    }

    pub(super) fn show(&self) {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board.entries = self.entries.values().cloned().collect();
        board.bundled = self.bundled.clone();
    }

    /// New instances of the same components, for new targets and settings.
    pub(super) async fn reconfigure(&mut self, setup: Setup) -> Result<Arc<PluginSet>, StartError> {
        let defaults = PluginOptions::defaults(&setup.plugins);
        let tracker: TaskTracker = self.shop.tracker.clone();
        let watch = self.shop.watch.clone();
        let starting = Bundled::start(
            self.shop.host,
            &tracker,
            &defaults,
            &setup.targets,
            &setup.builtin,
            &watch,
            Some(&self.bundled),
        );
        self.bundled = Box::pin(starting).await?;
        let moved = setup.plugins.dir != self.setup.plugins.dir;
        self.setup = setup;
        self.shop.targets = self.setup.targets.clone();
        self.shop.plugins = Arc::new(self.setup.plugins.clone());
        self.shop.epoch += 1;
        if moved {
            self.move_to_other_folder().await;
        } else {
            self.configure_anew().await;
        }
        self.publish();
        Ok(self.sets.borrow().clone())
    }

    async fn configure_anew(&mut self) {
        let files: Vec<Arc<str>> = self.entries.keys().cloned().collect();
        for file in files {
            let Some(entry) = self.entries.get_mut(&file) else { continue };
            let Some(plugin) = entry.running.clone() else {
                // What refused the old targets may take the new ones.
                entry.refused = None;
                entry.doubt();
                continue;
            };
            let digest = plugin.digest().clone();
            match Box::pin(try_out(self.shop.host, self.shop.again(&plugin))).await {
                Ok(plugin) => entry.running = Some(Arc::new(plugin)),
                Err(rejection) => {
                    (entry.running, entry.previous) = (None, None);
                    self.refuse(&file, Some(digest), &rejection);
                }
            }
        }
    }

    async fn move_to_other_folder(&mut self) {
        self.events = super::Events::new(super::FOLDER, &self.setup.plugins.dir, self.bell.clone());
        let before = std::mem::take(&mut self.entries);
        for entry in before.values().filter(|entry| entry.running.is_some()) {
            self.shop.watch.reloaded(&entry.name, Reload::Removed);
        }
        self.first_look().await;
    }
}
