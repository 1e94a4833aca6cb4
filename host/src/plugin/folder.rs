//! The plugins folder as it is right now. Blocking; called off the runtime's own threads.
//!
//! Links are followed: what counts is the file behind them, which is how a mounted configuration swaps all
//! its files at once.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::rejection::Rejection;
use crate::files::{Signature, inode};

/// Plugin files looked at; further ones, in name order, are left out.
const FILES_MAX: usize = 256;

/// What is beside each other for one plugin: the file and its sidecar. None: not there, or not readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    file: Option<Signature>,
    sidecar: Option<Signature>,
}

/// A plugin file.
#[derive(Debug, Clone)]
pub struct Found {
    /// File name without its ending.
    pub name: Arc<str>,
    /// File name.
    pub file: Arc<str>,
    /// Where.
    pub path: PathBuf,
    /// Its sidecar, if there is one.
    pub sidecar: Option<PathBuf>,
    /// Its state.
    pub fingerprint: Fingerprint,
    /// It cannot be used whatever is in it.
    pub refused: Option<Rejection>,
}

/// The folder.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Device and inode: another one means that the folder was replaced.
    pub identity: (u64, u64),
    /// In name order.
    pub files: Vec<Found>,
    /// Plugin files that were left out because there are too many.
    pub left_out: usize,
}

/// Looks at the folder.
///
/// # Errors
/// It is not there or cannot be listed.
pub fn scan(dir: &Path) -> io::Result<Scan> {
    let identity = inode(&fs::metadata(dir)?);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let lossy = name.to_string_lossy().into_owned();
        if !lossy.starts_with('.') && ending(&lossy).is_some() {
            names.push(lossy);
        }
    }
    names.sort();
    let left_out = names.len().saturating_sub(FILES_MAX);
    names.truncate(FILES_MAX);
    let mut files: Vec<Found> = Vec::with_capacity(names.len());
    for file in names {
        let found = found(dir, &file, &files);
        files.push(found);
    }
    Ok(Scan { identity, files, left_out })
}

/// One file, as a scan of its folder would find it. None: a scan would not see a file of this name.
pub fn one(path: &Path) -> Option<Found> {
    let file = path.file_name()?.to_string_lossy().into_owned();
    if file.starts_with('.') || ending(&file).is_none() {
        return None;
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(found(dir, &file, &[]))
}

/// The ending of a plugin file: `wasm`, or `cwasm`, which is listed only to be refused.
fn ending(file: &str) -> Option<&str> {
    let (stem, ending) = file.rsplit_once('.')?;
    let known = ending.eq_ignore_ascii_case("wasm") || ending.eq_ignore_ascii_case("cwasm");
    (known && !stem.is_empty()).then_some(ending)
}

fn found(dir: &Path, file: &str, before: &[Found]) -> Found {
    let (stem, ending) = file.rsplit_once('.').unwrap_or((file, ""));
    let path = dir.join(file);
    let sidecar = dir.join(format!("{stem}.yaml"));
    let signature = |path: &Path| fs::metadata(path).ok().map(|metadata| Signature::of(&metadata));
    let fingerprint = Fingerprint { file: signature(&path), sidecar: signature(&sidecar) };
    let refused = if ending.eq_ignore_ascii_case("cwasm") {
        Some(Rejection::Precompiled)
    } else {
        name_refused(stem, file, before)
    };
    Found {
        name: stem.into(),
        file: file.into(),
        path,
        sidecar: fingerprint.sidecar.is_some().then_some(sidecar),
        fingerprint,
        refused,
    }
}

fn name_refused(stem: &str, file: &str, before: &[Found]) -> Option<Rejection> {
    let fits =
        stem.len() <= 64 && stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !fits {
        return Some(Rejection::NameConflict(
            "expected a file name of 1 to 64 of A-Z a-z 0-9 . _ - before the ending".into(),
        ));
    }
    let other = before.iter().find(|other| *other.name == *stem && other.refused.is_none())?;
    Some(Rejection::NameConflict(format!(
        "`{}` already has the name `{stem}`, so `{file}` cannot",
        other.file
    )))
}

/// Reads a file whole.
///
/// # Errors
/// [`NotRead`].
pub fn read(found: &Found, max: u64) -> Result<Vec<u8>, NotRead> {
    let refuse = |error: &io::Error| NotRead::Refused(Rejection::Read(error.to_string()));
    let metadata = fs::metadata(&found.path).map_err(|error| refuse(&error))?;
    if !metadata.is_file() {
        return Err(NotRead::Refused(Rejection::Read("it is not a regular file".into())));
    }
    let before = Signature::of(&metadata);
    if Some(&before) != found.fingerprint.file.as_ref() {
        return Err(NotRead::Changed);
    }
    if before.size() > max {
        return Err(NotRead::Refused(Rejection::TooLarge { size: before.size(), max }));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.size()).unwrap_or(0));
    let file = File::open(&found.path).map_err(|error| refuse(&error))?;
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| refuse(&error))?;
    let after = fs::metadata(&found.path).map_err(|error| refuse(&error))?;
    if Signature::of(&after) != before || u64::try_from(bytes.len()).ok() != Some(before.size()) {
        return Err(NotRead::Changed);
    }
    Ok(bytes)
}

/// Why there are no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRead {
    /// The file changes while it is read: look again.
    Changed,
    /// It cannot be read.
    Refused(Rejection),
}

#[cfg(test)]
mod tests;
