//! The store of records: from the queue of telemetry into SQLite or PostgreSQL, off the path of requests.
//!
//! Decides what is promised of a record and when: it is *acknowledged* once the database has committed it or the
//! spool has it on disk, and from then on it is in the store exactly once, as soon as the database can be reached,
//! whatever happens to this process. Until then it waits in memory, within the bounds of the queue; what finds no
//! room is dropped and counted. Nothing here is waited for by a request, and readiness does not ask.
//!
//! Does not decide what a record says, nor where it comes from.

mod database;
mod keep;
mod line;
mod link;
mod postgres;
mod query;
mod spool;
mod sqlite;
mod writer;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Records;
use crate::telemetry::Telemetry;
use database::Address;
use writer::Writer;

pub use database::StoreError;
pub use query::{Filter, find};

/// The store of a gateway, which comes, changes and goes with the configuration.
#[derive(Debug)]
pub struct Archive {
    telemetry: Telemetry,
    tasks: TaskTracker,
    running: Mutex<Option<Running>>,
}

/// The task that writes.
#[derive(Debug)]
struct Running {
    records: Records,
    settings: watch::Sender<Settings>,
    closing: CancellationToken,
}

/// What the task goes by.
#[derive(Debug, Clone)]
struct Settings {
    address: Address,
    records: Records,
}

impl Settings {
    fn of(records: &Records) -> Result<Self, StoreError> {
        Ok(Self { address: Address::of(&records.place)?, records: records.clone() })
    }
}

impl Archive {
    /// No store yet. One archive for each telemetry.
    pub fn new(telemetry: &Telemetry) -> Self {
        Self { telemetry: telemetry.clone(), tasks: TaskTracker::new(), running: Mutex::default() }
    }

    /// From now on this is the store; none: there is none. The database need not be there: until it is, records go to
    /// the spool. What waits for the store before goes to the new one; a spool is left for another once it is empty.
    /// To be called within a runtime.
    ///
    /// # Errors
    /// As [`Archive::rehearse`]; then nothing has changed.
    pub fn take(&self, records: Option<&Records>) -> Result<(), StoreError> {
        let settings = records.map(Settings::of).transpose()?;
        let mut running = self.lock();
        match (settings, running.as_mut()) {
            (None, None) => {}
            (None, Some(_)) => {
                self.telemetry.records().forget();
                // Its task writes what is queued, and ends.
                *running = None;
            }
            (Some(settings), Some(now)) if now.records != settings.records => {
                now.records = settings.records.clone();
                now.settings.send_replace(settings);
            }
            (Some(_), Some(_)) => {}
            (Some(settings), None) => {
                let closing = CancellationToken::new();
                let records = settings.records.clone();
                let (to, settings) = watch::channel(settings);
                self.telemetry.records().open();
                let writer = Writer::new(settings, self.telemetry.clone(), closing.clone());
                self.tasks.spawn(writer.run());
                *running = Some(Running { records, settings: to, closing });
            }
        }
        Ok(())
    }

    /// Whether a store could be started with this.
    ///
    /// # Errors
    /// An address that is none.
    pub fn rehearse(records: &Records) -> Result<(), StoreError> {
        Address::of(&records.place).map(drop)
    }

    /// Takes what is queued, into the database or else the spool, and nothing more; at most eight seconds. What could
    /// not be kept is counted and logged.
    pub async fn close(&self) {
        let running = self.lock().take();
        if running.is_some() {
            self.telemetry.records().close();
        }
        drop(running);
        self.tasks.close();
        // The task keeps its own, shorter limits; one that hangs at the disk is left to the end of the process.
        let _ = tokio::time::timeout(2 * writer::LAST, self.tasks.wait()).await;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    /// Also where nobody closes the archive.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
