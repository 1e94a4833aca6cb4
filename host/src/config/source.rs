//! From a path to text. What goes wrong here is class `read`: a file that is missing, half written or
//! no text at all, as opposed to one with mistakes in it. What was read is remembered by its digest, so that
//! a reload can tell what changed from what was only written again.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::finding::{ConfigErrors, ErrorClass, Finding, Pos, WHOLE_FILE};

/// Largest file that is read, bytes. A configuration of thousands of targets is a tenth of it.
const MAX_FILE: u64 = 4 << 20;

/// The text of the file at `path`, noted in `sources`.
pub(super) fn read(path: &Path, sources: &mut Sources) -> Result<String, ConfigErrors> {
    let refuse = |finding| ConfigErrors::one(path, ErrorClass::Read, finding);
    let read = sources.read(path, MAX_FILE);
    let bytes = read.map_err(|text| refuse(Finding::of_file(text)))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = end_of(&String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]));
        refuse(Finding::new(at, WHOLE_FILE, "is not UTF-8 from here on"))
    })
}

/// What a configuration was read from: the file itself and every file that it refers to, each with the digest
/// of what was there. Two that are equal lead to the same configuration, or to the same mistakes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sources(BTreeMap<PathBuf, [u8; 32]>);

impl Sources {
    /// Every file, also those that could not be read: they may come.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Whether a file was the same in both, absent from both included.
    #[must_use]
    pub fn agree_on(&self, other: &Self, path: &Path) -> bool {
        self.0.get(path) == other.0.get(path)
    }

    /// Adds what else was read.
    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Reads a file and remembers what it was.
    pub(super) fn read(&mut self, path: &Path, limit: u64) -> Result<Vec<u8>, String> {
        let read = read_bounded(path, limit);
        let (kind, bytes) = match &read {
            Ok(bytes) => ([1], bytes.as_slice()),
            Err(text) => ([0], text.as_bytes()),
        };
        let digest = Sha256::new().chain_update(kind).chain_update(bytes).finalize();
        self.0.insert(path.to_owned(), digest.into());
        read
    }
}

/// Digests of secrets are nobody's business either.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The bytes of a file of at most `limit`, or why not, in words without the path.
fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let why = |error: std::io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(why)?;
    if file.metadata().map_err(why)?.is_dir() {
        return Err("cannot be read: it is a folder".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(why)?;
    if bytes.len() as u64 > limit {
        return Err(format!("is larger than {limit} bytes"));
    }
    Ok(bytes)
}

/// The place behind the last character of `text`, counting lines as YAML does.
fn end_of(text: &str) -> Pos {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let last = text.rsplit('\n').next().unwrap_or_default();
    Pos { line: text.matches('\n').count() + 1, column: last.chars().count() + 1 }
}
