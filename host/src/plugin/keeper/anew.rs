//! The same folder, or another, with another configuration.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::super::admission::try_out;
use super::super::bundled::Bundled;
use super::super::options::PluginOptions;
use super::super::registry::{Setup, StartError};
use super::super::set::PluginSet;
use super::super::watch::Reload;
use super::{Folder, Keeper};
use crate::clock;

/// So long a configuration waits for files whose version of before does not take its targets.
const LOOK: Duration = Duration::from_secs(10);

impl Keeper {
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

    /// What runs is tried with the new targets. What refused the old ones may take the new ones, and is judged by them at
    /// once: a plugin and the configuration are often changed together.
    async fn configure_anew(&mut self) {
        let files: Vec<Arc<str>> = self.entries.keys().cloned().collect();
        let mut idle = Vec::new();
        for file in files {
            let Some(entry) = self.entries.get_mut(&file) else { continue };
            if entry.refused.is_some() || entry.running.is_none() {
                entry.appeal();
            }
            let Some(plugin) = entry.running.clone() else { continue };
            let digest = plugin.digest().clone();
            match Box::pin(try_out(self.shop.host, self.shop.again(&plugin))).await {
                Ok(plugin) => entry.running = Some(Arc::new(plugin)),
                Err(rejection) => {
                    (entry.running, entry.previous) = (None, None);
                    entry.appeal();
                    self.refuse(&file, Some(digest), &rejection);
                    idle.push(file);
                }
            }
        }
        self.begin_due(clock::now());
        self.wait_for(&idle).await;
    }

    /// The version in the file may be the one that was made for the new targets: then there is no moment in which
    /// none runs.
    async fn wait_for(&mut self, files: &[Arc<str>]) {
        let until = clock::now() + LOOK;
        while files.iter().any(|file| self.entries.get(file).is_some_and(|entry| entry.job.is_some())) {
            match tokio::time::timeout_at(until.into(), self.results.recv()).await {
                Ok(Some(done)) => self.apply(done),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// What runs is kept where the other folder is not there, as where a folder is suddenly gone.
    async fn move_to_other_folder(&mut self) {
        self.events = super::Events::new(super::FOLDER, &self.setup.plugins.dir, self.bell.clone());
        if let Err(error) = self.shop.scan(self.setup.plugins.dir.clone()).await {
            self.found.clear();
            self.configure_anew().await;
            self.say(Folder::Gone(error.to_string()));
            return;
        }
        let before = std::mem::take(&mut self.entries);
        for entry in before.values().filter(|entry| entry.running.is_some()) {
            self.shop.watch.reloaded(&entry.name, Reload::Removed);
        }
        self.first_look().await;
    }
}
