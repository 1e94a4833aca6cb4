//! The task that keeps what runs and what is in the folder the same.
//!
//! It looks, gives work away, and takes results in; it never waits for one plugin while another has news.

mod anew;
mod apply;
mod roll_back;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluice_core::facts::PluginKind;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bundled::Bundled;
use super::engine::Host;
use super::entry::{Entry, Previous};
use super::folder::{Found, Scan};
use super::job::{Done, JOBS, Shop, Task, Version, Work};
use super::last_good::{Change, LastGood};
use super::options::PluginOptions;
use super::registry::{Board, Command, Setup, StartError};
use super::set::PluginSet;
use super::status::PluginState;
use super::watch::PluginWatch;
use crate::clock;
use crate::files::Events;

/// Hints that come together are one.
const COALESCE: Duration = Duration::from_millis(20);
/// Every so many rescans each file is read, whatever its signature says.
const READ_EVERY: u32 = 12;
/// A folder that took the place of another and is empty is one without plugins after so many rescans.
const EMPTY: u32 = 6;
/// The folder, in log lines and on the page.
const GONE: &str = "is gone or cannot be read; what runs is kept";
const EMPTIED: &str = "is another one now, and empty; what runs is kept for a few rescans more";
/// What is watched, in words.
const FOLDER: &str = "the plugins folder";

/// Owns all that changes.
pub struct Keeper {
    setup: Setup,
    shop: Shop,
    bundled: Bundled,
    entries: BTreeMap<Arc<str>, Entry>,
    /// As last seen, for jobs.
    found: BTreeMap<Arc<str>, Found>,
    events: Events,
    bell: Arc<Notify>,
    sets: watch::Sender<Arc<PluginSet>>,
    board: Arc<Mutex<Board>>,
    inbox: mpsc::Receiver<Command>,
    done: mpsc::Sender<Done>,
    results: mpsc::Receiver<Done>,
    rescans: u32,
    /// Jobs that were ever given away.
    jobs: u64,
    folder: Folder,
    /// Since when the folder is another one than that of what runs, and empty.
    empty_since: Option<Instant>,
    /// Files beyond the bound at the last look.
    left_out: usize,
    /// The earliest time at which something is due.
    wake: Option<Instant>,
    /// The first look is under way: nothing is published, nothing waits to settle.
    starting: bool,
}

/// The folder at the last look, as far as something runs that may not be in it.
#[derive(Debug, PartialEq, Eq)]
enum Folder {
    Here,
    /// In the words of the system.
    Gone(String),
    /// Another one is in its place, and empty.
    Emptied,
}

/// A keeper and what it shows.
pub struct Made {
    /// To be run.
    pub keeper: Keeper,
    /// What runs.
    pub sets: watch::Receiver<Arc<PluginSet>>,
    /// For the page.
    pub board: Arc<Mutex<Board>>,
}

impl Keeper {
    /// Starts the bundled plugins, and everything in the folder that can be.
    pub async fn start(
        host: &'static Host,
        setup: Setup,
        state_dir: &Path,
        watch: Arc<dyn PluginWatch>,
        tracker: TaskTracker,
        inbox: mpsc::Receiver<Command>,
    ) -> Result<Made, StartError> {
        let defaults = PluginOptions::defaults(&setup.plugins);
        let bundled =
            Bundled::start(host, &tracker, &defaults, &setup.targets, &setup.builtin, &watch, None).await?;
        let set =
            PluginSet::new(Vec::new(), bundled.clone(), setup.targets.clone(), Vec::new(), watch.clone());
        let (sets, receiver) = watch::channel(Arc::new(set));
        let (done, results) = mpsc::channel(64);
        let bell = Arc::new(Notify::new());
        let shop = Shop {
            host,
            tracker,
            watch,
            targets: setup.targets.clone(),
            plugins: Arc::new(setup.plugins.clone()),
            trouble: Arc::new(Notify::new()),
            last_good: Arc::new(LastGood::new(state_dir)),
            places: Arc::new(Semaphore::new(JOBS)),
            epoch: 0,
        };
        let board =
            Arc::new(Mutex::new(Board { entries: Vec::new(), bundled: bundled.clone(), folder: None }));
        let mut keeper = Self {
            events: Events::new(FOLDER, &setup.plugins.dir, bell.clone()),
            setup,
            shop,
            bundled,
            entries: BTreeMap::new(),
            found: BTreeMap::new(),
            bell,
            sets,
            board: board.clone(),
            inbox,
            done,
            results,
            rescans: 0,
            jobs: 0,
            folder: Folder::Here,
            empty_since: None,
            left_out: 0,
            wake: None,
            starting: true,
        };
        keeper.first_look().await;
        Ok(Made { keeper, sets: receiver, board })
    }

    /// Looks once and waits for all that comes of it. A configuration that names another folder begins here again:
    /// until everything in that folder was judged, what ran before is what others see.
    async fn first_look(&mut self) {
        self.starting = true;
        self.look().await;
        while self.entries.values().any(|entry| entry.job.is_some()) {
            let Some(done) = self.results.recv().await else {
                break;
            };
            self.apply(done);
        }
        self.starting = false;
        self.publish();
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let trouble = self.shop.trouble.clone();
        let bell = self.bell.clone();
        let mut rescan = clock::now() + self.setup.plugins.rescan;
        loop {
            let wake = self.wake.map_or(rescan, |wake| wake.min(rescan));
            tokio::select! {
                () = stop.cancelled() => return,
                Some(command) = self.inbox.recv() => {
                    // A reload waits for plugins. One that is overtaken by the end is answered by nobody.
                    let obeying = Box::pin(self.command(command));
                    if stop.run_until_cancelled(obeying).await.is_none() {
                        return;
                    }
                }
                Some(done) = self.results.recv() => self.apply(done),
                () = trouble.notified() => self.in_trouble(),
                () = bell.notified() => self.look_soon().await,
                () = tokio::time::sleep_until(wake.into()) => {
                    if clock::now() >= rescan {
                        rescan = clock::now() + self.setup.plugins.rescan;
                        self.doubt_sometimes();
                        self.retire(clock::now());
                    }
                    self.look().await;
                }
            }
        }
    }

    /// Looks once for all that happens in this moment.
    async fn look_soon(&mut self) {
        tokio::time::sleep(COALESCE).await;
        self.look().await;
    }

    fn doubt_sometimes(&mut self) {
        self.rescans = (self.rescans + 1) % READ_EVERY;
        if self.rescans == 0 {
            self.entries.values_mut().for_each(Entry::doubt);
        }
    }

    /// Lets go of instances that have served long enough, and of versions that cannot come back any more.
    fn retire(&mut self, now: Instant) {
        for kind in PluginKind::ALL {
            self.bundled.of(kind).pool().sweep(now);
        }
        let probation = self.setup.plugins.probation;
        let mut proven = Vec::new();
        for entry in self.entries.values_mut() {
            let Some(running) = &entry.running else { continue };
            running.pool().sweep(now);
            // A plugin is only rolled back in its first minutes.
            if entry.job.is_none()
                && now.duration_since(running.history().began) >= probation
                && entry.previous.take().is_some()
            {
                proven.push(entry.name.clone());
            }
            // Coming back is by instances of its own.
            if let Some(Previous::Loaded(previous)) = &entry.previous {
                previous.pool().clear();
            }
        }
        for name in proven {
            self.on_disk(&name, Change::Proven);
        }
    }

    async fn command(&mut self, command: Command) {
        match command {
            Command::Look => self.look().await,
            Command::Reconfigure(setup, reply) => {
                let outcome = self.reconfigure(*setup).await;
                // Whoever asked may have left; the new set is published anyway.
                let _ = reply.send(outcome);
            }
        }
    }

    /// Compares the folder with what is known, and begins what is due.
    async fn look(&mut self) {
        let scan = self.shop.scan(self.setup.plugins.dir.clone()).await;
        let now = clock::now();
        self.wake = None;
        match scan {
            Ok(scan) => {
                self.events.arm(Some(scan.identity));
                self.take_in(&scan, now);
                self.unload_missing(&scan, now);
                self.say(if self.empty_since.is_some() { Folder::Emptied } else { Folder::Here });
            }
            Err(error) => {
                self.events.arm(None);
                self.say(Folder::Gone(error.to_string()));
            }
        }
        self.begin_due(now);
        self.show();
    }

    /// Tells once of a folder that is not what runs.
    fn say(&mut self, folder: Folder) {
        let runs = self.entries.values().any(|entry| entry.running.is_some());
        let folder = if runs { folder } else { Folder::Here };
        if folder == self.folder {
            return;
        }
        let dir = self.setup.plugins.dir.display();
        match (&folder, &self.folder) {
            (Folder::Here, _) if !runs => {}
            (Folder::Here, _) => tracing::info!(%dir, "the plugins folder is back"),
            (Folder::Gone(_), Folder::Gone(_)) => {}
            (Folder::Gone(error), _) => tracing::warn!(%dir, %error, "the plugins folder {GONE}"),
            (Folder::Emptied, _) => tracing::warn!(%dir, "the plugins folder {EMPTIED}"),
        }
        self.folder = folder;
    }

    fn take_in(&mut self, scan: &Scan, now: Instant) {
        if scan.left_out > self.left_out {
            tracing::warn!(
                left_out = scan.left_out,
                "too many plugin files; the last in name order are left out"
            );
        }
        self.left_out = scan.left_out;
        self.found.clear();
        for found in &scan.files {
            match self.entries.get_mut(&found.file) {
                Some(entry) => entry.seen(&found.fingerprint, scan.identity, now),
                None => {
                    let options = Arc::new(PluginOptions::defaults(&self.setup.plugins));
                    let (name, file) = (found.name.clone(), found.file.clone());
                    let mut entry = Entry::new(
                        name,
                        file.clone(),
                        options,
                        found.fingerprint.clone(),
                        scan.identity,
                        now,
                    );
                    entry.relied_on = self.starting;
                    self.entries.insert(file, entry);
                }
            }
            self.found.insert(found.file.clone(), found.clone());
        }
    }

    /// Unloads what has been missing for long enough. A folder that was replaced and is empty is one whose
    /// files have not come yet: it unloads nothing, until it has stayed so.
    fn unload_missing(&mut self, scan: &Scan, now: Instant) {
        let (settle, rescan) = (self.setup.plugins.settle, self.setup.plugins.rescan);
        let elsewhere = |entry: &Entry| entry.running.is_some() && entry.was_elsewhere(scan.identity);
        let emptied = scan.files.is_empty() && self.entries.values().any(elsewhere);
        self.empty_since = emptied.then(|| self.empty_since.unwrap_or(now));
        let empty_until = self.empty_since.map(|since| since + rescan * EMPTY).filter(|until| now < *until);
        let mut gone = Vec::new();
        for (file, entry) in &mut self.entries {
            if self.found.contains_key(file) || entry.state == PluginState::Removed {
                continue;
            }
            if let Some(until) = empty_until
                && entry.was_elsewhere(scan.identity)
            {
                self.wake = earlier(self.wake, until);
                continue;
            }
            let at = entry.missing(scan.identity, settle, rescan, now);
            if at <= now {
                gone.push(file.clone());
            } else {
                self.wake = earlier(self.wake, at);
            }
        }
        for file in gone {
            self.unload(&file);
        }
    }

    fn begin_due(&mut self, now: Instant) {
        let settle = if self.starting { Duration::ZERO } else { self.setup.plugins.settle };
        let mut due = Vec::new();
        for (file, entry) in &self.entries {
            match entry.due(settle) {
                Some(at) if at <= now => due.push(file.clone()),
                Some(at) => self.wake = earlier(self.wake, at),
                None => {}
            }
        }
        for file in due {
            self.begin(&file);
        }
    }

    /// Gives the work on one file away.
    fn begin(&mut self, file: &Arc<str>) {
        let (Some(entry), Some(found)) = (self.entries.get(file), self.found.get(file)) else {
            return;
        };
        let running = entry.running.iter().map(|plugin| Version::of(plugin));
        let known = running.chain(entry.refused.iter().map(|refused| refused.version().clone())).collect();
        let task = Task { found: found.clone(), known, idle: entry.running.is_none() };
        self.spawn(file.clone(), Work::Look(task));
    }

    /// Of a file that has an entry.
    fn spawn(&mut self, file: Arc<str>, work: Work) {
        let Some(entry) = self.entries.get_mut(&file) else {
            return;
        };
        self.jobs += 1;
        let job = self.jobs;
        entry.job = Some(job);
        let (shop, done) = (self.shop.clone(), self.done.clone());
        // Boxed: with a whole guest call inside, the future is too large to be moved about.
        self.shop.tracker.spawn(Box::pin(async move {
            let what = shop.work(work).await;
            // A keeper that is gone needs no results.
            let _ = done.send(Done { file, job, epoch: shop.epoch, what }).await;
        }));
    }
}

fn earlier(one: Option<Instant>, other: Instant) -> Option<Instant> {
    Some(one.map_or(other, |one| one.min(other)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
mod tests;
