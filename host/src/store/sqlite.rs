//! Records in a SQLite file. A write is on disk when it is done (`synchronous = FULL`): what was taken from the spool
//! may go from there.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};

use super::database::{Migrations, Purpose, StoreError, pending};
use super::query::Filter;

/// Another process may be writing; longer than any write of ours takes.
const BUSY: Duration = Duration::from_secs(4);

const MIGRATIONS: Migrations = &[include_str!("migrations/sqlite/1.sql")];
const IS_THERE: &str = "SELECT count(*) FROM sqlite_schema WHERE name = 'sluice_schema'";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM sluice_schema";
const BEGIN: &str = "BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS sluice_schema (version INTEGER PRIMARY KEY, applied TEXT DEFAULT CURRENT_TIMESTAMP)";
const APPLIED: &str = "INSERT INTO sluice_schema (version) VALUES (?1)";

const INSERT: &str = "INSERT INTO sluice_records (time_us, tie, record)
    SELECT value ->> 'time_us', value ->> 'tie', value -> 'record' FROM json_each(?1) WHERE true
    ON CONFLICT DO NOTHING";
const PRUNE: &str = "DELETE FROM sluice_records WHERE rowid IN
    (SELECT rowid FROM sluice_records WHERE time_us < ?1 ORDER BY time_us LIMIT ?2)";
const FIND: &str = "SELECT record FROM sluice_records
    WHERE time_us >= ?1 AND time_us < ?2 AND (?3 IS NULL OR model = ?3) AND (?4 IS NULL OR outcome = ?4)
    ORDER BY time_us DESC, request_id, tie LIMIT ?5";
const FIND_ID: &str = "SELECT record FROM sluice_records
    WHERE time_us >= ?1 AND time_us < ?2 AND (?3 IS NULL OR model = ?3) AND (?4 IS NULL OR outcome = ?4)
        AND request_id = ?6
    ORDER BY time_us DESC, tie LIMIT ?5";

/// One connection.
pub(super) struct Sqlite(SqliteConnection);

impl Sqlite {
    pub(super) async fn open(path: &Path, purpose: Purpose) -> Result<Self, StoreError> {
        let options =
            SqliteConnectOptions::new().filename(path).busy_timeout(BUSY).disable_statement_logging();
        let options = match purpose {
            Purpose::Read if !path.exists() => return Err(StoreError::Missing(path.to_owned())),
            Purpose::Read => options.read_only(true),
            Purpose::Write => {
                made(path.to_owned()).await?;
                options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full)
            }
        };
        let mut connection = options.connect().await.map_err(away)?;
        if purpose == Purpose::Write {
            migrate(&mut connection).await.map_err(away)?;
        }
        Ok(Self(connection))
    }

    pub(super) async fn insert(&mut self, lines: String) -> Result<(), StoreError> {
        let done = sqlx::query(INSERT).bind(lines).execute(&mut self.0).await;
        done.map(drop).map_err(|error| if is_refusal(&error) { refused(&error) } else { away(error) })
    }

    pub(super) async fn prune(&mut self, before: i64, most: i64) -> Result<u64, StoreError> {
        let done = sqlx::query(PRUNE).bind(before).bind(most).execute(&mut self.0).await;
        done.map(|done| done.rows_affected()).map_err(away)
    }

    pub(super) async fn find(&mut self, filter: &Filter) -> Result<Vec<String>, StoreError> {
        if version(&mut self.0).await.map_err(away)? == 0 {
            return Ok(Vec::new());
        }
        let (from, until) = filter.micros();
        let statement = if filter.request_id.is_some() { FIND_ID } else { FIND };
        let mut query = sqlx::query(statement)
            .bind(from)
            .bind(until)
            .bind(&filter.model)
            .bind(filter.outcome.map(|outcome| outcome.as_str()))
            .bind(i64::from(filter.limit));
        if let Some(id) = &filter.request_id {
            query = query.bind(id);
        }
        let rows = query.fetch_all(&mut self.0).await.map_err(away)?;
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(away)
    }

    pub(super) async fn close(self) {
        // It is the last thing that is done with it.
        let _ = self.0.close().await;
    }
}

/// Makes the file and its folder if they are not there: records say who asked for what, so for this user alone.
async fn made(path: PathBuf) -> Result<(), StoreError> {
    let make = move || {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path)
    };
    let made = tokio::task::spawn_blocking(make).await;
    match made {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(StoreError::Away(error.to_string())),
        Err(error) => Err(StoreError::Away(error.to_string())),
    }
}

async fn version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let there: i64 = sqlx::query_scalar(IS_THERE).fetch_one(&mut *connection).await?;
    if there == 0 { Ok(0) } else { sqlx::query_scalar(VERSION).fetch_one(connection).await }
}

/// In one transaction, which another process waits for. What fails ends with the connection, and leaves nothing.
async fn migrate(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    if pending(MIGRATIONS, version(connection).await?).next().is_none() {
        return Ok(());
    }
    sqlx::raw_sql(BEGIN).execute(&mut *connection).await?;
    for (version, statements) in pending(MIGRATIONS, version(connection).await?) {
        sqlx::raw_sql(statements).execute(&mut *connection).await?;
        sqlx::query(APPLIED).bind(version).execute(&mut *connection).await?;
    }
    sqlx::raw_sql("COMMIT").execute(connection).await.map(drop)
}

/// By the primary result code: a constraint, a value of the wrong type, a value that is too large.
fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    let code = code.and_then(|code| code.parse::<u32>().ok());
    code.is_some_and(|code| matches!(code & 0xff, 18..=20))
}

fn refused(error: &sqlx::Error) -> StoreError {
    StoreError::Refused(error.to_string())
}

fn away(error: sqlx::Error) -> StoreError {
    StoreError::Away(error.to_string())
}
