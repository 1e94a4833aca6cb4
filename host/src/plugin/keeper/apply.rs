//! What a result changes.

use std::sync::{Arc, PoisonError};

use super::super::entry::{Previous, Refused};
use super::super::folder::Fingerprint;
use super::super::job::{Done, Version, What, Work};
use super::super::last_good::{Change, Source};
use super::super::loaded::Plugin;
use super::super::options::PluginOptions;
use super::super::rejection::Rejection;
use super::super::set::PluginSet;
use super::super::status::{PluginState, RejectionStatus};
use super::super::watch::Reload;
use super::{EMPTIED, Folder, GONE, Keeper};
use crate::clock;

/// Removed files the page still shows.
const REMOVED_MAX: usize = 32;

impl Keeper {
    /// Takes a result in. One that was made for an earlier configuration is thrown away and done again.
    pub(super) fn apply(&mut self, done: Done) {
        let Done { file, job, epoch, what } = done;
        // Nobody waits for what comes of a file that was unloaded meanwhile, or of one in a folder of before.
        let Some(entry) = self.entries.get_mut(&file).filter(|entry| entry.job == Some(job)) else {
            return;
        };
        entry.job = None;
        // Its file may be on its way out: then it does not begin to run.
        let leaving = matches!(what, What::Admitted { .. }) && entry.is_missing();
        if epoch != self.shop.epoch || leaving {
            entry.doubt();
        } else {
            match what {
                What::Changed => {
                    entry.doubt();
                    entry.again(clock::now() + self.setup.plugins.settle);
                }
                What::Known { fingerprint, version } => self.known(&file, fingerprint, &version),
                What::Disabled { fingerprint, options } => self.disabled(&file, fingerprint, options),
                What::Admitted { fingerprint, plugin, source, after_kept } => {
                    self.admitted(&file, fingerprint, *plugin, source, after_kept);
                }
                What::Refused { fingerprint, options, digest, rejection } => {
                    self.refused(&file, fingerprint, options, digest, &rejection);
                }
                What::Restored(plugin) => self.restored(&file, plugin.map(|plugin| *plugin)),
                What::RolledBack(outcome) => self.rolled_back(&file, outcome.map(|plugin| *plugin)),
            }
        }
        // What began to fail while a job was at work on it.
        self.roll_back();
        self.begin_due(clock::now());
        self.publish();
    }

    /// A version that was judged before. What was refused is gone when the file has what runs again; where nothing
    /// runs, what last ran may.
    fn known(&mut self, file: &Arc<str>, fingerprint: Fingerprint, version: &Version) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        entry.handled(fingerprint);
        match &entry.running {
            Some(plugin) if Version::of(plugin) == *version => {
                entry.state = PluginState::Active;
                (entry.rejection, entry.refused) = (None, None);
            }
            Some(_) => {}
            None => self.restore(file),
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

    fn admitted(
        &mut self,
        file: &str,
        fingerprint: Fingerprint,
        plugin: Plugin,
        source: Source,
        after_kept: bool,
    ) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        let plugin = Arc::new(plugin);
        entry.handled(fingerprint);
        entry.options = plugin.options().clone();
        entry.relied_on = true;
        let before = entry.running.replace(plugin.clone());
        let sha256 = before.as_ref().map(|plugin| plugin.digest().to_string());
        entry.previous = before.map(Previous::Loaded).or(after_kept.then_some(Previous::Kept));
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
        file: &Arc<str>,
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
            let of = if matches!(rejection, Rejection::RolledBack(_)) {
                Refused::InService
            } else {
                Refused::AtAdmission
            };
            entry.refused = digest.clone().map(|digest| of(Version { digest, options }));
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
        self.shop.watch.reloaded(
            &name,
            Reload::Rejected { digest: digest.as_deref(), reason: status.reason, message: &status.message },
        );
    }

    pub(super) fn restore(&mut self, file: &Arc<str>) {
        let Some(found) = self.found.get(file) else {
            return;
        };
        // A name that another file has, or compiled code, never ran.
        if found.refused.is_some() {
            return;
        }
        let work = Work::Restore(found.clone());
        self.spawn(file.clone(), work);
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

    pub(super) fn unload(&mut self, file: &str) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        let ran = entry.running.take().is_some();
        let name = entry.name.clone();
        entry.previous = None;
        entry.relied_on = false;
        // What comes of a job at work on it is nothing that is there.
        entry.job = None;
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
    pub(super) fn on_disk(&self, name: &Arc<str>, change: Change) {
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
        let dir = self.setup.plugins.dir.display();
        board.folder = match &self.folder {
            Folder::Here => None,
            Folder::Gone(error) => Some(format!("{dir} {GONE}: {error}")),
            Folder::Emptied => Some(format!("{dir} {EMPTIED}")),
        };
    }
}
