//! Records on disk while the database is away: files of one line a record, written at the end, read from the
//! beginning. Blocking.
//!
//! What [`Spool::append`] took is on disk when it returns: written, and asked of the disk with `fdatasync`. A file
//! goes once every line of it was passed on, and what was passed on from a file that is still there is passed on
//! again after a crash; the database knows what it has. Files of a process before are read and never written to, so
//! that a line torn by a crash stands at an end and spoils no other. One process has the folder, by a lock that the
//! system takes back when the process is gone.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::line::Line;

/// A file that is longer is followed by another.
const FILE_BYTES: u64 = 4 << 20;
/// Read at once. More than any line has.
const READ_BYTES: usize = 1 << 20;
const LOCK: &str = "lock";

/// Why there is no spool.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpoolError {
    /// Another process has it.
    #[error("{0} is in use by another process")]
    Held(PathBuf),
    /// The folder cannot be used.
    #[error("{path}: {error}")]
    Io {
        /// The folder, or a file in it.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// The spool. Its lock is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Spool {
    dir: PathBuf,
    max: u64,
    /// Oldest first.
    files: VecDeque<Segment>,
    /// The last of `files`, if it may still be written to.
    open: Option<File>,
    /// So many bytes of the first file are passed on.
    passed: u64,
    next_number: u64,
    _lock: File,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    /// Bytes that count; behind them there may be the rest of a write that failed.
    bytes: u64,
    /// Lines that are not passed on.
    lines: u64,
}

/// What is read next.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Records, in the order in which they came.
    pub lines: Vec<Line>,
    /// Lines that are no records: torn, or not ours.
    pub unreadable: u64,
    /// Where they end in the first file.
    end: u64,
}

impl Spool {
    /// Takes the folder, with what is in it. `max` is in bytes.
    pub(super) fn open(dir: &Path, max: u64) -> Result<Self, SpoolError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| SpoolError::Io { path, error }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at(dir))?;
        let path = dir.join(LOCK);
        let lock = private().create(true).truncate(false).write(true).open(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SpoolError::Held(dir.to_owned())),
            Err(TryLockError::Error(error)) => return Err(at(&path)(error)),
        }
        let mut numbers = Vec::new();
        for entry in fs::read_dir(dir).map_err(at(dir))? {
            numbers.extend(number_of(&entry.map_err(at(dir))?.path()));
        }
        numbers.sort_unstable();
        let next_number = numbers.last().map_or(1, |last| last + 1);
        let mut files = VecDeque::new();
        for number in numbers {
            let path = dir.join(name_of(number));
            let (bytes, lines) = measure(&path).map_err(at(&path))?;
            files.push_back(Segment { number, bytes, lines });
        }
        let mut spool =
            Self { dir: dir.to_owned(), max, files, open: None, passed: 0, next_number, _lock: lock };
        spool.drop_passed();
        Ok(spool)
    }

    /// Puts lines behind the others, as many as there is room for, and gives their number: they are on disk then.
    pub(super) fn append(&mut self, lines: &[Line]) -> io::Result<usize> {
        let mut room = self.max.saturating_sub(self.files.iter().map(|file| file.bytes).sum());
        let mut text = Vec::new();
        let mut count = 0;
        for line in lines {
            let bytes = line.text().len() as u64 + 1;
            if bytes > room {
                break;
            }
            room -= bytes;
            text.extend_from_slice(line.text().as_bytes());
            text.push(b'\n');
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        self.roll()?;
        let (Some(file), Some(segment)) = (&mut self.open, self.files.back_mut()) else { return Ok(0) };
        match file.write_all(&text).and_then(|()| file.sync_data()) {
            Ok(()) => {
                segment.bytes += text.len() as u64;
                segment.lines += count as u64;
                Ok(count)
            }
            Err(error) => {
                // What was written of it must not stand in front of what comes next.
                let cut =
                    file.set_len(segment.bytes).and_then(|()| file.seek(SeekFrom::Start(segment.bytes)));
                if cut.is_err() {
                    self.open = None;
                }
                Err(error)
            }
        }
    }

    /// The oldest lines, at most so many. Nothing is passed on by looking.
    pub(super) fn peek(&self, most: usize) -> io::Result<Chunk> {
        let Some(first) = self.files.front() else { return Ok(Chunk::default()) };
        let mut file = File::open(self.dir.join(name_of(first.number)))?;
        file.seek(SeekFrom::Start(self.passed))?;
        let left = first.bytes.saturating_sub(self.passed);
        let mut bytes = Vec::new();
        file.take(left.min(READ_BYTES as u64)).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < left.min(READ_BYTES as u64) {
            // Somebody cut the file while we had it. What is gone is gone; what is there has its turn.
            return Ok(Chunk { end: first.bytes, ..cut(&bytes, usize::MAX, true) });
        }
        let mut chunk = cut(&bytes, most, bytes.len() as u64 == left);
        chunk.end += self.passed;
        Ok(chunk)
    }

    /// The lines of `chunk`, which must be the last that was looked at, are safe elsewhere. Gives the number of
    /// records that were in a file once and are not any more.
    pub(super) fn pass(&mut self, chunk: &Chunk) -> u64 {
        if let Some(first) = self.files.front_mut() {
            let lines = chunk.lines.len() as u64 + chunk.unreadable;
            first.lines = first.lines.saturating_sub(lines);
            self.passed = chunk.end;
        }
        self.drop_passed() + chunk.unreadable
    }

    /// The first file cannot be read: it is left out, where it is, and the number of its records given.
    pub(super) fn skip_first(&mut self) -> u64 {
        self.passed = 0;
        if self.files.len() == 1 {
            self.open = None;
        }
        self.files.pop_front().map_or(0, |file| file.lines)
    }

    /// From now on there may be so many bytes.
    pub(super) fn set_max(&mut self, max: u64) {
        self.max = max;
    }

    /// Lines that wait.
    pub(super) fn lines(&self) -> u64 {
        self.files.iter().map(|file| file.lines).sum()
    }

    /// Nothing is left to be read.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Removes the first files as far as all of them is passed on, and gives the number of records that should have
    /// been in them.
    fn drop_passed(&mut self) -> u64 {
        let mut missing = 0;
        while let Some(first) = self.files.pop_front_if(|first| self.passed >= first.bytes) {
            self.passed = 0;
            missing += first.lines;
            if self.files.is_empty() {
                self.open = None;
            }
            // One that stays is read again by the next process, and the database knows what it has.
            let _ = fs::remove_file(self.dir.join(name_of(first.number)));
        }
        missing
    }

    /// Makes sure that there is a file to write to.
    fn roll(&mut self) -> io::Result<()> {
        let full = self.files.back().is_none_or(|last| last.bytes >= FILE_BYTES);
        if self.open.is_some() && !full {
            return Ok(());
        }
        self.open = None;
        let number = self.next_number;
        let file = private().create_new(true).append(true).open(self.dir.join(name_of(number)))?;
        self.next_number += 1;
        // The name of the file must be on disk as well.
        if let Err(error) = File::open(&self.dir).and_then(|dir| dir.sync_all()) {
            let _ = fs::remove_file(self.dir.join(name_of(number)));
            return Err(error);
        }
        self.files.push_back(Segment { number, bytes: 0, lines: 0 });
        self.open = Some(file);
        Ok(())
    }
}

/// Records say who asked for what: for this user alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn name_of(number: u64) -> String {
    format!("{number:012}.jsonl")
}

fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let number = name.strip_suffix(".jsonl")?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

/// Bytes and lines of a file, one without its end included.
fn measure(path: &Path) -> io::Result<(u64, u64)> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut bytes, mut lines, mut whole) = (0, 0, true);
    loop {
        let read = file.read(&mut buffer)?;
        let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
        bytes += read as u64;
        lines += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        whole = part.ends_with(b"\n");
    }
    Ok((bytes, lines + u64::from(!whole)))
}

/// Takes `bytes` apart, at most `most` lines of it. `last`: nothing comes behind them, so that an end without a
/// line feed is a torn line.
fn cut(bytes: &[u8], most: usize, last: bool) -> Chunk {
    let mut chunk = Chunk::default();
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        if chunk.lines.len() >= most {
            break;
        }
        match piece.strip_suffix(b"\n") {
            Some(line) => match Line::read(line) {
                Some(line) => chunk.lines.push(line),
                None => chunk.unreadable += 1,
            },
            // The rest of a line that is longer than any of ours counts as one more.
            None if last || chunk.end == 0 => chunk.unreadable += 1,
            None => break,
        }
        chunk.end += piece.len() as u64;
    }
    chunk
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop where it fails")]
mod tests;
