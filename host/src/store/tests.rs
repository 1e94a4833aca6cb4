//! The store from telemetry to SQLite. The server has its tests among the scenarios.

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
            self.telemetry.settled(record(n), Decision::default(), None);
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
        for _ in 0..1000 {
            if page().lines().any(|have| have == line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{line} did not come; there is\n{}", page());
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
    stage.telemetry.settled(odd.clone(), Decision::default(), None);
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

#[tokio::test]
async fn while_the_database_is_away_records_are_spooled_and_then_stored_in_order() {
    let stage = Stage::new();
    let wall = stage.block();
    let store = stage.start();
    stage.settle(0..700);
    stage.counted(&format!("{SPOOLED} 700")).await;
    stage.counted("sluice_records_spooled 700").await;
    std::fs::remove_file(wall).unwrap();
    stage.counted("sluice_records_spooled 0").await;
    stage.settle(700..800);
    stage.counted(&format!("{STORED} 800")).await;
    store.close().await;
    assert_eq!(stage.ids().await, names(0..800));
    let mut connection = stage.connection().await;
    let in_order: Vec<String> = sqlx::query_scalar("SELECT request_id FROM sluice_records ORDER BY rowid")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert!(in_order.is_sorted());
    assert_eq!(stage.events(), ["records_away", "records_back"], "once each, not for each record");
}

#[tokio::test]
async fn what_a_process_before_left_in_the_spool_is_stored_once() {
    let stage = Stage::new();
    let wall = stage.block();
    let store = stage.start();
    stage.settle(0..300);
    stage.counted("sluice_records_spooled 300").await;
    let spool = stage.dir.path().join("spool");
    let kept: Vec<_> = std::fs::read_dir(&spool).unwrap().map(|entry| entry.unwrap().path()).collect();
    let kept: Vec<_> = kept.iter().map(|path| (path, std::fs::read(path).unwrap())).collect();
    store.close().await;
    std::fs::remove_file(wall).unwrap();
    for _ in 0..2 {
        let next = Stage { telemetry: telemetry(), ..Stage::new() };
        let store = started(&stage.records, &next.telemetry);
        next.counted(&format!("{STORED} 300")).await;
        next.counted("sluice_records_spooled 0").await;
        store.close().await;
        // As if the process had been killed between the commit and the end of the file.
        for (path, bytes) in &kept {
            std::fs::write(path, bytes).unwrap();
        }
    }
    assert_eq!(stage.ids().await, names(0..300));
}

#[tokio::test]
async fn the_end_keeps_what_is_queued_in_the_database_or_else_in_the_spool() {
    for away in [false, true] {
        let stage = Stage::new();
        let wall = away.then(|| stage.block());
        let store = stage.start();
        if !away {
            stage.settle(0..1);
            stage.counted(&format!("{STORED} 1")).await;
        }
        stage.settle(1..5000);
        store.close().await;
        let line = if away { format!("{SPOOLED} 4999") } else { format!("{STORED} 5000") };
        stage.counted(&line).await;
        stage.counted("sluice_records_dropped_total 0").await;
        if let Some(wall) = wall {
            std::fs::remove_file(wall).unwrap();
            let next = stage.start();
            stage.counted("sluice_records_spooled 0").await;
            next.close().await;
        }
        assert_eq!(stage.ids().await.len(), if away { 4999 } else { 5000 }, "away: {away}");
        stage.settle(6000..6001);
        stage.counted("sluice_records_dropped_total 1").await;
    }
}

#[tokio::test]
async fn without_database_and_spool_records_wait_up_to_the_bound_and_the_rest_is_counted() {
    let stage = Stage::new();
    let wall = stage.block();
    let spool = stage.dir.path().join("spool");
    std::fs::write(&spool, "no folder").unwrap();
    let store = stage.start();
    // One hand and one queue full.
    while stage.telemetry.records().len() < 16_384 || stage.telemetry.records().push(&Arc::new(record(0))) {
        stage.settle(0..100);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let gone = stage.telemetry.records().len();
        assert!(gone <= 16_384);
        if gone == 16_384 && !stage.telemetry.records().push(&Arc::new(record(0))) {
            break;
        }
    }
    std::fs::remove_file(wall).unwrap();
    for _ in 0..1000 {
        if stage.telemetry.records().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.close().await;
    let stored = stage.ids().await.len();
    assert!((16_384..=16_384 + 512).contains(&stored), "{stored}");
    let page = stage.telemetry.metrics().render(&Scrape::default()).unwrap();
    let dropped = page.lines().find_map(|line| line.strip_prefix("sluice_records_dropped_total ")).unwrap();
    assert!(dropped.parse::<u32>().unwrap() > 0, "{dropped}");
    assert_eq!(stage.events(), ["records_spool_away", "records_away", "records_back"]);
}

#[tokio::test]
async fn a_spool_that_is_full_keeps_what_it_has_and_the_rest_waits() {
    let mut stage = Stage::new();
    stage.records.spool.max = 64 << 10;
    let wall = stage.block();
    let store = stage.start();
    stage.settle(0..1000);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let spooled = stage.telemetry.records().spooled();
    assert!((1..100).contains(&spooled), "{spooled}");
    std::fs::remove_file(wall).unwrap();
    stage.counted(&format!("{STORED} 1000")).await;
    store.close().await;
    assert_eq!(stage.ids().await, names(0..1000));
    stage.counted("sluice_records_dropped_total 0").await;
}

#[tokio::test]
async fn a_spool_that_another_process_has_is_taken_over_when_it_is_free() {
    let stage = Stage::new();
    let held = super::spool::Spool::open(&stage.records.spool.dir, 1 << 20).unwrap();
    let store = stage.start();
    stage.settle(0..10);
    stage.counted(&format!("{STORED} 10")).await;
    let line = super::line::Line::of(&record(10)).unwrap();
    let mut held = held;
    held.append(&[line]).unwrap();
    drop(held);
    stage.counted(&format!("{STORED} 11")).await;
    store.close().await;
    assert_eq!(stage.ids().await, names(0..11));
    assert_eq!(stage.events(), ["records_spool_away", "records_spool_back"]);
}

#[tokio::test]
async fn a_record_that_the_database_refuses_holds_up_no_other() {
    let stage = Stage::new();
    stage.start().close().await;
    let first = stage.start();
    stage.settle(0..1);
    stage.counted(&format!("{STORED} 1")).await;
    first.close().await;
    stage
        .sql("CREATE TRIGGER no BEFORE INSERT ON sluice_records WHEN new.record ->> 'model' = 'bad' BEGIN SELECT raise(ABORT, 'no'); END")
        .await;
    let store = stage.start();
    stage.settle(1..50);
    stage.telemetry.settled(Record { model: Some("bad".into()), ..record(50) }, Decision::default(), None);
    stage.telemetry.settled(Record { model: Some("bad".into()), ..record(51) }, Decision::default(), None);
    stage.settle(52..100);
    stage.counted(&format!("{STORED} 98")).await;
    stage.counted("sluice_records_dropped_total 2").await;
    store.close().await;
    assert_eq!(stage.ids().await.len(), 98);
    assert_eq!(stage.events(), ["record_refused"]);
}

#[tokio::test]
async fn a_database_that_takes_nothing_is_not_said_to_be_back_each_time_it_is_reached() {
    let stage = Stage::new();
    let store = stage.start();
    stage.settle(0..1);
    stage.counted(&format!("{STORED} 1")).await;
    stage.sql("ALTER TABLE sluice_records RENAME TO elsewhere").await;
    stage.settle(1..20);
    stage.counted("sluice_records_spooled 19").await;
    // Several tries lie in this.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(stage.events(), ["records_away"]);
    stage.sql("ALTER TABLE elsewhere RENAME TO sluice_records").await;
    stage.counted("sluice_records_spooled 0").await;
    store.close().await;
    assert_eq!(stage.ids().await, names(0..20));
    assert_eq!(stage.events(), ["records_away", "records_back"]);
}

#[tokio::test]
async fn a_database_that_another_process_holds_is_waited_for_in_the_spool() {
    let stage = Stage::new();
    let store = stage.start();
    stage.settle(0..1);
    stage.counted(&format!("{STORED} 1")).await;
    let mut holder = stage.connection().await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut holder).await.unwrap();
    stage.settle(1..100);
    stage.counted("sluice_records_spooled 99").await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    stage.counted("sluice_records_spooled 0").await;
    store.close().await;
    assert_eq!(stage.ids().await, names(0..100));
}

#[tokio::test]
async fn records_that_are_too_old_go_in_steps_and_the_others_stay() {
    let mut stage = Stage::new();
    let old = |n: u32| Record { time: crate::clock::wall() - Duration::from_secs(7200), ..record(n) };
    let store = stage.start();
    for n in 0..1700 {
        stage.telemetry.settled(old(n), Decision::default(), None);
    }
    stage.counted(&format!("{STORED} 1700")).await;
    store.close().await;
    stage.records.retention = Some(Duration::from_secs(3600));
    let store = stage.start();
    // Also while there is always something to write, and long before it is time to look again.
    let begun = crate::clock::now();
    let mut n = 0;
    while crate::clock::now() - begun < Duration::from_secs(20) {
        stage.settle(2000 + n..2001 + n);
        n += 1;
        let left = stage
            .find(&Filter { until: Some(crate::clock::wall() - Duration::from_secs(3600)), ..all() })
            .await;
        if left.is_empty() {
            store.close().await;
            assert_eq!(stage.ids().await, names(2000..2000 + n));
            return;
        }
    }
    panic!("old records are still there");
}

#[tokio::test]
async fn another_configuration_moves_what_waits_and_loses_nothing() {
    let mut stage = Stage::new();
    let _wall = stage.block();
    let store = stage.start();
    stage.settle(0..300);
    stage.counted("sluice_records_spooled 300").await;
    // Another database and another spool: what waits in the old one goes there.
    stage.records.place = RecordPlace::Sqlite(stage.dir.path().join("other.sqlite"));
    stage.records.spool.dir = stage.dir.path().join("other-spool");
    store.take(Some(&stage.records)).unwrap();
    stage.counted(&format!("{STORED} 300")).await;
    // The first sight of it is the next record's, or that of a look now and then.
    for _ in 0..500 {
        if stage.dir.path().join("other-spool/lock").exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(stage.dir.path().join("other-spool/lock").exists(), "the other spool is not in use");
    // None, and one again.
    stage.settle(300..310);
    store.take(None).unwrap();
    stage.settle(900..910);
    stage.counted(&format!("{STORED} 310")).await;
    store.take(Some(&stage.records)).unwrap();
    stage.settle(310..320);
    stage.counted(&format!("{STORED} 320")).await;
    store.close().await;
    assert_eq!(stage.ids().await, names(0..320));
    stage.counted("sluice_records_dropped_total 0").await;
}

#[tokio::test]
async fn two_that_make_the_tables_at_once_make_them_once_and_newer_tables_are_used_as_they_are() {
    let stage = Stage::new();
    let stages = [Stage::new(), Stage::new()];
    let one = started(&stage.records, &stages[0].telemetry);
    let spool = Spool { dir: stage.dir.path().join("two"), max: 1 << 20 };
    let two = started(&Records { spool, ..stage.records.clone() }, &stages[1].telemetry);
    for (n, stage) in (0..).zip(&stages) {
        stage.settle(n..n + 1);
        stage.counted(&format!("{STORED} 1")).await;
    }
    for store in [one, two] {
        store.close().await;
    }
    stage.sql("INSERT INTO sluice_schema (version) VALUES (99); ALTER TABLE sluice_records ADD COLUMN later TEXT").await;
    let store = stage.start();
    stage.settle(2..3);
    stage.counted(&format!("{STORED} 1")).await;
    store.close().await;
    assert_eq!(stage.ids().await, names(0..3));
    let versions: Vec<i64> = sqlx::query_scalar("SELECT version FROM sluice_schema")
        .fetch_all(&mut stage.connection().await)
        .await
        .unwrap();
    assert_eq!(versions, [1, 99]);
}

#[test]
fn an_address_that_is_none_is_refused_without_a_word_of_it() {
    for bad in ["postgres://u:hush@h:port/d", "postgres://u:hush@h/d?pasword=hush", "postgres://u:hush@[/d"] {
        let place = RecordPlace::Postgres(crate::config::Credential {
            key: secrecy::SecretString::from(bad),
            reference: "env:DATABASE".into(),
        });
        let records =
            Records { place, retention: None, spool: Spool { dir: Path::new("spool").to_owned(), max: 1 } };
        let error = Archive::rehearse(&records).unwrap_err().to_string();
        assert!(error.starts_with("the PostgreSQL URL ") && !error.contains("hush"), "{error}");
    }
}
