//! A connection to the store, whichever it is. What differs between the two is in `sqlite` and `postgres`: how to
//! connect, and how to say the same few things.

use std::path::PathBuf;
use std::time::SystemTime;

use secrecy::{ExposeSecret, SecretString};
use sqlx::postgres::PgConnectOptions;

use super::line::{Line, array};
use super::postgres::Postgres;
use super::query::Filter;
use super::sqlite::Sqlite;
use crate::config::RecordPlace;

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// What should be its address is none. Says nothing of what was there.
    #[error("the PostgreSQL URL {0}; one looks like postgres://USER:PASSWORD@HOST/DATABASE")]
    Address(&'static str),
    /// There is no file to read from.
    #[error("{0} does not exist")]
    Missing(PathBuf),
    /// It cannot be used as it is now.
    #[error("{0}")]
    Away(String),
    /// It works, and does not take this.
    #[error("the database refuses a record: {0}")]
    Refused(String),
}

/// Where the store is, taken apart.
#[derive(Debug, Clone)]
pub(super) enum Address {
    Sqlite(PathBuf),
    /// Boxed: it is large, and rarely looked at.
    Postgres(Box<PgConnectOptions>),
}

impl Address {
    pub(super) fn of(place: &RecordPlace) -> Result<Self, StoreError> {
        match place {
            RecordPlace::Sqlite(path) => Ok(Self::Sqlite(path.clone())),
            RecordPlace::Postgres(url) => Self::of_url(&url.key),
        }
    }

    fn of_url(url: &SecretString) -> Result<Self, StoreError> {
        super::postgres::options(url.expose_secret()).map(|options| Self::Postgres(Box::new(options)))
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Makes what is not there.
    Write,
    /// Changes nothing.
    Read,
}

/// One connection.
pub(super) enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Database {
    /// Connects; to write, brings the tables up to date.
    pub(super) async fn open(address: &Address, purpose: Purpose) -> Result<Self, StoreError> {
        match address {
            Address::Sqlite(path) => Sqlite::open(path, purpose).await.map(Self::Sqlite),
            Address::Postgres(options) => Postgres::open(options, purpose).await.map(Self::Postgres),
        }
    }

    /// Writes all of the lines or none. A line that is there already stays as it is.
    pub(super) async fn insert(&mut self, lines: &[Line]) -> Result<(), StoreError> {
        let lines = array(lines);
        match self {
            Self::Sqlite(sqlite) => sqlite.insert(lines).await,
            Self::Postgres(postgres) => postgres.insert(lines).await,
        }
    }

    /// Deletes the oldest records that are older than `before`, a bounded number, and says whether there may be more.
    pub(super) async fn prune(&mut self, before: SystemTime) -> Result<bool, StoreError> {
        let deleted = match self {
            Self::Sqlite(sqlite) => sqlite.prune(micros(before), PRUNED).await?,
            Self::Postgres(postgres) => postgres.prune(micros(before), PRUNED).await?,
        };
        Ok(deleted >= PRUNED.unsigned_abs())
    }

    /// Records as JSON, newest first.
    pub(super) async fn find(&mut self, filter: &Filter) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.find(filter).await,
            Self::Postgres(postgres) => postgres.find(filter).await,
        }
    }

    /// Says goodbye, so that the other side need not find out.
    pub(super) async fn close(self) {
        match self {
            Self::Sqlite(sqlite) => sqlite.close().await,
            Self::Postgres(postgres) => postgres.close().await,
        }
    }
}

/// Deleted at once: a few milliseconds of work.
const PRUNED: i64 = 500;

/// The end of the year 9999, which both databases still know.
pub(super) const LAST: i64 = 253_402_300_799_999_999;

/// Microseconds since 1970, within what both databases know.
pub(super) fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(LAST).min(LAST)
}

/// Steps that bring tables from one version to the next. They only add, so that a process of the version before
/// can go on writing beside a newer one.
pub(super) type Migrations = &'static [&'static str];

/// The migrations that are still to be run on tables of `version`, with the versions that they make.
pub(super) fn pending(migrations: Migrations, version: i64) -> impl Iterator<Item = (i64, &'static str)> {
    (1..).zip(migrations.iter().copied()).skip(usize::try_from(version).unwrap_or(0))
}
