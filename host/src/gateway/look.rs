//! Watches the configuration file and every file it refers to, and reads them when they have come to rest.
//!
//! As with the plugins folder, events only mean "look again". The truth is what a look finds: links followed,
//! states compared, and, once nothing has changed for a while, everything read. A timer looks too, and now and
//! then a look believes nothing, for file systems that tell neither by events nor by time stamps.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sluice_core::debounce::{Debounce, Next, Patience};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::config::{self, Reading};
use crate::files::{Events, Signature, inode};
use crate::proxy::Shared;

/// Longer than an editor or a copy pauses within one file; with the rest of a reload well below a second.
const PATIENCE: Patience = Patience { quiet: Duration::from_millis(400), longest: Duration::from_secs(5) };
/// Hints that come together are one: the folder may hold files that others write all the time.
const COALESCE: Duration = Duration::from_millis(50);
/// Every so many rescans everything is read, however it looks.
const READ_EVERY: u32 = 12;
/// Folders that are watched; files in further ones are found by the timer.
const FOLDERS_MAX: usize = 8;
/// Readings during which a file may change before it is left to come to rest again.
const TRIES: usize = 3;

/// Asks for a look.
#[derive(Default)]
pub(super) struct Bell {
    rings: Arc<Notify>,
    doubt: AtomicBool,
    asked: AtomicBool,
}

impl Bell {
    /// Somebody wants the file read now, and an answer in the log whatever is in it.
    pub(super) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
        self.rings.notify_one();
    }

    /// What was judged may be judged otherwise now, though the files are the same.
    pub(super) fn doubt(&self) {
        self.doubt.store(true, Ordering::Relaxed);
        self.rings.notify_one();
    }
}

/// What was found in files that are at rest.
pub(super) struct Found {
    pub reading: Reading,
    /// Somebody asked for it.
    pub asked: bool,
}

/// Which file is there, and in which state; none: not there, or not readable.
type Seen = BTreeMap<PathBuf, Option<Signature>>;

/// The watch over one configuration.
pub(super) struct Look {
    file: PathBuf,
    /// The file and those it refers to.
    paths: Vec<PathBuf>,
    settle: Debounce<Seen>,
    bell: Arc<Bell>,
    folders: BTreeMap<PathBuf, Events>,
    shared: Arc<Shared>,
    tracker: TaskTracker,
    rescans: u32,
    asked: bool,
}

impl Look {
    /// Of the file at `file`, which may have changed since it was read for the start.
    pub(super) fn new(file: PathBuf, bell: Arc<Bell>, shared: Arc<Shared>, tracker: TaskTracker) -> Self {
        Self {
            paths: vec![file.clone()],
            file,
            settle: Debounce::new(PATIENCE),
            bell,
            folders: BTreeMap::new(),
            shared,
            tracker,
            rescans: 0,
            asked: false,
        }
    }

    /// Hands over every state of the files that has come to rest, until `stop`.
    pub(super) async fn run(mut self, to: mpsc::Sender<Found>, stop: CancellationToken) {
        tokio::select! {
            () = self.keep_looking(&to) => {}
            () = stop.cancelled() => {}
        }
    }

    async fn keep_looking(&mut self, to: &mpsc::Sender<Found>) {
        let rings = self.bell.rings.clone();
        let mut rescan = clock::now();
        let mut due = Some(rescan);
        loop {
            tokio::select! {
                () = rings.notified() => tokio::time::sleep(COALESCE).await,
                () = tokio::time::sleep_until(due.map_or(rescan, |due| due.min(rescan)).into()) => {}
            }
            let now = clock::now();
            if now >= rescan {
                rescan = now + self.shared.current.load().config.plugins.rescan;
                self.rescans = (self.rescans + 1) % READ_EVERY;
                if self.rescans == 0 {
                    self.settle.doubt();
                }
            }
            if self.bell.asked.swap(false, Ordering::Relaxed) {
                self.asked = true;
                self.settle.ask();
            }
            if self.bell.doubt.swap(false, Ordering::Relaxed) {
                self.settle.doubt();
            }
            due = match self.look(now).await {
                Looked::Nothing => None,
                Looked::Wait(until) => Some(until),
                Looked::Found(found) => {
                    if to.send(*found).await.is_err() {
                        return;
                    }
                    None
                }
            };
        }
    }

    async fn look(&mut self, now: Instant) -> Looked {
        self.watch();
        let seen = self.blocking(|_, paths| see(paths)).await;
        let Some(seen) = seen else { return Looked::Nothing };
        match self.settle.look(seen, now) {
            Next::Nothing => Looked::Nothing,
            Next::Wait(until) => Looked::Wait(until),
            Next::Judge => self.read().await,
        }
    }

    async fn read(&mut self) -> Looked {
        let Some((reading, seen)) = self.blocking(read_at_rest).await else { return Looked::Nothing };
        self.paths = seen.keys().cloned().collect();
        let Some(reading) = reading else {
            self.settle.stir(seen, clock::now());
            return Looked::Wait(clock::now() + PATIENCE.quiet);
        };
        self.settle.judged(seen);
        self.watch();
        Looked::Found(Box::new(Found { reading, asked: std::mem::take(&mut self.asked) }))
    }

    /// Arms the watches of the folders that the files are in. What is behind links is left to the timer.
    fn watch(&mut self) {
        let mut folders: Vec<PathBuf> = self.paths.iter().map(|path| folder_of(path)).collect();
        folders.dedup();
        folders.truncate(FOLDERS_MAX);
        self.folders.retain(|folder, _| folders.contains(folder));
        for folder in folders {
            let identity = fs::metadata(&folder).ok().map(|metadata| inode(&metadata));
            let bell = self.bell.rings.clone();
            let events = self
                .folders
                .entry(folder)
                .or_insert_with_key(|folder| Events::new("the folder of the configuration", folder, bell));
            events.arm(identity);
        }
    }

    /// Off the runtime's own threads. None: the gateway goes down.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path, &[PathBuf]) -> T + Send + 'static,
    ) -> Option<T> {
        let (file, paths) = (self.file.clone(), self.paths.clone());
        self.tracker.spawn_blocking(move || work(&file, &paths)).await.ok()
    }
}

enum Looked {
    Nothing,
    Wait(Instant),
    Found(Box<Found>),
}

/// Reads everything, between two looks that find the same. No reading: it changed under every try.
fn read_at_rest(file: &Path, paths: &[PathBuf]) -> (Option<Reading>, Seen) {
    let mut before = see(paths);
    for _ in 0..TRIES {
        let reading = config::read(file, &|name| std::env::var(name).ok());
        let after = see(reading.sources.paths());
        if after == before {
            return (Some(reading), after);
        }
        // It changed, or names other files than it did.
        before = after;
    }
    (None, before)
}

fn see(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Seen {
    let state = |path: &Path| fs::metadata(path).ok().map(|metadata| Signature::of(&metadata));
    let paths = paths.into_iter();
    paths.map(|path| (path.as_ref().to_owned(), state(path.as_ref()))).collect()
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
