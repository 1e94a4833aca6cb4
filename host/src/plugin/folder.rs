//! The plugins folder as it is right now. Blocking; called off the runtime's own threads.
//!
//! Links are followed: what counts is the file behind them, which is how a mounted configuration swaps all
//! its files at once.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::rejection::Rejection;
use crate::config::{BadSidecar, SIDECAR_MAX};
use crate::files::{Signature, inode};

/// Plugin files looked at; further ones, in name order, are left out.
const FILES_MAX: usize = 256;

/// Of a folder. The number of one that was deleted is soon given to another, so its time of birth is mixed in.
fn identity(metadata: &Metadata) -> (u64, u64) {
    let (device, inode) = inode(metadata);
    let born = metadata.created().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let born = born.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0);
    (device, inode ^ born)
}

/// What is beside each other for one plugin: the file and its sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// None: not readable.
    file: Option<Signature>,
    /// None: not there. The inner none: there, and not readable, as a link that leads nowhere.
    sidecar: Option<Option<Signature>>,
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
    /// Another one means that the folder was replaced.
    pub identity: (u64, u64),
    /// In name order. A sidecar of nothing is one that is refused.
    pub files: Vec<Found>,
    /// Plugin files that were left out because there are too many.
    pub left_out: usize,
}

/// Looks at the folder.
///
/// # Errors
/// It is not there or cannot be listed.
pub fn scan(dir: &Path) -> io::Result<Scan> {
    let identity = identity(&fs::metadata(dir)?);
    let (mut names, mut sidecars) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let lossy = name.to_string_lossy().into_owned();
        if lossy.starts_with('.') {
            continue;
        }
        // Compiled code is listed only to be refused.
        if ends_in(&lossy, &["wasm", "cwasm"]) {
            names.push(lossy);
        } else if ends_in(&lossy, &["yaml", "yml"]) {
            sidecars.push(lossy);
        }
    }
    let stems: BTreeSet<&str> = names.iter().map(|file| stem(file)).collect();
    sidecars.retain(|file| !(file.ends_with(".yaml") && stems.contains(stem(file))));
    let mut left_out = 0;
    for list in [&mut names, &mut sidecars] {
        list.sort();
        left_out += list.len().saturating_sub(FILES_MAX);
        list.truncate(FILES_MAX);
    }
    let mut files: Vec<Found> = Vec::with_capacity(names.len() + sidecars.len());
    for file in names {
        let found = found(dir, &file, &files);
        files.push(found);
    }
    files.extend(sidecars.iter().map(|file| alone(dir, file)));
    files.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(Scan { identity, files, left_out })
}

fn ends_in(file: &str, endings: &[&str]) -> bool {
    file.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty() && endings.iter().any(|known| ending.eq_ignore_ascii_case(known))
    })
}

fn stem(file: &str) -> &str {
    file.rsplit_once('.').map_or(file, |(stem, _)| stem)
}

/// A sidecar that belongs to no plugin: what it says counts for nothing, which its operator should know.
fn alone(dir: &Path, file: &str) -> Found {
    let path = dir.join(file);
    let text = if file.ends_with(".yaml") {
        format!("expected `{}.wasm` beside it; alone it says nothing", stem(file))
    } else {
        format!("expected the name `{}.yaml`; only so it is the sidecar of a plugin", stem(file))
    };
    let signature = fs::metadata(&path).ok().map(|metadata| Signature::of(&metadata));
    Found {
        name: stem(file).into(),
        file: file.into(),
        path,
        sidecar: None,
        fingerprint: Fingerprint { file: signature, sidecar: None },
        refused: Some(Rejection::SidecarAlone(text)),
    }
}

/// One file, as a scan of its folder would find it. None: a scan would not see a file of this name.
pub fn one(path: &Path) -> Option<Found> {
    let file = path.file_name()?.to_string_lossy().into_owned();
    if file.starts_with('.') || !ends_in(&file, &["wasm", "cwasm"]) {
        return None;
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(found(dir, &file, &[]))
}

fn found(dir: &Path, file: &str, before: &[Found]) -> Found {
    let (stem, ending) = file.rsplit_once('.').unwrap_or((file, ""));
    let path = dir.join(file);
    let sidecar = dir.join(format!("{stem}.yaml"));
    let signature = |path: &Path| fs::metadata(path).ok().map(|metadata| Signature::of(&metadata));
    let beside = fs::symlink_metadata(&sidecar).is_ok();
    let fingerprint = Fingerprint { file: signature(&path), sidecar: beside.then(|| signature(&sidecar)) };
    let refused = if ending.eq_ignore_ascii_case("cwasm") {
        Some(Rejection::Precompiled)
    } else {
        name_refused(stem, file, before)
    };
    Found {
        name: stem.into(),
        file: file.into(),
        path,
        sidecar: beside.then_some(sidecar),
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

/// Reads a plugin file whole.
///
/// # Errors
/// [`NotRead`].
pub fn read(found: &Found, max: u64) -> Result<Vec<u8>, NotRead> {
    let seen = found.fingerprint.file.as_ref();
    read_as_seen(&found.path, seen, max).map_err(|error| match error {
        NotWhole::Changed => NotRead::Changed,
        NotWhole::TooLarge(size) => NotRead::Refused(Rejection::TooLarge { size, max }),
        NotWhole::Io(text) => NotRead::Refused(Rejection::Read(text)),
    })
}

/// Reads the sidecar of a plugin whole; none: there is none.
///
/// # Errors
/// [`NotRead`].
pub fn read_sidecar(found: &Found) -> Result<Option<Vec<u8>>, NotRead> {
    let Some(path) = &found.sidecar else { return Ok(None) };
    let seen = found.fingerprint.sidecar.as_ref().and_then(Option::as_ref);
    let bytes = read_as_seen(path, seen, SIDECAR_MAX).map_err(|error| {
        let text = match error {
            NotWhole::Changed => return NotRead::Changed,
            NotWhole::TooLarge(_) => format!("is larger than {SIDECAR_MAX} bytes"),
            NotWhole::Io(text) => format!("cannot be read: {text}"),
        };
        NotRead::Refused(Rejection::Sidecar(Box::new(BadSidecar::unreadable(path, text).errors)))
    })?;
    Ok(Some(bytes))
}

enum NotWhole {
    Changed,
    TooLarge(u64),
    Io(String),
}

/// The bytes of a file that is, before and after, as the scan saw it.
fn read_as_seen(path: &Path, seen: Option<&Signature>, max: u64) -> Result<Vec<u8>, NotWhole> {
    let fail = |error: io::Error| NotWhole::Io(error.to_string());
    let metadata = fs::metadata(path).map_err(fail)?;
    if !metadata.is_file() {
        return Err(NotWhole::Io("it is not a regular file".into()));
    }
    let before = Signature::of(&metadata);
    if Some(&before) != seen {
        return Err(NotWhole::Changed);
    }
    if before.size() > max {
        return Err(NotWhole::TooLarge(before.size()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.size()).unwrap_or(0));
    let file = File::open(path).map_err(fail)?;
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(fail)?;
    let after = fs::metadata(path).map_err(fail)?;
    if Signature::of(&after) != before || u64::try_from(bytes.len()).ok() != Some(before.size()) {
        return Err(NotWhole::Changed);
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
