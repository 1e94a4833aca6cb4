//! How a change of the configuration is found: whatever editors, mounts and operators do to files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use harness::prelude::*;

use crate::expect::has;
use crate::guests::generation;

/// The configuration with this `max_switches`, which is of no consequence and which no
/// route has.
fn marked(x: &Case, mark: u32) -> String {
    let mut config = x.config.clone();
    config["defaults"]["max_switches"] = mark.into();
    serde_json::to_string_pretty(&config).unwrap()
}

async fn shows(x: &Case, mark: u32) {
    let word = format!("max_switches: {mark}\n");
    let shown =
        async || x.gateway.admin_json("/debug/config").await["config"].as_str().unwrap().contains(&word);
    assert!(x.poll(harness::PATIENCE, shown).await, "mark {mark} is not in force\n{}", x.gateway.log());
}

/// A link in the place of whatever is there, in one step.
fn relink(to: &str, at: &Path) {
    let new = at.with_file_name("link-in-the-making");
    symlink(to, &new).unwrap();
    fs::rename(new, at).unwrap();
}

#[tokio::test]
async fn every_way_to_write_a_file_takes_effect() {
    // The timer alone would be far too late.
    let x = Setup::new().set("/plugins/rescan", "10m").start().await;
    let file = x.gateway.file();
    fs::write(&file, marked(&x, 3)).unwrap();
    shows(&x, 3).await;
    let aside = x.gateway.dir().join("sluice.yaml~");
    fs::write(&aside, marked(&x, 4)).unwrap();
    fs::rename(&aside, &file).unwrap();
    shows(&x, 4).await;
    fs::remove_file(&file).unwrap();
    fs::write(&file, marked(&x, 5)).unwrap();
    shows(&x, 5).await;
    fs::rename(&file, &aside).unwrap();
    fs::write(&file, marked(&x, 6)).unwrap();
    shows(&x, 6).await;
    x.reloaded(4).await;
    x.end().await;
}

#[tokio::test]
async fn a_mounted_configuration_is_swapped_by_a_link() {
    let x = Setup::new().set("/plugins/rescan", "10m").start().await;
    let dir = x.gateway.dir();
    for (version, mark) in [("..v1", 3), ("..v2", 4), ("..v3", 5)] {
        fs::create_dir(dir.join(version)).unwrap();
        fs::write(dir.join(version).join("sluice.yaml"), marked(&x, mark)).unwrap();
    }
    relink("..v1", &dir.join("..data"));
    relink("..data/sluice.yaml", &x.gateway.file());
    shows(&x, 3).await;
    relink("..v2", &dir.join("..data"));
    shows(&x, 4).await;
    fs::remove_dir_all(dir.join("..v1")).unwrap();
    relink("..v3", &dir.join("..data"));
    shows(&x, 5).await;
    x.end().await;
}

#[tokio::test]
async fn a_change_that_no_event_tells_is_found_by_the_timer() {
    let x = Setup::new().set("/plugins/rescan", "200ms").start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let real = elsewhere.path().join("real.yaml");
    fs::write(&real, marked(&x, 3)).unwrap();
    relink(real.to_str().unwrap(), &x.gateway.file());
    shows(&x, 3).await;
    fs::write(&real, marked(&x, 4)).unwrap();
    shows(&x, 4).await;
    x.end().await;
}

#[tokio::test]
async fn the_same_mistake_is_told_once_and_again_only_to_who_asks() {
    let x = Setup::new().set("/plugins/rescan", "50ms").start().await;
    let rejected = || x.gateway.events("config_rejected").len();
    let bad = marked(&x, 3).replace("\"routes\"", "\"routs\"");
    fs::write(x.gateway.file(), &bad).unwrap();
    assert!(x.poll(harness::PATIENCE, async || rejected() == 1).await, "{}", x.gateway.log());
    let told = &x.gateway.events("config_rejected")[0];
    has(told, &json!({"reason": "invalid", "mistakes": 2}));
    let message = told["message"].as_str().unwrap();
    assert_eq!(message.lines().count(), 2, "each mistake on a line of its own: {message}");
    assert!(message.lines().all(|line| line.contains("sluice.yaml:")), "{message}");
    // Rescans that read everything, and the same bytes written again.
    fs::write(x.gateway.file(), &bad).unwrap();
    let again = x.poll(ms(1500), async || rejected() > 1).await;
    assert!(!again, "{}", x.gateway.log());
    x.gateway.hang_up().await;
    assert!(x.poll(harness::PATIENCE, async || rejected() == 2).await, "who asks is told nothing");
    // Put right by what runs: nothing to load, and nothing stands against the file any more.
    x.gateway.rewrite(&x.config);
    let standing =
        async || x.gateway.admin_json("/debug/config").await["last_rejection"]["standing"] == false;
    assert!(x.poll(harness::PATIENCE, standing).await);
    assert_eq!(generation(&x).await, 1);
    fs::write(x.gateway.file(), &bad).unwrap();
    assert!(x.poll(harness::PATIENCE, async || rejected() == 3).await, "a mistake that came back");
    x.end().await;
}

#[tokio::test]
async fn a_hang_up_reads_at_once_and_says_what_came_of_it() {
    let x = Setup::new().start().await;
    x.gateway.hang_up().await;
    x.gateway.wait_for_event("config_unchanged", |_| true).await;
    assert_eq!(generation(&x).await, 1);
    fs::write(x.gateway.file(), marked(&x, 3)).unwrap();
    x.gateway.hang_up().await;
    shows(&x, 3).await;
    x.reloaded(1).await;
    x.end().await;
}

#[tokio::test]
async fn a_credential_that_changes_in_its_file_is_used_and_one_that_is_gone_is_refused() {
    let (first, second) = ("sk-scripted-A-in-a-file-1-83a0c5d7", "sk-scripted-A-in-a-file-2-11f2e9b4");
    let x = Setup::new()
        .env("UNUSED_FIRST", first)
        .env("UNUSED_SECOND", second)
        .file("secrets/a", format!("{first}\n"))
        .set("/upstreams/A/credentials", json!(["file:secrets/a"]))
        .set("/plugins/rescan", "10m")
        .start()
        .await;
    x.a.decide(move |attempt| (attempt.key() == Some(first)).then(|| STATUS(401)));
    x.call("solo").await.refused(502, "auth_denied");
    x.call("solo").await.refused(502, "auth_denied").attempts(0);
    let key = x.gateway.dir().join("secrets/a");
    fs::write(&key, second).unwrap();
    x.reloaded(1).await;
    x.call("solo").await.answered().tags("A/a1", false);
    assert_eq!(x.a.attempts().last().unwrap().key(), Some(second));
    fs::remove_file(&key).unwrap();
    let told = x.gateway.wait_for_event("config_rejected", |_| true).await;
    has(&told, &json!({"reason": "invalid"}));
    assert!(told["message"].as_str().unwrap().contains("upstreams.A.credentials[0]"), "{told}");
    x.call("solo").await.answered();
    let page = x.gateway.admin_json("/debug/config").await;
    assert!(page["config"].as_str().unwrap().contains("credentials: [file:secrets/a]"), "{page}");
    fs::write(&key, second).unwrap();
    let standing =
        async || x.gateway.admin_json("/debug/config").await["last_rejection"]["standing"] == false;
    assert!(x.poll(harness::PATIENCE, standing).await, "{}", x.gateway.log());
    x.end().await;
}
