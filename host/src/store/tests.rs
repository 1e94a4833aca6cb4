//! The store from telemetry to SQLite. The server has its tests among the scenarios.

mod spooling;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sluice_core::kind::Outcome;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::config::{Log, LogFormat, RecordPlace, Spool};
use crate::telemetry::decisions::Decision;
use crate::telemetry::log::LineLayer;
use crate::telemetry::log::tests::{Captured, capturing};
use crate::telemetry::metrics::{Names, Scrape};
use crate::telemetry::record::Record;
use crate::telemetry::record::tests::sample;

/// Long enough for a busy machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store in a folder of its own, and what it says. The runtime has one thread, so that its lines are caught.
struct Stage {
    dir: tempfile::TempDir,
    records: Records,
    telemetry: Telemetry,
    said: Captured,
    _log: tracing::subscriber::DefaultGuard,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let records = Records {
            place: RecordPlace::Sqlite(dir.path().join("db/records.sqlite")),
            retention: None,
            spool: Spool { dir: dir.path().join("spool"), max: 64 << 20 },
        };
        let (writer, said) = capturing(LogFormat::Json);
        let subscriber = tracing_subscriber::registry().with(LineLayer::new(writer));
        Self {
            dir,
            records,
            telemetry: telemetry(),
            said,
            _log: tracing::subscriber::set_default(subscriber),
        }
    }

    fn start(&self) -> Archive {
        started(&self.records, &self.telemetry)
    }

    fn settle(&self, ids: std::ops::Range<u32>) {
        for n in ids {
            self.telemetry.settled(record(n), Decision::default(), None, None);
        }
    }

    /// What a file in the place of the database makes of it: none.
    fn block(&self) -> PathBuf {
        let path = self.dir.path().join("db");
        std::fs::write(&path, "no folder").unwrap();
        path
    }

    async fn ids(&self) -> Vec<String> {
        self.find(&all())
            .await
            .iter()
            .map(|record| record["request_id"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn find(&self, filter: &Filter) -> Vec<Value> {
        match find(&self.records.place, filter).await {
            Ok(found) => found.iter().map(|text| serde_json::from_str(text).unwrap()).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// Waits until the page of metrics has this line.
    async fn counted(&self, line: &str) {
        let page = || {
            let scrape = Scrape { records_spooled: self.telemetry.records().spooled(), ..Scrape::default() };
            self.telemetry.metrics().render(&scrape).unwrap()
        };
        if !self.comes(|| page().lines().any(|have| have == line)).await {
            panic!("{line} did not come; there is\n{}", page());
        }
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        assert!(self.comes(holds).await, "{what}: {:?}", self.events());
    }

    async fn comes(&self, holds: impl Fn() -> bool) -> bool {
        let coming = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, coming).await.is_ok()
    }

    /// Waits until the writer connects anew, which shows in the file: it has it in the mode WAL.
    async fn tried(&self) {
        let RecordPlace::Sqlite(path) = &self.records.place else { panic!("a file") };
        // Bytes 18 and 19 of the header: 1 is a rollback journal, 2 a WAL.
        let is_wal = || std::fs::read(path).unwrap()[18..20] == [2, 2];
        let leaving = async {
            while is_wal() {
                // Refused while the writer has it open.
                let mut connection = self.connection().await;
                let _ = sqlx::raw_sql("PRAGMA journal_mode = DELETE").execute(&mut connection).await;
                connection.close().await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, leaving).await.expect("the writer never lets go");
        self.until("another try", is_wal).await;
    }

    fn events(&self) -> Vec<String> {
        self.said.json().iter().map(|line| line["event"].as_str().unwrap_or_default().to_owned()).collect()
    }

    async fn sql(&self, statement: &'static str) {
        let mut connection = self.connection().await;
        sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    async fn connection(&self) -> SqliteConnection {
        let RecordPlace::Sqlite(path) = &self.records.place else { panic!("a file") };
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        options.busy_timeout(Duration::from_secs(5)).connect().await.unwrap()
    }
}

fn started(records: &Records, telemetry: &Telemetry) -> Archive {
    let archive = Archive::new(telemetry);
    archive.take(Some(records)).unwrap();
    archive
}

fn telemetry() -> Telemetry {
    let log = Log { level: "off".into(), format: LogFormat::Json, records: false };
    Telemetry::new(&Names::default(), &log, 0, capturing(LogFormat::Json).0).unwrap()
}

/// Later ones have later times.
fn record(n: u32) -> Record {
    let time = crate::clock::wall() - Duration::from_secs(1000) + Duration::from_millis(n.into());
    Record { request_id: format!("r{n:05}").as_str().into(), time, ..sample() }
}

fn all() -> Filter {
    Filter { limit: 100_000, ..Filter::default() }
}

fn names(ids: std::ops::Range<u32>) -> Vec<String> {
    ids.rev().map(|n| format!("r{n:05}")).collect()
}

const STORED: &str = "sluice_records_written_total{to=\"database\"}";
const SPOOLED: &str = "sluice_records_written_total{to=\"spool\"}";

#[tokio::test]
async fn a_record_is_stored_whole_and_found_by_what_it_is() {
    let stage = Stage::new();
    let store = stage.start();
    let odd = Record {
        request_id: "odd".into(),
        time: crate::clock::wall() - Duration::from_secs(7200),
        model: Some("it's\0".into()),
        outcome: Outcome::Exhausted,
        served: None,
        tokens: None,
        ..sample()
    };
    stage.settle(0..3);
    stage.telemetry.settled(odd.clone(), Decision::default(), None, None);
    stage.counted(&format!("{STORED} 4")).await;
    store.close().await;
    let ago = |secs| Some(crate::clock::wall() - Duration::from_secs(secs));
    let found = async |filter: Filter| {
        let found = stage.find(&filter).await;
        found.iter().map(|record| record["request_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(all()).await, ["r00002", "r00001", "r00000", "odd"]);
    assert_eq!(found(Filter { limit: 1, ..all() }).await, ["r00002"]);
    assert_eq!(found(Filter { request_id: Some("r00001".into()), ..all() }).await, ["r00001"]);
    assert_eq!(found(Filter { request_id: Some("odd".into()), since: ago(3600), ..all() }).await, [""; 0]);
    assert_eq!(found(Filter { outcome: Some(Outcome::Exhausted), ..all() }).await, ["odd"]);
    assert_eq!(found(Filter { model: Some("it's\u{fffd}".into()), ..all() }).await, ["odd"]);
    assert_eq!(found(Filter { model: Some("' OR 1=1 --".into()), ..all() }).await, [""; 0]);
    assert_eq!(found(Filter { until: ago(3600), ..all() }).await, ["odd"]);
    assert_eq!(found(Filter { since: ago(3600), ..all() }).await.len(), 3);
    assert_eq!(found(Filter { since: ago(3600), until: ago(3500), ..all() }).await, [""; 0]);
    let whole = stage.find(&Filter { request_id: Some("r00002".into()), ..all() }).await.remove(0);
    let mut want = serde_json::to_value(record(2)).unwrap();
    want["time"] = whole["time"].clone();
    assert_eq!(whole, want);
    let mut connection = stage.connection().await;
    let columns: (String, i64, Option<i64>, Option<i64>, i64) = sqlx::query_as(
        "SELECT outcome, status_code, latency_ms, output_tokens, is_fallback FROM sluice_records WHERE request_id = 'r00000'",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!(columns, ("fallback_success".to_owned(), 200, Some(1500), Some(22), 1));
    assert_eq!(stage.events(), [""; 0], "nothing happened that anybody need know");
}
