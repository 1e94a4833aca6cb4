//! Records in SQLite: where nothing was configured but that they are wanted, on a disk that is full, and through a
//! crash.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use harness::gateway::binary;
use harness::prelude::*;

async fn look(args: &[&str]) -> (Option<i32>, String, String) {
    let output = tokio::process::Command::new(binary()).arg("records").args(args).output().await;
    let output = output.expect("the gateway can be executed");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

async fn ids(path: &str) -> Vec<String> {
    let (code, out, err) = look(&["--sqlite", path, "--json", "--limit", "10000"]).await;
    assert_eq!(code, Some(0), "{err}");
    let id = |line: &str| {
        serde_json::from_str::<Value>(line).expect("JSON")["request_id"].as_str().expect("text").to_owned()
    };
    out.lines().map(id).collect()
}

/// Calls until they were so many; gives their ids.
async fn load(x: &Case, calls: usize) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    for _ in 0..calls {
        let answer = x.plain("chat").await;
        answer.answered();
        made.insert(answer.request_id().expect("an id").to_owned());
    }
    made
}

#[tokio::test]
async fn an_empty_section_is_a_file_beside_the_state_and_nothing_is_lost_at_the_end() {
    let mut x = Setup::new().set("/records", json!({})).start().await;
    let made = load(&x, 20).await;
    assert_eq!(x.gateway.stop().await, 0);
    let file = x.gateway.dir().join("state/records.sqlite");
    assert_eq!(file.metadata().expect("the file").permissions().mode() & 0o777, 0o600);
    let path = file.display().to_string();
    let found = ids(&path).await;
    // A disk that is slow at the end has what is left in the spool, for the next start.
    let spool = std::fs::read_dir(x.gateway.dir().join("state/records-spool"));
    let files = spool.into_iter().flatten().map(|entry| std::fs::read(entry.expect("an entry").path()));
    let waiting: String =
        files.map(|bytes| String::from_utf8_lossy(&bytes.expect("a file")).into_owned()).collect();
    let distinct: BTreeSet<String> = found.iter().cloned().collect();
    assert_eq!(found.len(), distinct.len(), "a record is there twice");
    let lost: Vec<&String> =
        made.iter().filter(|id| !distinct.contains(*id) && !waiting.contains(id.as_str())).collect();
    assert_eq!((made.len(), lost), (20, Vec::new()));
    assert_eq!(x.gateway.events("request").len(), 20, "the log has them too");
}

#[tokio::test]
async fn mistakes_in_asking_are_usage_and_a_store_that_is_not_there_is_a_no() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("none.sqlite").display().to_string();
    let (code, _, err) = look(&["--sqlite", &missing]).await;
    assert_eq!((code, err.contains("does not exist")), (Some(1), true), "{err}");
    assert!(!std::path::Path::new(&missing).exists(), "looking makes nothing");
    let empty = dir.path().join("empty.sqlite").display().to_string();
    std::fs::write(&empty, "").expect("a file");
    assert_eq!(look(&["--sqlite", &empty]).await, (Some(0), "no such records\n".to_owned(), String::new()));
    std::fs::write(&empty, "this is no database, but long enough to be looked at".repeat(100))
        .expect("a file");
    assert_eq!(look(&["--sqlite", &empty]).await.0, Some(1));
    let bare = dir.path().join("bare.yaml").display().to_string();
    let upstream = "upstreams: { a: { base_url: \"http://127.0.0.1:9/v1\", models: { m: {} } } }";
    std::fs::write(&bare, format!("{upstream}\nroutes: {{ r: {{ targets: [ a/m ] }} }}\n")).expect("a file");
    for wrong in [
        &[][..],
        &["--sqlite", &empty, "--outcome", "sucess"],
        &["--sqlite", &empty, "--since", "yesterday"],
        &["--sqlite", &empty, "--limit", "0"],
        &["--sqlite", &empty, "--postgres", "env:X"],
        &["--postgres", "env:SLUICE_NO_SUCH_VARIABLE"],
        &["--postgres", "postgres://u:hush@127.0.0.1/d"],
        &["--config", &bare],
        &["--config", &missing],
    ] {
        let (code, _, err) = look(wrong).await;
        assert_eq!(code, Some(2), "{wrong:?}: {err}");
        assert!(!err.contains("hush@") || wrong.contains(&"postgres://u:hush@127.0.0.1/d"), "{err}");
    }
}

#[tokio::test]
async fn whoever_looks_needs_no_secret_but_that_of_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("sluice.yaml");
    let config = |store: &str| {
        let secret = "env:SLUICE_NO_SUCH_KEY";
        let text = format!(
            "upstreams: {{ a: {{ base_url: \"http://127.0.0.1:9/v1\", credentials: [ '{secret}' ], models: {{ m: {{}} }} }} }}
routes: {{ r: {{ targets: [ a/m ] }} }}
callers: [ {{ name: one, key: '{secret}' }} ]
records: {{ {store} }}
"
        );
        std::fs::write(&file, text).expect("a file");
    };
    let path = file.display().to_string();
    config("sqlite: records.sqlite");
    std::fs::write(dir.path().join("records.sqlite"), "").expect("a file");
    assert_eq!(look(&["-c", &path]).await, (Some(0), "no such records\n".to_owned(), String::new()));
    config("postgres: 'env:SLUICE_NO_SUCH_STORE'");
    let (code, _, err) = look(&["-c", &path]).await;
    assert_eq!((code, err.lines().count()), (Some(2), 1), "{err}");
    assert!(err.contains("records.postgres: environment variable SLUICE_NO_SUCH_STORE is not set"), "{err}");
}

/// The gateway with files of at most 64 KiB, which is a full disk in small: writes stop half-way.
fn cramped(dir: &std::path::Path) -> std::path::PathBuf {
    let script = dir.join("cramped");
    let text = format!("#!/bin/bash\ntrap '' XFSZ\nulimit -S -f 64\nexec {} \"$@\"\n", binary().display());
    std::fs::write(&script, text).expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    script
}

#[tokio::test]
async fn a_full_disk_stops_no_call_and_once_there_is_room_every_record_is_there_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut x = Setup::new().program(cramped(dir.path())).set("/records", json!({})).start().await;
    let mut made = load(&x, 150).await;
    let full = x.poll(harness::PATIENCE, async || {
        !x.gateway.events("records_away").is_empty() && !x.gateway.events("records_spool_away").is_empty()
    });
    assert!(full.await, "{}", x.gateway.log());
    assert_eq!(x.get("/readyz").await.status, 200);
    made.extend(load(&x, 20).await);
    let pid = x.gateway.pid().expect("it runs").to_string();
    let lifted =
        tokio::process::Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:"]).status().await;
    assert!(lifted.is_ok_and(|status| status.success()));
    let stored = x.poll(harness::PATIENCE, async || {
        x.metric("sluice_records_written_total", &[("to", "database")]).await >= 170.0
            && x.metric("sluice_records_spooled", &[]).await == 0.0
    });
    assert!(stored.await, "{}\n{}", x.metrics().await.text, x.gateway.log());
    assert_eq!(x.metric("sluice_records_dropped_total", &[]).await, 0.0);
    assert_eq!(x.gateway.stop().await, 0);
    let found = ids(&x.gateway.dir().join("state/records.sqlite").display().to_string()).await;
    assert_eq!((found.len(), found.into_iter().collect::<BTreeSet<_>>()), (170, made));
}

#[tokio::test]
async fn a_gateway_that_is_killed_again_and_again_keeps_what_was_acknowledged() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("records.sqlite").display().to_string();
    let records = json!({"sqlite": path, "spool": {"dir": dir.path().join("spool").display().to_string()}});
    let mut acknowledged = 0.0;
    for _ in 0..3 {
        let x = Setup::new().wide_gates().set("/records", records.clone()).start().await;
        let written = async || x.metric("sluice_records_written_total", &[("to", "database")]).await;
        let killed = async {
            assert!(x.poll(harness::PATIENCE, async || written().await >= 60.0).await, "{}", x.gateway.log());
            acknowledged += written().await;
            let pid = x.gateway.pid().expect("it runs").to_string();
            // Holding up the calls beside it, which would find nobody in the moment before it has ended.
            let sent = std::process::Command::new("kill").args(["-KILL", &pid]).status();
            assert!(sent.is_ok_and(|status| status.success()));
        };
        tokio::select! {
            () = killed => {}
            () = async { loop { x.plain("chat").await; } } => unreachable!(),
        }
    }
    let found = ids(&path).await;
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "twice");
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let there = found.len() as f64;
    assert!(there >= acknowledged, "{there} of {acknowledged}");
}
