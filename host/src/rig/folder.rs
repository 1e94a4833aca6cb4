//! A folder that is gone when the demo is: for the plugins of a gateway and what it keeps of them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Removed with all that is in it when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder that only this user can look into.
    ///
    /// # Errors
    /// It could not be made.
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("sluice-{:016x}", fastrand::u64(..)));
        // Fails where something of this name is already there, whoever made it.
        DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Self(path);
        fs::create_dir(folder.plugins())?;
        Ok(folder)
    }

    /// Where plugins go.
    pub fn plugins(&self) -> PathBuf {
        self.0.join("plugins")
    }

    /// Where the gateway keeps what it needs.
    pub fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    /// Puts a plugin file in place as an operator does: written aside, then renamed, so that nobody sees half of it.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn put(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let aside = self.plugins().join(format!("{file}.new"));
        fs::write(&aside, bytes)?;
        fs::rename(aside, self.plugins().join(file))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A temporary folder that cannot be removed is left to the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}
