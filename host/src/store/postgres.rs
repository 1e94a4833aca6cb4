//! Records on a PostgreSQL server, in a table that several replicas may share.
//!
//! No statement is kept prepared and no session state is relied on, so that a pooler in between (in transaction
//! mode) does no harm; what has to be exclusive is so for one transaction.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, Row};

use super::database::{Migrations, Purpose, StoreError, pending};
use super::query::Filter;

const MIGRATIONS: Migrations = &[include_str!("migrations/postgres/1.sql")];
/// Whether there is a table is asked first: a role that may not make tables can still use them.
const IS_THERE: &str = "SELECT to_regclass('sluice_schema') IS NOT NULL";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM sluice_schema";
/// The number is ours alone among the advisory locks of the database: "sluice" in ASCII.
const BEGIN: &str = "BEGIN; SELECT pg_advisory_xact_lock(126909663503205);";
const MAKE: &str =
    "CREATE TABLE sluice_schema (version bigint PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())";
const APPLIED: &str = "INSERT INTO sluice_schema (version) VALUES ($1)";

const INSERT: &str = "INSERT INTO sluice_records (time, tie, record)
    SELECT timestamptz 'epoch' + (line ->> 'time_us')::bigint * interval '1 microsecond',
        (line ->> 'tie')::bigint, line -> 'record'
    FROM jsonb_array_elements($1::text::jsonb) AS line
    ON CONFLICT DO NOTHING";
/// A row that another replica is deleting is left to it.
const PRUNE: &str = "DELETE FROM sluice_records WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM sluice_records
    WHERE time < least(timestamptz 'epoch' + $1::bigint * interval '1 microsecond', now())
    ORDER BY time LIMIT $2 FOR UPDATE SKIP LOCKED))";
const FIND: &str = "SELECT record::text FROM sluice_records
    WHERE time >= timestamptz 'epoch' + $1::bigint * interval '1 microsecond'
        AND time < timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
        AND ($3::text IS NULL OR model = $3) AND ($4::text IS NULL OR outcome = $4)
    ORDER BY time DESC, request_id, tie LIMIT $5";
const FIND_ID: &str = "SELECT record::text FROM sluice_records
    WHERE time >= timestamptz 'epoch' + $1::bigint * interval '1 microsecond'
        AND time < timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
        AND ($3::text IS NULL OR model = $3) AND ($4::text IS NULL OR outcome = $4)
        AND request_id = $6
    ORDER BY time DESC, tie LIMIT $5";

/// Parameters of a URL. The driver would write one that it does not know into the log, with its value.
const PARAMETERS: [&str; 15] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
];

/// Takes a URL apart.
pub(super) fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let names =
        query.split('&').filter(|part| !part.is_empty()).map(|part| part.split('=').next().unwrap_or(part));
    if names.into_iter().any(|name| !PARAMETERS.contains(&name)) {
        return Err(StoreError::Address("has a parameter that is not known here"));
    }
    let options = PgConnectOptions::from_str(url).map_err(|_| StoreError::Address("cannot be read"))?;
    Ok(options.application_name("sluice").disable_statement_logging())
}

/// One connection.
pub(super) struct Postgres(PgConnection);

impl Postgres {
    pub(super) async fn open(options: &PgConnectOptions, purpose: Purpose) -> Result<Self, StoreError> {
        let mut connection = options.connect().await.map_err(away)?;
        if purpose == Purpose::Write {
            migrate(&mut connection).await.map_err(away)?;
        }
        Ok(Self(connection))
    }

    pub(super) async fn insert(&mut self, lines: String) -> Result<(), StoreError> {
        let done = sqlx::query(INSERT).persistent(false).bind(lines).execute(&mut self.0).await;
        done.map(drop).map_err(|error| if is_refusal(&error) { refused(&error) } else { away(error) })
    }

    pub(super) async fn prune(&mut self, before: i64, most: i64) -> Result<u64, StoreError> {
        let done = sqlx::query(PRUNE).persistent(false).bind(before).bind(most).execute(&mut self.0).await;
        done.map(|done| done.rows_affected()).map_err(away)
    }

    pub(super) async fn find(&mut self, filter: &Filter) -> Result<Vec<String>, StoreError> {
        if version(&mut self.0).await.map_err(away)? == 0 {
            return Ok(Vec::new());
        }
        let (from, until) = filter.micros();
        let statement = if filter.request_id.is_some() { FIND_ID } else { FIND };
        let mut query = sqlx::query(statement)
            .persistent(false)
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

async fn version(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let there: bool = sqlx::query_scalar(IS_THERE).persistent(false).fetch_one(&mut *connection).await?;
    if !there {
        return Ok(0);
    }
    sqlx::query_scalar(VERSION).persistent(false).fetch_one(connection).await
}

/// In one transaction, which another replica waits for. What fails ends with the connection, and leaves nothing.
async fn migrate(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    if pending(MIGRATIONS, version(connection).await?).next().is_none() {
        return Ok(());
    }
    sqlx::raw_sql(BEGIN).execute(&mut *connection).await?;
    let there: bool = sqlx::query_scalar(IS_THERE).persistent(false).fetch_one(&mut *connection).await?;
    if !there {
        sqlx::raw_sql(MAKE).execute(&mut *connection).await?;
    }
    for (version, statements) in pending(MIGRATIONS, version(connection).await?) {
        sqlx::raw_sql(statements).execute(&mut *connection).await?;
        sqlx::query(APPLIED).persistent(false).bind(version).execute(&mut *connection).await?;
    }
    sqlx::raw_sql("COMMIT").execute(connection).await.map(drop)
}

/// By the class of the SQLSTATE: data exceptions, constraints, and what is larger than the server can hold.
fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.starts_with(class)))
}

fn refused(error: &sqlx::Error) -> StoreError {
    StoreError::Refused(error.to_string())
}

fn away(error: sqlx::Error) -> StoreError {
    StoreError::Away(error.to_string())
}
