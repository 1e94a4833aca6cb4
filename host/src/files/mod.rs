//! Files that others change while the gateway runs: what tells one state of a file from another, and hints that
//! there may be another. Shared by the plugins folder and the configuration, which decide what to make of it.

mod events;

use std::fs::Metadata;
use std::time::SystemTime;

pub use events::Events;

/// Tells one state of a file from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    inode: (u64, u64),
    size: u64,
    modified: Option<SystemTime>,
    changed: (i64, i64),
}

impl Signature {
    /// That of the file behind every link.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            inode: inode(metadata),
            size: metadata.len(),
            modified: metadata.modified().ok(),
            changed: changed(metadata),
        }
    }

    /// Bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }
}

/// Device and inode: another one means that a file or folder was replaced.
#[cfg(unix)]
pub fn inode(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(unix)]
fn changed(metadata: &Metadata) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Not known on this system.
#[cfg(not(unix))]
pub fn inode(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> (i64, i64) {
    (0, 0)
}
