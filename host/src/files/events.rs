//! Hints from the file system that a folder may have changed. Only ever "look again": what a hint says is
//! not believed, and a file system that sends none is served by the rescan timer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// Watches a folder, or, while it is not there, the one it would lie in. Not both: the neighbours of a folder
/// that is there may be busy, a log for one, and its own end is seen by watching it.
pub struct Events {
    what: &'static str,
    dir: PathBuf,
    bell: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    armed: Option<(u64, u64)>,
    /// What is watched was deleted, and its watch is silent from then on.
    ended: Arc<AtomicBool>,
    said: bool,
}

impl Events {
    /// Watches nothing before [`Events::arm`], and rings `bell` then. `what` is the folder in words.
    pub fn new(what: &'static str, dir: &Path, bell: Arc<Notify>) -> Self {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        Self { what, dir, bell, watcher: None, armed: None, ended: Arc::default(), said: false }
    }

    /// Watches the folder that is there now, or, while there is none, only the one it would lie in.
    /// A folder that was replaced is watched anew: its old watch would stay silent.
    pub fn arm(&mut self, identity: Option<(u64, u64)>) {
        if self.watcher.is_some() && self.armed == identity && !self.ended.load(Ordering::Relaxed) {
            return;
        }
        self.watcher = None;
        self.ended = Arc::default();
        match self.watch(identity.is_some()) {
            Ok(watcher) => {
                self.watcher = Some(watcher);
                self.armed = identity;
                // What happened while nothing was watched is seen by one more look.
                self.bell.notify_one();
            }
            Err(error) if !self.said => {
                self.said = true;
                let dir = self.dir.display();
                let what = self.what;
                tracing::warn!(%dir, %error, "{what} cannot be watched; changes are found by the rescan timer");
            }
            Err(_) => {}
        }
    }

    fn watch(&self, there: bool) -> notify::Result<RecommendedWatcher> {
        let (bell, dir, ended) = (self.bell.clone(), self.dir.clone(), self.ended.clone());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let gone = |event: &Event| event.kind.is_remove() && event.paths.contains(&dir);
            if event.as_ref().is_ok_and(gone) {
                ended.store(true, Ordering::Relaxed);
            }
            if event.map_or(true, |event| concerns(&event, &dir)) {
                bell.notify_one();
            }
        })?;
        if there {
            watcher.watch(&self.dir, RecursiveMode::NonRecursive)?;
        } else if let Some(parent) = self.dir.parent().filter(|parent| parent.is_dir()) {
            // Without it a folder that appears is found by the timer.
            let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
        }
        Ok(watcher)
    }
}

/// Reading is no change, and neighbours of the folder are none of its business.
fn concerns(event: &Event, dir: &Path) -> bool {
    let read_only =
        matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write));
    if read_only {
        return false;
    }
    event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(|path| path.starts_with(dir))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use notify::event::{CreateKind, Flag};

    #[test]
    fn reading_and_neighbours_are_no_hint_and_a_lost_event_is() {
        let event = |kind, path: &str| Event::new(kind).add_path(path.into());
        let dir = Path::new("/etc/plugins.d");
        let create = EventKind::Create(CreateKind::Any);
        for (event, concern) in [
            (event(create, "/etc/plugins.d/a.wasm"), true),
            (event(create, "/etc/plugins.d"), true),
            (event(create, "/etc/other"), false),
            (event(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/etc/plugins.d/a.wasm"), false),
            (event(EventKind::Access(AccessKind::Close(AccessMode::Write)), "/etc/plugins.d/a.wasm"), true),
            (Event::new(EventKind::Other).set_flag(Flag::Rescan), true),
        ] {
            assert_eq!(concerns(&event, dir), concern, "{event:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_watched_is_left_to_the_timer_and_tried_again() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("plugins.d");
        let mut events = Events::new("the folder", &dir, Arc::new(Notify::new()));
        // As when the system has no watch left: what is said to be there cannot be watched.
        for _ in 0..2 {
            events.arm(Some((1, 1)));
            assert!(events.watcher.is_none() && events.said);
        }
        std::fs::create_dir(&dir).unwrap();
        events.arm(Some((1, 1)));
        assert!(events.watcher.is_some());
    }
}
