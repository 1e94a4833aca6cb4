//! What happens to records while the database is away, slow, full or taken.

use super::writer::BATCH;
use super::*;

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
    let filling = async {
        let mut ids = 0..;
        while stage.telemetry.records().push(&Arc::new(record(ids.next().unwrap()))) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, filling).await.expect("a queue with a bound");
    assert_eq!(stage.telemetry.records().len(), 16_384);
    stage.settle(0..600);
    std::fs::remove_file(wall).unwrap();
    stage.until("the queue is empty", || stage.telemetry.records().is_empty()).await;
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
    // What is neither spooled nor queued is one hand full: the spool takes no more of it.
    let spooled = || stage.telemetry.records().spooled();
    let waiting = || stage.telemetry.records().len() + usize::try_from(spooled()).unwrap();
    stage.until("the spool is full", || spooled() > 0 && waiting() + BATCH == 1000).await;
    let spooled = spooled();
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
    stage.telemetry.settled(
        Record { model: Some("bad".into()), ..record(50) },
        Decision::default(),
        None,
        None,
    );
    stage.telemetry.settled(
        Record { model: Some("bad".into()), ..record(51) },
        Decision::default(),
        None,
        None,
    );
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
    for _ in 0..3 {
        stage.tried().await;
    }
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
