//! Looking records up: which, and how many.

use std::time::SystemTime;

use sluice_core::kind::Outcome;

use super::database::{Address, Database, Purpose, StoreError, micros};
use crate::config::RecordPlace;

/// Which records are wanted. All that is set must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Arrived at this time or later.
    pub since: Option<SystemTime>,
    /// Arrived before this time.
    pub until: Option<SystemTime>,
    /// The requested name.
    pub model: Option<String>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Its id.
    pub request_id: Option<String>,
    /// At most so many, the newest.
    pub limit: u32,
}

impl Filter {
    /// The range of time, microseconds since 1970: from (inclusive) and until (exclusive).
    pub(super) fn micros(&self) -> (i64, i64) {
        let until = self.until.map_or(i64::MAX, micros).min(super::database::LAST);
        (self.since.map_or(0, micros), until)
    }
}

/// The records of a store, as JSON, newest first. Changes nothing, also not where no record was ever written.
///
/// # Errors
/// The store is not there, or cannot be read.
pub async fn find(place: &RecordPlace, filter: &Filter) -> Result<Vec<String>, StoreError> {
    let address = Address::of(place)?;
    let mut database = Box::pin(Database::open(&address, Purpose::Read)).await?;
    let found = database.find(filter).await;
    database.close().await;
    found
}
