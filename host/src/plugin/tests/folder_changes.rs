use std::fs;
use std::io::Write;
use std::time::Duration;

use sluice_core::facts::PluginKind;

use super::support::*;
use crate::plugin::compiled::digest;
use crate::plugin::{BuiltinSettings, PluginState, Reason, Registry};

fn running(registry: &Registry) -> Vec<String> {
    registry.current().active().iter().map(|plugin| plugin.digest().to_string()).collect()
}

async fn until_runs(registry: &Registry, bytes: &[&[u8]]) {
    let wanted: Vec<String> = bytes.iter().map(|bytes| digest(bytes).to_string()).collect();
    let mut sets = registry.subscribe();
    let waiting = sets.wait_for(|set| {
        set.active().iter().map(|plugin| plugin.digest().to_string()).collect::<Vec<_>>() == wanted
    });
    if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
        panic!("expected {wanted:?}: {:#?}", registry.status());
    }
}

#[tokio::test]
async fn a_file_that_is_renamed_into_place_replaces_what_ran() {
    let bench = Bench::with_folder();
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2));
    bench.put("a.wasm", &one);
    let registry = bench.start().await;
    assert_eq!(running(&registry), [digest(&one).to_string()]);
    let kept = registry.current();
    bench.put("a.wasm", &two);
    until_runs(&registry, &[&two]).await;
    assert_eq!(*kept.active()[0].digest(), digest(&one), "a request in flight keeps what it began with");
    bench.put("a.wasm", &one);
    until_runs(&registry, &[&one]).await;
    assert_eq!(bench.recorder.count("rejected"), 0);
}

#[tokio::test]
async fn a_file_written_in_two_halves_is_never_refused_and_then_runs() {
    let mut bench = Bench::with_folder();
    // Wide enough that a busy machine writes the second half well before patience ends.
    bench.settings.settle = std::time::Duration::from_millis(600);
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2));
    bench.put("a.wasm", &one);
    let registry = bench.start().await;
    let mut file = fs::File::create(bench.path("a.wasm")).unwrap();
    file.write_all(&two[..two.len() / 2]).unwrap();
    // The writer's pause: longer than the settle time, shorter than the time a broken file is given.
    tokio::time::sleep(bench.settings.settle * 5 / 4).await;
    assert_eq!(running(&registry), [digest(&one).to_string()]);
    file.write_all(&two[two.len() / 2..]).unwrap();
    drop(file);
    until_runs(&registry, &[&two]).await;
    assert_eq!(bench.recorder.count("rejected"), 0, "{:#?}", bench.recorder.lines());
}

#[tokio::test]
async fn junk_keeps_the_last_good_version_and_says_why() {
    let bench = Bench::with_folder();
    let one = variant(PluginKind::Router, 1);
    bench.put("a.wasm", &one);
    let registry = bench.start().await;
    for (at, junk) in [b"junk".to_vec(), Vec::new(), b"\0asm\x0d\0\x01\0".to_vec()].into_iter().enumerate() {
        fs::write(bench.path("a.wasm"), junk).unwrap();
        bench.recorder.wait_for("rejected a", at + 1).await;
        until_state(&registry, "a.wasm", PluginState::LastGood).await;
        assert_eq!(running(&registry), [digest(&one).to_string()]);
    }
    assert_eq!(
        entry(&registry, "a.wasm").rejection.map(|rejection| rejection.reason),
        Some(Reason::Contract)
    );
    bench.put("a.wasm", &one);
    until_state(&registry, "a.wasm", PluginState::Active).await;
    assert_eq!(entry(&registry, "a.wasm").rejection, None, "what runs is in the file again");
    assert_eq!(bench.recorder.count("loaded a"), 1, "and was never loaded again");
}

#[tokio::test]
async fn a_mounted_configuration_that_swaps_its_data_link_takes_effect() {
    let bench = Bench::with_folder();
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2));
    let versions = [("..v1", &one), ("..v2", &two)];
    for (folder, bytes) in versions {
        fs::create_dir(bench.path(folder)).unwrap();
        fs::write(bench.path(folder).join("a.wasm"), bytes).unwrap();
    }
    std::os::unix::fs::symlink("..v1", bench.path("..data")).unwrap();
    std::os::unix::fs::symlink("..data/a.wasm", bench.path("a.wasm")).unwrap();
    let registry = bench.start().await;
    assert_eq!(running(&registry), [digest(&one).to_string()]);
    std::os::unix::fs::symlink("..v2", bench.path("..data_tmp")).unwrap();
    fs::rename(bench.path("..data_tmp"), bench.path("..data")).unwrap();
    until_runs(&registry, &[&two]).await;
}

#[tokio::test]
async fn a_removed_file_is_unloaded_and_the_others_are_not_touched() {
    let bench = Bench::with_folder();
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2));
    bench.put("a.wasm", &one);
    bench.put("b.wasm", &two);
    let registry = bench.start().await;
    until_runs(&registry, &[&one, &two]).await;
    let kept = registry.current().active()[1].clone();
    fs::remove_file(bench.path("a.wasm")).unwrap();
    until_runs(&registry, &[&two]).await;
    assert!(std::sync::Arc::ptr_eq(&kept, &registry.current().active()[0]));
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::Removed);
    fs::remove_file(bench.path("b.wasm")).unwrap();
    until_runs(&registry, &[]).await;
    bench.put("a.wasm", &one);
    until_runs(&registry, &[&one]).await;
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::Active);
}

#[tokio::test]
async fn a_folder_that_goes_away_keeps_what_runs_and_counts_again_when_it_is_back() {
    let bench = Bench::with_folder();
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Tagger, 2));
    bench.put("a.wasm", &one);
    let registry = bench.start().await;
    let away = bench.root.path().join("away");
    fs::rename(&bench.settings.dir, &away).unwrap();
    // An empty folder in its place is one whose files have not come yet.
    fs::create_dir(&bench.settings.dir).unwrap();
    // Commands are taken in order: once the second is answered, the look of the first was made.
    let looked = async || {
        registry.look();
        registry.reconfigure(&bench.settings, targets(2), BuiltinSettings::default()).await.unwrap();
    };
    looked().await;
    // So long a file may be missing from a folder that took the place of another before it is unloaded.
    tokio::time::sleep(bench.settings.rescan).await;
    looked().await;
    assert_eq!(running(&registry), [digest(&one).to_string()]);
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::Active);
    bench.put("b.wasm", &two);
    // The new folder has files of its own now, and a is not among them.
    until_runs(&registry, &[&two]).await;
    bench.put("a.wasm", &one);
    until_runs(&registry, &[&one, &two]).await;
}

#[tokio::test]
async fn a_folder_that_was_replaced_by_one_that_stays_empty_has_no_plugins_in_the_end() {
    let mut bench = Bench::with_folder();
    bench.settings.rescan = Duration::from_millis(100);
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    let registry = bench.start().await;
    let replaced = crate::clock::now();
    fs::rename(&bench.settings.dir, bench.root.path().join("away")).unwrap();
    fs::create_dir(&bench.settings.dir).unwrap();
    until(&registry, "nothing says so", |_| registry.folder().is_some_and(|said| said.contains("empty")))
        .await;
    until_state(&registry, "a.wasm", PluginState::Removed).await;
    let took = crate::clock::now() - replaced;
    assert!(took >= bench.settings.rescan * 6, "its files had {took:?} to come");
    assert_eq!((running(&registry).len(), bench.recorder.count("removed a")), (0, 1));
    until(&registry, "it is still said", |_| registry.folder().is_none()).await;
}

#[tokio::test]
async fn a_configuration_that_names_a_folder_that_is_not_there_keeps_what_runs_until_it_is() {
    let mut bench = Bench::with_folder();
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Tagger, 2));
    bench.put("a.wasm", &one);
    bench.put("a.yaml", b"on_error: deny\n");
    let registry = bench.start().await;
    bench.settings.dir = bench.root.path().join("other.d");
    let set = registry.reconfigure(&bench.settings, targets(3), BuiltinSettings::default()).await.unwrap();
    assert_eq!((set.active().len(), set.targets().len()), (1, 3), "a guard is gone without a word");
    assert_eq!(bench.recorder.count("removed"), 0);
    let said = registry.folder().unwrap();
    assert!(said.contains("other.d is gone or cannot be read; what runs is kept"), "{said}");
    fs::create_dir(&bench.settings.dir).unwrap();
    bench.put("b.wasm", &two);
    until_runs(&registry, &[&two]).await;
    assert_eq!(registry.folder(), None);
}

#[tokio::test]
async fn a_configuration_that_names_another_folder_has_its_plugins_from_the_beginning() {
    let mut bench = Bench::with_folder();
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    let registry = bench.start().await;
    bench.settings.dir = bench.root.path().join("other.d");
    fs::create_dir(&bench.settings.dir).unwrap();
    let two = variant(PluginKind::Router, 2);
    bench.put("a.wasm", &two);
    bench.put("guard.wasm", b"no plugin");
    bench.put("guard.yaml", b"on_error: deny\n");
    let set = registry.reconfigure(&bench.settings, targets(2), BuiltinSettings::default()).await.unwrap();
    let runs: Vec<_> = set.active().iter().map(|plugin| plugin.digest().to_string()).collect();
    assert_eq!(runs, [digest(&two).to_string()], "{:#?}", registry.status());
    assert_eq!(set.denying(), ["guard".into()], "calls rely on what is there from the beginning");
}

#[tokio::test]
async fn a_folder_that_was_not_there_at_the_start_is_found() {
    let bench = Bench::new();
    let registry = bench.start().await;
    assert_eq!(running(&registry), Vec::<String>::new());
    fs::create_dir(&bench.settings.dir).unwrap();
    let one = variant(PluginKind::Router, 1);
    bench.put("a.wasm", &one);
    until_runs(&registry, &[&one]).await;
}

#[tokio::test]
async fn the_timer_finds_what_no_event_told() {
    let mut bench = Bench::with_folder();
    bench.settings.rescan = Duration::from_millis(50);
    // A link to a file outside: what happens there sends no event to anybody who watches the folder.
    let outside = bench.root.path().join("outside.wasm");
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2));
    fs::write(&outside, &one).unwrap();
    std::os::unix::fs::symlink(&outside, bench.path("a.wasm")).unwrap();
    let registry = bench.start().await;
    fs::write(&outside, &two).unwrap();
    until_runs(&registry, &[&two]).await;
}

#[tokio::test]
async fn a_restart_with_a_bad_file_runs_what_last_ran() {
    let bench = Bench::with_folder();
    let one = variant(PluginKind::Router, 1);
    bench.put("a.wasm", &one);
    let registry = bench.start().await;
    let note = bench.root.path().join("state/plugins/a.json");
    // It is written when the disk has time.
    until(&registry, "nothing was kept", |_| note.exists()).await;
    drop(registry);
    bench.put("a.wasm", b"junk");
    let registry = bench.start().await;
    assert_eq!(running(&registry), [digest(&one).to_string()]);
    let status = entry(&registry, "a.wasm");
    assert_eq!(
        (status.state, status.rejection.map(|it| it.reason)),
        (PluginState::LastGood, Some(Reason::Magic))
    );
}

#[tokio::test]
async fn one_bad_plugin_does_not_hold_up_the_others() {
    let bench = Bench::with_folder();
    let registry = bench.start().await;
    bench.put("a.wasm", b"junk");
    bench.recorder.wait_for("rejected a magic", 1).await;
    let one = variant(PluginKind::Tagger, 1);
    bench.put("b.wasm", &one);
    until_runs(&registry, &[&one]).await;
    assert_eq!(entry(&registry, "a.wasm").state, PluginState::Rejected);
}

#[tokio::test]
async fn the_keeper_ends_when_it_is_told_to() {
    let bench = Bench::with_folder();
    let registry = bench.start().await;
    bench.stop.cancel();
    bench.tracker.close();
    tokio::time::timeout(PATIENCE, bench.tracker.wait()).await.unwrap();
    let again = registry.reconfigure(&bench.settings, targets(1), Default::default()).await;
    assert!(again.is_err(), "nobody is there any more");
}

/// A pipe in the place of a file: whoever writes it waits until the end of the test.
struct Stuck(std::path::PathBuf);

impl Stuck {
    fn new(path: std::path::PathBuf) -> Self {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self(path)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        // Both ends at once, and for good: then nobody waits any more.
        let both = std::fs::OpenOptions::new().read(true).write(true).open(&self.0);
        std::mem::forget(both);
    }
}

#[tokio::test]
async fn a_disk_that_does_not_answer_holds_up_no_plugin() {
    let bench = Bench::with_folder();
    let _stuck = Stuck::new(bench.root.path().join("state/plugins/a.tmp"));
    let registry = bench.start().await;
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    until_state(&registry, "a.wasm", PluginState::Active).await;
    bench.put("b.wasm", &variant(PluginKind::Router, 2));
    until_state(&registry, "b.wasm", PluginState::Active).await;
}

#[tokio::test]
async fn a_folder_that_is_deleted_and_made_again_is_watched_again() {
    let mut bench = Bench::with_folder();
    // The timer is no help here: what is seen is seen by events.
    bench.settings.rescan = Duration::from_secs(3600);
    let (one, two, three) =
        (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2), variant(PluginKind::Router, 3));
    bench.put("a.wasm", &one);
    let registry = bench.start().await;
    for next in [&two, &three] {
        fs::remove_dir_all(&bench.settings.dir).unwrap();
        fs::create_dir(&bench.settings.dir).unwrap();
        bench.put("a.wasm", next);
        until_runs(&registry, &[next]).await;
    }
    assert_eq!(bench.recorder.count("removed"), 0, "{:#?}", bench.recorder.lines());
}

#[tokio::test]
async fn an_editor_that_renames_what_it_replaces_unloads_nothing() {
    let mut bench = Bench::with_folder();
    bench.settings.settle = Duration::from_millis(200);
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2));
    bench.put("a.wasm", &one);
    bench.put("a.yaml", b"weight: 2\n");
    let registry = bench.start().await;
    fs::write(bench.path("4913"), b"").unwrap();
    fs::remove_file(bench.path("4913")).unwrap();
    fs::rename(bench.path("a.wasm"), bench.path("a.wasm~")).unwrap();
    fs::rename(bench.path("a.yaml"), bench.path("a.yaml~")).unwrap();
    // The editor's pause, in which there is no file of the name.
    tokio::time::sleep(bench.settings.settle / 2).await;
    fs::write(bench.path("a.wasm"), &two).unwrap();
    fs::write(bench.path("a.yaml"), b"weight: 3\n").unwrap();
    fs::remove_file(bench.path("a.wasm~")).unwrap();
    until_runs(&registry, &[&two]).await;
    assert!((registry.current().active()[0].options().weight - 3.0).abs() < 1e-9);
    assert_eq!((bench.recorder.count("removed"), bench.recorder.count("rejected")), (0, 0));
    assert_eq!(bench.recorder.count("loaded a"), 2, "{:#?}", bench.recorder.lines());
}

#[tokio::test]
async fn the_same_bytes_written_again_and_again_are_loaded_once() {
    let mut bench = Bench::with_folder();
    bench.settings.settle = Duration::from_millis(10);
    let one = variant(PluginKind::Router, 1);
    bench.put("a.wasm", &one);
    bench.put("a.yaml", b"weight: 2\n");
    let registry = bench.start().await;
    let set = registry.current();
    for at in 0..20_u8 {
        bench.put("a.wasm", &one);
        bench.put("a.yaml", format!("weight: 2 # {at}\n").as_bytes());
        // Each of these is a whole look; the last of them has seen the files above.
        bench.put("b.wasm", &variant(PluginKind::Tagger, at));
        bench.recorder.wait_for("loaded b", usize::from(at) + 1).await;
    }
    assert!(std::sync::Arc::ptr_eq(&set.active()[0], &registry.current().active()[0]));
    assert_eq!(bench.recorder.count("loaded a"), 1);
}

#[tokio::test]
async fn an_older_file_counts_by_its_content_and_not_by_its_time() {
    let bench = Bench::with_folder();
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2));
    bench.put("a.wasm", &one);
    let registry = bench.start().await;
    let old = bench.path(".older");
    fs::write(&old, &two).unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(86_400);
    fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    fs::rename(old, bench.path("a.wasm")).unwrap();
    until_runs(&registry, &[&two]).await;
}
