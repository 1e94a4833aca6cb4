//! A plugin registry over a folder of its own, fault guests to put there, and a watch that remembers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice::config;
use sluice::plugin::{
    BuiltinSettings, CallResult, LogLine, PluginState, PluginStatus, PluginWatch, Registry, Reload,
};
use sluice::policy::Policy;
use sluice_core::facts::{
    AnswerFacts, BreakerState, Candidate, FailureFacts, Moment, Place, PluginKind, RequestFacts, TagPhase,
    TargetFacts,
};
use sluice_core::kind::Stage;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Long enough for a busy machine; only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a guest that `tests/guests/build` has built.
pub fn guest(name: &str) -> Vec<u8> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/target/components").join(format!("{name}.wasm"));
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run tests/guests/build first", path.display()))
}

/// Remembers what it was told, one line for each.
#[derive(Debug)]
pub struct Recorder {
    lines: Mutex<Vec<String>>,
    news: watch::Sender<u64>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { lines: Mutex::default(), news: watch::Sender::new(0) }
    }
}

impl Recorder {
    fn add(&self, line: String) {
        self.lines.lock().unwrap().push(line);
        self.news.send_modify(|count| *count += 1);
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub fn count(&self, prefix: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(prefix)).count()
    }

    pub async fn wait_for(&self, prefix: &str, n: usize) {
        let mut news = self.news.subscribe();
        let waiting = async {
            while self.count(prefix) < n {
                news.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("no {n} × `{prefix}` in {:#?}", self.lines());
        }
    }
}

impl PluginWatch for Recorder {
    fn called(&self, plugin: &str, kind: PluginKind, result: CallResult, _: Duration) {
        self.add(format!("called {plugin} {} {}", kind.as_str(), result.as_str()));
    }

    fn reloaded(&self, plugin: &str, change: Reload<'_>) {
        let reason = match change {
            Reload::Rejected { reason, .. } => reason.as_str(),
            _ => "",
        };
        self.add(format!("{} {plugin} {reason}", change.result()).trim_end().to_owned());
    }

    fn log_line(&self, line: &LogLine<'_>) {
        assert!(line.text.len() <= 1024 && !line.text.contains(['\r', '\n']), "{:?}", line.text);
        self.add(format!("log {} {:?} {}", line.plugin, line.source, line.text));
    }

    fn set_aside(&self, plugin: &str, pause: Duration) {
        self.add(format!("set_aside {plugin} {pause:?}"));
    }

    fn last_resort(&self, kind: PluginKind) {
        self.add(format!("last_resort {}", kind.as_str()));
    }
}

/// A folder with guests in it.
pub struct Bench {
    pub root: TempDir,
    pub settings: config::Plugins,
    pub recorder: Arc<Recorder>,
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
}

impl Bench {
    /// With these files: file name and name of the guest.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let root = TempDir::new().unwrap();
        let settings = config::Plugins {
            dir: root.path().join("plugins.d"),
            headers: Vec::new(),
            deadline: Duration::from_millis(50),
            memory: 16 << 20,
            concurrency: 4,
            settle: Duration::from_millis(50),
            rescan: Duration::from_millis(400),
            probation: Duration::from_secs(300),
            max_file: 64 << 20,
        };
        std::fs::create_dir(&settings.dir).unwrap();
        let bench = Self {
            root,
            settings,
            recorder: Arc::default(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        for (file, name) in files {
            bench.put(file, &guest(name));
        }
        bench
    }

    pub async fn start(&self) -> Registry {
        let state = self.root.path().join("state");
        let (builtin, watch) = (BuiltinSettings::default(), self.recorder.clone());
        let started = Registry::start(
            &self.settings,
            &state,
            targets(),
            builtin,
            watch,
            self.tracker.clone(),
            self.stop.clone(),
        );
        started.await.unwrap()
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.settings.dir.join(file)
    }

    pub fn put(&self, file: &str, bytes: &[u8]) {
        let temporary = self.path(&format!(".{file}.tmp"));
        std::fs::write(&temporary, bytes).unwrap();
        std::fs::rename(&temporary, self.path(file)).unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub fn policy(registry: &Registry) -> Policy {
    Policy::new(registry.current(), 1)
}

pub fn entry(registry: &Registry, file: &str) -> PluginStatus {
    let page = registry.status();
    page.iter()
        .find(|entry| entry.file.as_deref() == Some(file))
        .cloned()
        .unwrap_or_else(|| panic!("{page:#?}"))
}

pub async fn until_state(registry: &Registry, file: &str, state: PluginState) {
    let waiting = async {
        while entry(registry, file).state != state {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
        panic!("{file} should be {state:?}: {:#?}", registry.status());
    }
}

pub fn targets() -> Vec<TargetFacts> {
    (0..3)
        .map(|index| TargetFacts {
            index,
            upstream: format!("up{index}"),
            model: "m".into(),
            places: vec![Place { route: "chat".into(), position: index, weight: 1.0 }],
            price_input: None,
            price_output: None,
            context: None,
            capabilities: None,
            region: None,
            attributes: Vec::new(),
        })
        .collect()
}

/// A request with these headers, each with the value `1` unless it has its own after `=`.
pub fn request(headers: &[&str]) -> RequestFacts {
    let header = |header: &&str| {
        let (name, value) = header.split_once('=').unwrap_or((header, "1"));
        (name.to_owned(), value.to_owned())
    };
    RequestFacts {
        id: "0123456789abcdef".into(),
        model: "chat".into(),
        headers: headers.iter().map(header).collect(),
        ..RequestFacts::default()
    }
}

pub fn moment() -> Moment {
    Moment { attempt: 1, budget_left: Duration::from_secs(20), now_ms: 1_800_000_000_000 }
}

pub fn candidates() -> Vec<Candidate> {
    (0..3)
        .map(|target| Candidate {
            target,
            health: 1.0,
            samples: 0,
            latency_p50_ms: None,
            latency_p95_ms: None,
            first_content_p50_ms: None,
            first_content_p95_ms: None,
            in_flight: 0,
            capacity: 64,
            quota_left: None,
            cool_down_ms: 0,
            breaker: BreakerState::Closed,
            failures: 0,
            tried: false,
        })
        .collect()
}

pub fn failure(status: u16) -> FailureFacts {
    FailureFacts {
        target: 0,
        stage: Stage::Body,
        transport_error: None,
        status: Some(status),
        headers: Vec::new(),
        error_type: None,
        error_code: None,
        body: String::new(),
        retry_after: None,
        elapsed: Duration::from_millis(30),
        other_credential: false,
    }
}

pub fn answer(phase: TagPhase) -> AnswerFacts {
    AnswerFacts {
        phase,
        served: Some(0),
        degraded: false,
        failure_kind: None,
        attempts: Vec::new(),
        latency: Duration::from_millis(40),
        first_content: None,
        duration: None,
        status: 200,
        outcome: None,
        error_code: None,
        usage: None,
        max_tokens_lowered: None,
        policy: "g1".into(),
    }
}
