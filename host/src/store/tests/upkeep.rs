//! What is done to a store beside writing: old records go, settings change, tables are made, addresses are read.

use super::*;

#[tokio::test]
async fn records_that_are_too_old_go_in_steps_and_the_others_stay() {
    let mut stage = Stage::new();
    let old = |n: u32| Record { time: crate::clock::wall() - Duration::from_secs(7200), ..record(n) };
    let store = stage.start();
    for n in 0..1700 {
        stage.telemetry.settled(old(n), Decision::default(), None, None);
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
