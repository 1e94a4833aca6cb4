//! The same folder, or another, with another configuration.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::task::TaskTracker;

use super::super::admission::try_out;
use super::super::bundled::Bundled;
use super::super::options::PluginOptions;
use super::super::registry::{Setup, StartError};
use super::super::set::PluginSet;
use super::super::watch::Reload;
use super::Keeper;
use crate::clock;

/// So long a configuration waits for files of which nothing would run with it.
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
                }
            }
        }
        // Whoever wrote the configuration may have written a plugin for it just before.
        self.look().await;
        self.wait_for_idle().await;
    }

    /// The version in a file of which nothing runs may be the one that was made for the new targets: then there is no
    /// moment in which none runs. Its bytes may be so new that they have yet to settle.
    async fn wait_for_idle(&mut self) {
        let until = clock::now() + LOOK;
        let (trouble, bell) = (self.shop.trouble.clone(), self.bell.clone());
        while let Some(next) = self.next_of_idle(clock::now(), until) {
            tokio::select! {
                Some(done) = self.results.recv() => self.apply(done),
                () = trouble.notified() => self.in_trouble(),
                () = bell.notified() => self.look_soon().await,
                () = tokio::time::sleep_until(next.min(until).into()) => {
                    if clock::now() >= until {
                        return;
                    }
                    self.look().await;
                }
            }
        }
    }

    /// When to look again for the sake of files of which nothing runs; `until`: only jobs at work on them are waited
    /// for. None: nothing more comes of any of them.
    pub(super) fn next_of_idle(&self, now: Instant, until: Instant) -> Option<Instant> {
        let there = |file: &Arc<str>| self.found.contains_key(file);
        let idle = self.entries.values().filter(|entry| entry.running.is_none() && there(&entry.file));
        let next = idle.filter_map(|entry| match entry.job {
            Some(_) => Some(until),
            None => entry.due_soon(self.setup.plugins.settle, now),
        });
        next.min()
    }

    /// What runs is kept where the other folder is not there, as where a folder is suddenly gone.
    async fn move_to_other_folder(&mut self) {
        self.events = super::Events::new(super::FOLDER, &self.setup.plugins.dir, self.bell.clone());
        if self.shop.scan(self.setup.plugins.dir.clone()).await.is_err() {
            self.found.clear();
            self.configure_anew().await;
            return;
        }
        let before = std::mem::take(&mut self.entries);
        for entry in before.values().filter(|entry| entry.running.is_some()) {
            self.shop.watch.reloaded(&entry.name, Reload::Removed);
        }
        self.first_look().await;
    }
}
