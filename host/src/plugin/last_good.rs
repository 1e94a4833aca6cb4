//! The bytes of what last ran, kept on disk, so that a restart with a bad file in the folder still runs
//! what ran before. Bytes lie under their digest; a small file for each plugin says which are its.
//!
//! A folder that cannot be written is said once, and done without. Blocking.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::compiled::digest;

/// Where the bytes lie.
#[derive(Debug)]
pub struct LastGood {
    dir: PathBuf,
    said: AtomicBool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    sha256: String,
    /// What ran before it, for as long as it may be rolled back.
    before: Option<String>,
}

impl LastGood {
    /// Inside `state_dir`. Nothing is made before it is needed.
    pub fn new(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("plugins"), said: AtomicBool::new(false) }
    }

    /// A version runs now, in place of `before`.
    pub fn save(&self, name: &str, bytes: &[u8], before: Option<&str>) {
        let sha256 = digest(bytes).to_string();
        let outcome = fs::create_dir_all(&self.dir)
            .and_then(|()| {
                let path = self.bytes(&sha256);
                if path.exists() { Ok(()) } else { write(&path, bytes) }
            })
            .and_then(|()| self.note(name, Note { sha256, before: before.map(str::to_owned) }));
        self.done(outcome);
    }

    /// The version before the last runs again.
    pub fn roll_back(&self, name: &str) {
        let outcome = match self.read_note(name) {
            Some(Note { before: Some(sha256), .. }) => self.note(name, Note { sha256, before: None }),
            Some(_) | None => Ok(()),
        };
        self.done(outcome);
    }

    /// The bytes that last ran, if they are still what they were.
    pub fn load(&self, name: &str) -> Option<Vec<u8>> {
        let note = self.read_note(name)?;
        let bytes = fs::read(self.bytes(&note.sha256)).ok()?;
        (*digest(&bytes) == *note.sha256).then_some(bytes)
    }

    /// The plugin was unloaded.
    pub fn forget(&self, name: &str) {
        let outcome = match fs::remove_file(self.note_path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.and_then(|()| self.sweep()),
        };
        self.done(outcome);
    }

    fn note(&self, name: &str, note: Note) -> io::Result<()> {
        let text = serde_json::to_vec(&note).map_err(io::Error::other)?;
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
                        wanted.extend([Some(note.sha256), note.before].into_iter().flatten());
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

/// Whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, bytes)?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn what_last_ran_comes_back_and_what_nothing_names_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let kept = LastGood::new(dir.path());
        assert_eq!(kept.load("a"), None);
        kept.save("a", b"one", None);
        kept.save("b", b"two", None);
        kept.save("a", b"three", Some(&digest(b"one")));
        assert_eq!(kept.load("a").as_deref(), Some(&b"three"[..]));
        kept.roll_back("a");
        assert_eq!(kept.load("a").as_deref(), Some(&b"one"[..]));
        kept.forget("b");
        assert_eq!(kept.load("b"), None);
        let names: BTreeSet<String> = fs::read_dir(dir.path().join("plugins"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, BTreeSet::from(["a.json".into(), format!("{}.wasm", digest(b"one"))]));
    }

    #[test]
    fn bytes_that_were_changed_on_disk_are_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let kept = LastGood::new(dir.path());
        kept.save("a", b"one", None);
        fs::write(dir.path().join("plugins").join(format!("{}.wasm", digest(b"one"))), b"evil").unwrap();
        assert_eq!(kept.load("a"), None);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_done_without() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        let kept = LastGood::new(&file);
        kept.save("a", b"one", None);
        kept.forget("a");
        assert_eq!(kept.load("a"), None);
    }
}
