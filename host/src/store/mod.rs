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

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Records;
use crate::telemetry::Telemetry;
use database::Address;
use writer::Writer;

pub use database::StoreError;
pub use query::{Filter, find};

/// A store that takes what telemetry has for it.
#[derive(Debug)]
pub struct Store {
    telemetry: Telemetry,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Store {
    /// Starts taking records. The database need not be there: until it is, they go to the spool. To be called
    /// within a runtime; one store at a time for each telemetry.
    ///
    /// # Errors
    /// Only an address that is none.
    pub fn start(records: &Records, telemetry: &Telemetry) -> Result<Self, StoreError> {
        let address = Address::of(&records.place)?;
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        telemetry.records().open();
        let writer = Writer::new(records, address, telemetry.clone(), closing.clone());
        tasks.spawn(writer.run());
        tasks.close();
        Ok(Self { telemetry: telemetry.clone(), tasks, closing })
    }

    /// Whether a store could be started with this.
    ///
    /// # Errors
    /// As [`Store::start`].
    pub fn rehearse(records: &Records) -> Result<(), StoreError> {
        Address::of(&records.place).map(drop)
    }

    /// Takes what is queued, into the database or else the spool, and nothing more; at most eight seconds. What could
    /// not be kept is counted and logged.
    pub async fn close(self) {
        self.telemetry.records().close();
        self.closing.cancel();
        // The task keeps its own, shorter limits; one that hangs at the disk is left to the end of the process.
        let _ = tokio::time::timeout(2 * writer::LAST, self.tasks.wait()).await;
    }
}

impl Drop for Store {
    /// A store that nobody closed ends all the same.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
