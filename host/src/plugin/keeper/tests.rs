//! The keeper taken by the hand: results arrive when a test lets them.

use super::super::tests::support::*;
use super::super::{Ask, BuiltinSettings, Plugin};
use super::*;

async fn keeper(bench: &Bench) -> Keeper {
    let host = Host::get().unwrap();
    let (_, inbox) = mpsc::channel(1);
    let state_dir = bench.root.path().join("state");
    let (watch, tracker) = (bench.recorder.clone(), bench.tracker.clone());
    Keeper::start(host, setup(bench), &state_dir, watch, tracker, inbox).await.unwrap().keeper
}

fn setup(bench: &Bench) -> Setup {
    Setup {
        plugins: bench.settings.clone(),
        targets: targets(bench.targets).into(),
        builtin: BuiltinSettings::default(),
    }
}

impl Keeper {
    fn entry(&self, file: &str) -> &Entry {
        self.entries.get(file).unwrap_or_else(|| panic!("{:#?}", self.entries.keys()))
    }

    fn digest(&self, file: &str) -> Option<String> {
        self.entry(file).running.as_ref().map(|plugin| plugin.digest().to_string())
    }

    /// Looks whenever a file is due until `holds`.
    async fn look_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let until = clock::now() + PATIENCE;
        loop {
            self.look().await;
            if holds(self) {
                return;
            }
            assert!(clock::now() < until, "{what}");
            let settle = self.setup.plugins.settle;
            let due = self.entries.values().filter_map(|entry| entry.due(settle)).min();
            tokio::time::sleep_until(due.unwrap_or(clock::now() + settle).into()).await;
        }
    }

    async fn take_result(&mut self) {
        let done = self.results.recv().await.unwrap();
        self.apply(done);
    }
}

async fn fail(plugin: &Plugin, times: usize) {
    let mut request = request();
    request.headers.push(("x-fault".into(), "trap".into()));
    for _ in 0..times {
        assert!(plugin.ask(Ask::Score(&request, moment(), &candidates(2))).await.is_err());
    }
}

#[tokio::test]
async fn a_file_that_is_deleted_while_it_is_admitted_does_not_run_again() {
    let bench = Bench::with_folder();
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    let mut keeper = keeper(&bench).await;
    bench.put("a.wasm", &variant(PluginKind::Router, 2));
    keeper.look_until("nothing began", |keeper| keeper.entry("a.wasm").job.is_some()).await;
    let late = keeper.results.recv().await.unwrap();
    std::fs::remove_file(bench.path("a.wasm")).unwrap();
    keeper
        .look_until("it was not unloaded", |keeper| keeper.entry("a.wasm").state == PluginState::Removed)
        .await;
    keeper.apply(late);
    assert_eq!((keeper.digest("a.wasm"), keeper.entry("a.wasm").state), (None, PluginState::Removed));
}

#[tokio::test]
async fn a_file_that_is_missing_when_it_is_admitted_begins_to_run_only_once_it_is_back() {
    let mut bench = Bench::with_folder();
    let (one, two) = (variant(PluginKind::Router, 1), variant(PluginKind::Router, 2));
    bench.put("a.wasm", &one);
    let mut keeper = keeper(&bench).await;
    bench.put("a.wasm", &two);
    keeper.look_until("nothing began", |keeper| keeper.entry("a.wasm").job.is_some()).await;
    let late = keeper.results.recv().await.unwrap();
    // From here on no time that passes unloads it.
    bench.settings.settle = Duration::from_secs(600);
    keeper.setup.plugins.settle = bench.settings.settle;
    let away = bench.root.path().join("away.wasm");
    std::fs::rename(bench.path("a.wasm"), &away).unwrap();
    keeper.look().await;
    let before = keeper.digest("a.wasm");
    keeper.apply(late);
    assert_eq!(keeper.digest("a.wasm"), before, "what is not there began to run");
    keeper.setup.plugins.settle = Duration::ZERO;
    std::fs::rename(&away, bench.path("a.wasm")).unwrap();
    keeper.look().await;
    keeper.take_result().await;
    assert_eq!(keeper.digest("a.wasm"), Some(super::super::compiled::digest(&two).to_string()));
}

#[tokio::test]
async fn a_result_for_another_folder_is_not_taken_for_that_of_a_file_of_the_same_name() {
    let mut bench = Bench::with_folder();
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    let mut keeper = keeper(&bench).await;
    bench.put("a.wasm", &variant(PluginKind::Router, 2));
    keeper.look_until("nothing began", |keeper| keeper.entry("a.wasm").job.is_some()).await;
    let late = keeper.results.recv().await.unwrap();
    bench.settings.dir = bench.root.path().join("other.d");
    std::fs::create_dir(&bench.settings.dir).unwrap();
    bench.put("a.wasm", &variant(PluginKind::Router, 3));
    keeper.reconfigure(setup(&bench)).await.unwrap();
    let runs = keeper.digest("a.wasm");
    assert_eq!(runs, Some(super::super::compiled::digest(&variant(PluginKind::Router, 3)).to_string()));
    bench.put("a.wasm", &variant(PluginKind::Router, 4));
    keeper.look_until("nothing began", |keeper| keeper.entry("a.wasm").job.is_some()).await;
    let job = keeper.entry("a.wasm").job;
    keeper.apply(late);
    assert_eq!((keeper.digest("a.wasm"), keeper.entry("a.wasm").job), (runs, job));
}

/// A version that failed in service is about to give way to this one.
async fn rolling_back() -> (Bench, Keeper, Option<String>) {
    let bench = Bench::with_folder();
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    let mut keeper = keeper(&bench).await;
    let good = keeper.digest("a.wasm");
    bench.put("a.wasm", &faulty(1));
    keeper.look_until("nothing began", |keeper| keeper.entry("a.wasm").job.is_some()).await;
    keeper.take_result().await;
    assert_ne!(keeper.digest("a.wasm"), good);
    fail(&keeper.entry("a.wasm").running.clone().unwrap(), 5).await;
    keeper.roll_back();
    (bench, keeper, good)
}

#[tokio::test]
async fn a_roll_back_that_a_new_configuration_overtakes_is_made_all_the_same() {
    let (bench, mut keeper, good) = rolling_back().await;
    assert!(keeper.entry("a.wasm").job.is_some());
    keeper.reconfigure(setup(&bench)).await.unwrap();
    keeper.take_result().await;
    assert!(keeper.entry("a.wasm").job.is_some(), "what ran before is lost");
    keeper.take_result().await;
    assert_eq!((keeper.digest("a.wasm"), keeper.entry("a.wasm").state), (good, PluginState::LastGood));
}

#[tokio::test]
async fn what_ran_before_is_not_lost_when_a_new_configuration_overtakes_its_coming_back() {
    let (_bench, mut keeper, good) = rolling_back().await;
    keeper.take_result().await;
    assert_eq!(keeper.digest("a.wasm"), good);
    // As after targets that it did not take.
    let file: Arc<str> = "a.wasm".into();
    keeper.entries.get_mut(&file).unwrap().running = None;
    keeper.restore(&file);
    let late = keeper.results.recv().await.unwrap();
    keeper.shop.epoch += 1;
    keeper.apply(late);
    while keeper.entry("a.wasm").job.is_some() {
        keeper.take_result().await;
    }
    assert_eq!((keeper.digest("a.wasm"), keeper.entry("a.wasm").state), (good, PluginState::LastGood));
}

#[tokio::test]
async fn a_configuration_waits_for_new_bytes_only_where_nothing_runs() {
    let mut bench = Bench::with_folder();
    bench.settings.settle = Duration::from_secs(600);
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    let mut keeper = keeper(&bench).await;
    bench.put("a.wasm", &variant(PluginKind::Router, 2));
    keeper.look().await;
    let now = clock::now();
    let until = now + Duration::from_secs(10);
    assert!(keeper.entry("a.wasm").due(bench.settings.settle).is_some());
    assert_eq!(keeper.next_of_idle(now, until), None);
    let file: Arc<str> = "a.wasm".into();
    let entry = keeper.entries.get_mut(&file).unwrap();
    entry.running = None;
    let due = entry.due(bench.settings.settle);
    assert_eq!(keeper.next_of_idle(now, until), due);
    // What is tried again much later holds nothing up.
    keeper.entries.get_mut(&file).unwrap().again(now + bench.settings.settle * 100);
    assert_eq!(keeper.next_of_idle(now, until), None);
    keeper.restore(&file);
    assert_eq!(keeper.next_of_idle(now, until), Some(until));
}

#[tokio::test]
async fn a_configuration_finds_a_plugin_that_nobody_has_looked_at_yet() {
    let bench = Bench::with_folder();
    let mut keeper = keeper(&bench).await;
    bench.put("a.wasm", &variant(PluginKind::Router, 1));
    let set = keeper.reconfigure(setup(&bench)).await.unwrap();
    assert_eq!(set.active().len(), 1);
}
