//! Records in PostgreSQL: a real server that is stopped, refuses, is shared, and comes back.

use std::collections::BTreeSet;

use harness::gateway::binary;
use harness::postgres::Postgres;
use harness::prelude::*;

/// A gateway whose records go to this server.
fn with(postgres: &Postgres) -> Setup {
    Setup::new()
        .wide_gates()
        .set("/records", json!({"postgres": "env:RECORDS_URL"}))
        .env("RECORDS_URL", &postgres.url())
        .set("/log/records", true)
}

/// So many calls, sixteen at a time; gives their ids.
async fn load(x: &Case, calls: usize) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for _ in 0..calls / 16 {
        let mut running = Vec::new();
        for _ in 0..16 {
            running.push(x.plain("chat").begin().await);
        }
        for mut call in running {
            let answer = call.finish().await;
            answer.answered();
            ids.insert(answer.request_id().expect("an id").to_owned());
        }
    }
    ids
}

/// Calls without end, whatever becomes of them.
async fn pound(x: &Case) {
    loop {
        let mut running = Vec::new();
        for _ in 0..16 {
            running.push(x.plain("chat").begin().await);
        }
        for mut call in running {
            call.finish().await;
        }
    }
}

fn stored(postgres: &Postgres) -> Vec<String> {
    postgres.sql("SELECT request_id FROM sluice_records").lines().map(str::to_owned).collect()
}

/// Waits until so many records are in the table.
async fn stored_becomes(x: &Case, postgres: &Postgres, want: usize) {
    let there = x.poll(harness::PATIENCE, async || {
        postgres.sql("SELECT to_regclass('sluice_records') IS NOT NULL") == "t"
            && stored(postgres).len() >= want
    });
    assert!(there.await, "{} of {want} are there\n{}", stored(postgres).len(), x.gateway.log());
}

#[tokio::test]
async fn a_server_that_crashes_in_mid_load_and_comes_back_has_every_record_once() {
    let mut postgres = Postgres::start().await;
    let mut x = with(&postgres).start().await;
    let mut ids = load(&x, 96).await;
    postgres.crash().await;
    ids.extend(load(&x, 160).await);
    // And what was on its way when it went.
    let spooled = x.poll(harness::PATIENCE, async || x.metric("sluice_records_spooled", &[]).await >= 160.0);
    assert!(spooled.await, "{}", x.gateway.log());
    let ready = x.get("/readyz").await;
    assert_eq!(ready.status, 200, "calls do not depend on the store: {ready:?}");
    postgres.resume().await;
    ids.extend(load(&x, 96).await);
    let settled = x.poll(harness::PATIENCE, async || {
        x.metric("sluice_records_spooled", &[]).await == 0.0
            && x.metric("sluice_records_written_total", &[("to", "database")]).await >= 352.0
    });
    assert!(settled.await, "{}", x.metrics().await.text);
    let found = stored(&postgres);
    assert_eq!((found.len(), found.into_iter().collect::<BTreeSet<_>>()), (352, ids));
    assert_eq!(x.metric("sluice_records_dropped_total", &[]).await, 0.0);
    assert_eq!(x.gateway.stop().await, 0);
    for event in ["records_away", "records_back"] {
        assert_eq!(x.gateway.events(event).len(), 1, "{event}\n{}", x.gateway.log());
    }
}

#[tokio::test]
async fn a_gateway_that_starts_without_its_server_serves_and_tells_it_later() {
    let mut postgres = Postgres::start().await;
    postgres.crash().await;
    let mut x = with(&postgres).start().await;
    let ids = load(&x, 32).await;
    x.metric_becomes("sluice_records_spooled", &[], 32.0).await;
    // The end leaves them on disk, and the next process finds them there.
    assert_eq!(x.gateway.stop().await, 0);
    let spool = x.gateway.dir().join("state/records-spool");
    postgres.resume().await;
    let kept = spool.display().to_string();
    let y = with(&postgres).set("/records/spool", json!({"dir": kept})).start().await;
    stored_becomes(&y, &postgres, 32).await;
    assert_eq!(stored(&postgres).into_iter().collect::<BTreeSet<_>>(), ids);
    y.metric_becomes("sluice_records_spooled", &[], 0.0).await;
    y.end().await;
}

#[tokio::test]
async fn replicas_share_one_server_and_anybody_can_look() {
    let postgres = Postgres::start().await;
    // They make the tables at the same time.
    let (x, y) = tokio::join!(with(&postgres).start(), with(&postgres).start());
    let mut ids = load(&x, 16).await;
    ids.extend(load(&y, 16).await);
    x.b.play(STATUS(500));
    x.a.play(STATUS(500));
    let failed = x.plain("chat").await;
    failed.refused(502, "retryable_upstream");
    stored_becomes(&x, &postgres, 33).await;
    assert_eq!(postgres.sql("SELECT version FROM sluice_schema"), "1");
    let look = async |args: &[&str]| {
        let mut command = tokio::process::Command::new(binary());
        command.args(["records", "--postgres", "env:URL"]).args(args).env("URL", postgres.url());
        let output = command.output().await.expect("the gateway can be executed");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let all = look(&["--json", "--limit", "1000", "--outcome", "success"]).await;
    let all: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of =
        |name: &'static str| all.iter().map(move |record| record[name].as_str().expect("text").to_owned());
    assert_eq!(of("request_id").collect::<BTreeSet<_>>(), ids);
    assert!(of("time").collect::<Vec<_>>().is_sorted_by(|a, b| a >= b), "newest first");
    let id = failed.request_id().expect("an id");
    let one = look(&["--json", "--id", id]).await;
    let one: Value = serde_json::from_str(&one).expect("one record");
    let line = x.gateway.wait_for_event("request", |record| record["request_id"] == id).await;
    for (name, value) in line.as_object().expect("a record").iter().filter(|(name, _)| *name != "event") {
        assert_eq!(&one[name], value, "{name}");
    }
    let table = look(&["--id", id, "--model", "chat", "--since", "1h"]).await;
    assert!(table.contains(id) && table.contains("exhausted") && table.lines().count() == 2, "{table}");
    let none = look(&["--until", "1h"]).await;
    assert_eq!(none, "no such records\n");
    x.a.healthy();
    x.b.healthy();
    x.end().await;
    y.end().await;
}

#[tokio::test]
async fn what_a_caller_writes_keeps_no_record_out_and_what_the_server_refuses_holds_up_no_other() {
    let postgres = Postgres::start().await;
    let x = with(&postgres).start().await;
    // PostgreSQL has no text with a NUL.
    x.plain("nul\0here").await.refused(404, "model_not_found");
    load(&x, 16).await;
    stored_becomes(&x, &postgres, 17).await;
    assert_eq!(postgres.sql("SELECT count(*) FROM sluice_records WHERE model = U&'nul\\FFFDhere'"), "1");
    let _ = postgres.sql("ALTER TABLE sluice_records ADD CHECK (model <> 'solo') NOT VALID");
    let (before, bad, after) = (x.plain("chat").await, x.plain("solo").await, x.plain("chat").await);
    let ids = [&before, &bad, &after].map(|r| r.request_id().expect("an id").to_owned());
    x.metric_becomes("sluice_records_dropped_total", &[], 1.0).await;
    stored_becomes(&x, &postgres, 19).await;
    let found = stored(&postgres);
    assert_eq!(ids.map(|id| found.contains(&id)), [true, false, true]);
    assert_eq!(x.gateway.events("record_refused").len(), 1);
    assert_eq!(x.gateway.events("records_away").len(), 0);
    let _ = postgres.sql("ALTER TABLE sluice_records DROP CONSTRAINT sluice_records_model_check");
    x.end().await;
}

#[tokio::test]
async fn a_server_that_does_not_take_records_is_away_once_until_it_does() {
    let postgres = Postgres::start().await;
    let x = with(&postgres).start().await;
    load(&x, 16).await;
    stored_becomes(&x, &postgres, 16).await;
    let _ = postgres.sql("ALTER ROLE sluice SET default_transaction_read_only = on");
    let _ = postgres
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'");
    load(&x, 16).await;
    x.metric_becomes("sluice_records_spooled", &[], 16.0).await;
    // It is reached, and refuses, several times.
    let refusals = || postgres.log().matches("read-only transaction").count();
    let refused = x.poll(harness::PATIENCE, async || refusals() >= 4).await;
    assert!(refused, "asked {} times: {}", refusals(), postgres.log());
    assert_eq!((x.gateway.events("records_away").len(), x.gateway.events("records_back").len()), (1, 0));
    let _ = postgres.sql("BEGIN READ WRITE; ALTER ROLE sluice RESET ALL; COMMIT");
    stored_becomes(&x, &postgres, 32).await;
    x.metric_becomes("sluice_records_spooled", &[], 0.0).await;
    assert_eq!((x.gateway.events("records_away").len(), x.gateway.events("records_back").len()), (1, 1));
    x.end().await;
}

#[tokio::test]
async fn old_records_go_and_young_ones_stay() {
    let postgres = Postgres::start().await;
    let x = with(&postgres).set("/records/retention", "1h").start().await;
    load(&x, 16).await;
    stored_becomes(&x, &postgres, 16).await;
    let _ = postgres.sql(
        "INSERT INTO sluice_records (time, tie, record)
         SELECT now() - interval '2 hours', n, jsonb_build_object('request_id', 'old' || n) FROM generate_series(1, 1700) n",
    );
    drop(x);
    let y = with(&postgres).set("/records/retention", "1h").start().await;
    let gone = y.poll(harness::PATIENCE, async || {
        postgres.sql("SELECT count(*) FROM sluice_records WHERE request_id LIKE 'old%'") == "0"
    });
    assert!(gone.await, "{} are there", stored(&postgres).len());
    assert!(stored(&postgres).len() >= 16);
    y.end().await;
}

#[tokio::test]
async fn a_gateway_that_is_killed_keeps_what_it_had_acknowledged() {
    let mut postgres = Postgres::start().await;
    let spool = tempfile::tempdir().expect("a directory");
    let dir = spool.path().display().to_string();
    let keep = |setup: Setup| setup.set("/records/spool", json!({"dir": dir}));
    for away in [false, true] {
        let x = keep(with(&postgres)).start().await;
        if away {
            load(&x, 16).await;
            let _ = postgres.sql("TRUNCATE sluice_records");
            postgres.crash().await;
        }
        let to = if away { "spool" } else { "database" };
        let begun = x.metric("sluice_records_written_total", &[("to", to)]).await;
        // Calls come without end while the process is killed.
        let killed = async {
            let enough = x.poll(harness::PATIENCE, async || {
                x.metric("sluice_records_written_total", &[("to", to)]).await - begun >= 100.0
            });
            assert!(enough.await, "{}", x.gateway.log());
            let acknowledged = x.metric("sluice_records_written_total", &[("to", to)]).await - begun;
            let pid = x.gateway.pid().expect("it runs").to_string();
            let sent = tokio::process::Command::new("kill").args(["-KILL", &pid]).status().await;
            assert!(sent.is_ok_and(|status| status.success()));
            acknowledged
        };
        let acknowledged = tokio::select! {
            acknowledged = killed => acknowledged,
            () = pound(&x) => unreachable!(),
        };
        drop(x);
        if away {
            postgres.resume().await;
        }
        let y = keep(with(&postgres)).start().await;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
        stored_becomes(&y, &postgres, acknowledged as usize).await;
        y.metric_becomes("sluice_records_spooled", &[], 0.0).await;
        let found = stored(&postgres);
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "{to}: twice");
        y.end().await;
    }
}
