//! The bytes of what last ran and the sidecar they ran with, kept on disk, so that a restart with a bad file in
//! the folder still runs what ran before. Bytes lie under their digest; a small file for each plugin says which
//! are its, and how they were run.
//!
//! What is to be written is queued, so that nobody waits for the disk who has other things to do; it is written in
//! that order. A folder that cannot be written is said once, and done without. Blocking.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::compiled::digest;

/// Where the bytes lie.
#[derive(Debug)]
pub struct LastGood {
    dir: PathBuf,
    said: AtomicBool,
    queue: Mutex<Queue>,
    /// Held by whoever is at the disk.
    disk: Mutex<()>,
}

/// What is to be written may hold so many bytes,
const QUEUED_BYTES_MAX: usize = 128 << 20;
/// and be so many changes. What finds no room is as if the disk could not be written.
const QUEUED_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Queue {
    changes: VecDeque<(Arc<str>, Change)>,
    bytes: usize,
    /// Somebody was asked to write it.
    asked: bool,
}

/// A change of what is kept for a plugin.
#[derive(Debug)]
pub enum Change {
    /// A version runs now, in place of another.
    Save {
        /// What it was made of.
        source: Source,
        /// Digest of the one before, for as long as it may be rolled back. None: nothing ran, and what last ran
        /// is the one before.
        before: Option<String>,
    },
    /// The version before the last runs again; the last one failed.
    RollBack,
    /// What runs has stood its probation: the one before it is needed no more.
    Proven,
    /// The plugin was unloaded.
    Forget,
}

impl Change {
    fn size(&self) -> usize {
        match self {
            Self::Save { source, .. } => source.size(),
            Self::RollBack | Self::Proven | Self::Forget => 0,
        }
    }
}

/// What a plugin was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its file.
    pub bytes: Arc<[u8]>,
    /// Its sidecar, if there was one.
    pub sidecar: Option<Arc<[u8]>>,
}

impl Source {
    fn size(&self) -> usize {
        self.bytes.len() + self.sidecar.as_ref().map_or(0, |sidecar| sidecar.len())
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    runs: Kept,
    /// What ran before it, for as long as it may be rolled back.
    before: Option<Kept>,
    /// What failed and was rolled back; its bytes are not kept.
    failed: Option<Kept>,
}

/// What is known of a version of a plugin of which nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Unknown,
    /// There is one that ran before it.
    After,
    /// It was rolled back.
    Failed,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    sha256: String,
    /// Text: nothing else is read as a sidecar.
    sidecar: Option<String>,
}

impl LastGood {
    /// Inside `state_dir`. Nothing is made before it is needed.
    pub fn new(state_dir: &Path) -> Self {
        Self {
            dir: state_dir.join("plugins"),
            said: AtomicBool::new(false),
            queue: Mutex::default(),
            disk: Mutex::default(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a change in, without waiting. True: [`LastGood::write`] is to be called, off the runtime's own threads.
    #[must_use]
    pub fn queued(&self, name: &Arc<str>, change: Change) -> bool {
        let mut queue = self.queue();
        let bytes = queue.bytes + change.size();
        if queue.changes.len() >= QUEUED_MAX || bytes > QUEUED_BYTES_MAX {
            drop(queue);
            self.done(Err(io::Error::new(io::ErrorKind::TimedOut, "the disk is too slow")));
            return false;
        }
        queue.bytes = bytes;
        queue.changes.push_back((name.clone(), change));
        !std::mem::replace(&mut queue.asked, true)
    }

    /// Writes all that is queued.
    pub fn write(&self) {
        let _disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_all();
    }

    /// By whoever is at the disk.
    fn write_all(&self) {
        loop {
            let mut queue = self.queue();
            let Some((name, change)) = queue.changes.pop_front() else {
                queue.asked = false;
                return;
            };
            queue.bytes -= change.size();
            drop(queue);
            match change {
                Change::Save { source, before } => self.save(&name, &source, before.as_deref()),
                Change::RollBack => self.roll_back(&name),
                Change::Proven => self.proven(&name),
                Change::Forget => self.forget(&name),
            }
        }
    }

    /// A version runs now, in place of `before`.
    fn save(&self, name: &str, source: &Source, before: Option<&str>) {
        let sha256 = digest(&source.bytes).to_string();
        let runs = Kept { sha256: sha256.clone(), sidecar: text_of(source.sidecar.as_deref()) };
        let outcome = fs::create_dir_all(&self.dir)
            .and_then(|()| {
                let path = self.bytes(&sha256);
                if path.exists() { Ok(()) } else { write(&path, &source.bytes) }
            })
            .and_then(|()| {
                // With the sidecar that it ran with.
                let note = self.read_note(name);
                let before = match before {
                    Some(before) => note.map(|note| note.runs).filter(|ran| *before == *ran.sha256),
                    None => note.and_then(|note| note.before_a_start_of(&runs)),
                };
                self.note(name, &Note { runs, before, failed: None })
            });
        self.done(outcome);
    }

    /// The version before the last runs again.
    fn roll_back(&self, name: &str) {
        let outcome = match self.read_note(name) {
            Some(Note { before: Some(runs), runs: failed, .. }) => {
                self.note(name, &Note { runs, before: None, failed: Some(failed) })
            }
            Some(_) | None => Ok(()),
        };
        self.done(outcome);
    }

    fn proven(&self, name: &str) {
        let outcome = match self.read_note(name) {
            Some(Note { before: Some(_), runs, failed }) => {
                self.note(name, &Note { runs, before: None, failed })
            }
            Some(_) | None => Ok(()),
        };
        self.done(outcome);
    }

    /// What is known of a version, as far as it was written. Waits for nobody who is at the disk.
    pub fn standing(&self, name: &str, sha256: &str, sidecar: Option<&[u8]>) -> Standing {
        let Some(note) = self.read_note(name) else { return Standing::Unknown };
        let version = Kept { sha256: sha256.to_owned(), sidecar: text_of(sidecar) };
        if note.failed.as_ref() == Some(&version) {
            return Standing::Failed;
        }
        if note.before_a_start_of(&version).is_some() { Standing::After } else { Standing::Unknown }
    }

    /// What last ran, if its bytes are still what they were. What is queued is written first.
    pub fn load(&self, name: &str) -> Option<Source> {
        self.load_as(name, |note| Some(note.runs))
    }

    /// What ran before the last that ran, likewise.
    pub fn load_before(&self, name: &str) -> Option<Source> {
        self.load_as(name, |note| note.before)
    }

    fn load_as(&self, name: &str, which: impl FnOnce(Note) -> Option<Kept>) -> Option<Source> {
        let _disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_all();
        let Kept { sha256, sidecar } = which(self.read_note(name)?)?;
        let bytes = fs::read(self.bytes(&sha256)).ok()?;
        let sidecar = sidecar.map(|text| text.into_bytes().into());
        (*digest(&bytes) == *sha256).then(|| Source { bytes: bytes.into(), sidecar })
    }

    /// The plugin was unloaded.
    fn forget(&self, name: &str) {
        let outcome = match fs::remove_file(self.note_path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.and_then(|()| self.sweep()),
        };
        self.done(outcome);
    }

    fn note(&self, name: &str, note: &Note) -> io::Result<()> {
        let text = serde_json::to_vec(note).map_err(io::Error::other)?;
        write(&self.note_path(name), &text)?;
        self.sweep()
    }

    fn read_note(&self, name: &str) -> Option<Note> {
        serde_json::from_slice(&fs::read(self.note_path(name)).ok()?).ok()
    }

    /// Bytes that no note names are removed.
    fn sweep(&self) -> io::Result<()> {
        let (mut wanted, mut there) = (BTreeSet::new(), Vec::new());
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            match path.extension().and_then(|ending| ending.to_str()) {
                Some("json") => {
                    if let Ok(note) = serde_json::from_slice::<Note>(&fs::read(&path)?) {
                        wanted
                            .extend([Some(note.runs), note.before].into_iter().flatten().map(|it| it.sha256));
                    }
                }
                Some("wasm") => there.push(path),
                Some(_) | None => {}
            }
        }
        for path in there {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if !wanted.contains(stem) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn bytes(&self, sha256: &str) -> PathBuf {
        self.dir.join(format!("{sha256}.wasm"))
    }

    fn note_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }

    fn done(&self, outcome: io::Result<()>) {
        if let Err(error) = outcome
            && !self.said.swap(true, Ordering::Relaxed)
        {
            let dir = self.dir.display();
            tracing::warn!(%dir, %error, "last good plugins cannot be kept; a restart runs only what is in the folder");
        }
    }
}

impl Note {
    /// The version before `version`, when that one starts where nothing runs: what last ran, or, where that was the
    /// same version and still in its probation, what ran before it.
    fn before_a_start_of(self, version: &Kept) -> Option<Kept> {
        if self.runs == *version { self.before } else { Some(self.runs) }
    }
}

fn text_of(sidecar: Option<&[u8]>) -> Option<String> {
    sidecar.map(|text| String::from_utf8_lossy(text).into_owned())
}

/// Whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, bytes)?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests;
