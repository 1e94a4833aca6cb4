//! From a new version that fails real calls back to the one before.

use std::sync::Arc;

use super::super::entry::{Previous, Refused};
use super::super::job::{Version, Work};
use super::super::last_good::Change;
use super::super::loaded::Plugin;
use super::super::rejection::Rejection;
use super::super::status::{PluginState, RejectionStatus};
use super::super::watch::Reload;
use super::Keeper;
use crate::clock;

impl Keeper {
    /// A plugin has begun to fail all the time: the page says it, and its version may have to give way.
    pub(super) fn in_trouble(&mut self) {
        self.roll_back();
        self.show();
    }

    /// A plugin keeps failing. If its version is new, the one before it takes its place: tried first, so that it stays
    /// what is before until it runs.
    pub(super) fn roll_back(&mut self) {
        let now = clock::now();
        let probation = self.setup.plugins.probation;
        let mut failing = Vec::new();
        for (file, entry) in &self.entries {
            let young = |plugin: &Arc<Plugin>| {
                plugin.keeps_failing() && now.duration_since(plugin.history().began) < probation
            };
            if entry.job.is_some() || !entry.running.as_ref().is_some_and(young) {
                continue;
            }
            let work = match (&entry.previous, self.found.get(file)) {
                (Some(Previous::Loaded(plugin)), _) => Work::RollBack(plugin.clone()),
                (Some(Previous::Kept), Some(found)) => Work::RollBackToKept(found.clone()),
                (Some(Previous::Kept), None) | (None, _) => continue,
            };
            failing.push((file.clone(), work));
        }
        for (file, work) in failing {
            self.spawn(file, work);
        }
    }

    pub(super) fn rolled_back(&mut self, file: &str, outcome: Option<Plugin>) {
        let Some(entry) = self.entries.get_mut(file) else {
            return;
        };
        entry.previous = None;
        // Without an older version that runs, the failing one stays.
        let Some(plugin) = outcome else { return };
        let plugin = Arc::new(plugin);
        let failed = entry.running.replace(plugin.clone());
        entry.refused = failed.as_deref().map(|failed| Refused::InService(Version::of(failed)));
        entry.options = plugin.options().clone();
        let digest = failed.map(|failed| failed.digest().clone());
        entry.state = PluginState::LastGood;
        let rejection = Rejection::RolledBack(self.setup.plugins.probation);
        entry.rejection = Some(RejectionStatus::new(&rejection, digest.as_deref(), clock::wall()));
        self.publish();
        self.shop.watch.reloaded(plugin.name(), Reload::RolledBack { digest: plugin.digest() });
        self.on_disk(plugin.name(), Change::RollBack);
    }
}
