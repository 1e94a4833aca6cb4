//! A registry over a folder of its own, a watch that remembers, and plain facts to ask about. Shared by the tests
//! beside the plugin host and the scenarios, each of which names in `sut` what it is over.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_core::facts::{
    AnswerFacts, BreakerState, Candidate, FailureFacts, Moment, Place, PluginKind, RequestFacts, TagPhase,
    TargetFacts,
};
use sluice_core::kind::Stage;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::sut::config;
use super::sut::plugin::{
    BuiltinSettings, CallResult, LogLine, PluginState, PluginStatus, PluginWatch, Registry, Reload,
    StartError,
};

/// Long enough for a busy machine; only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

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

    /// Lines that begin so.
    pub fn count(&self, prefix: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(prefix)).count()
    }

    /// Waits for the `n`th line that begins so.
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

/// A registry over a folder of its own.
pub struct Bench {
    pub root: TempDir,
    pub settings: config::Plugins,
    /// How many targets plugins are configured with.
    pub targets: u32,
    pub recorder: Arc<Recorder>,
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
}

impl Bench {
    pub fn new() -> Self {
        let root = TempDir::new().unwrap();
        let settings = config::Plugins {
            dir: root.path().join("plugins.d"),
            headers: Vec::new(),
            // Unoptimised host code and busy machines take their time; tests of the deadline set their own.
            deadline: Duration::from_millis(200),
            memory: 16 << 20,
            concurrency: 4,
            settle: Duration::from_millis(60),
            rescan: Duration::from_millis(400),
            probation: Duration::from_secs(300),
            max_file: 64 << 20,
        };
        Self {
            root,
            settings,
            targets: 2,
            recorder: Arc::default(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    pub fn with_folder() -> Self {
        let bench = Self::new();
        std::fs::create_dir(&bench.settings.dir).unwrap();
        bench
    }

    pub async fn start(&self) -> Registry {
        self.try_start(BuiltinSettings::default()).await.unwrap()
    }

    pub async fn try_start(&self, builtin: BuiltinSettings) -> Result<Registry, StartError> {
        Registry::start(
            &self.settings,
            &self.root.path().join("state"),
            targets(self.targets),
            builtin,
            self.recorder.clone(),
            self.tracker.clone(),
            self.stop.clone(),
        )
        .await
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.settings.dir.join(file)
    }

    /// Puts a file in place the safe way.
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

/// The entry of a file.
pub fn entry(registry: &Registry, file: &str) -> PluginStatus {
    let page = registry.status();
    page.iter()
        .find(|entry| entry.file.as_deref() == Some(file))
        .cloned()
        .unwrap_or_else(|| panic!("{page:#?}"))
}

/// Waits until something holds, of the page or of what goes with it: the set that runs, a file that is kept. They have
/// no bell in common, so this looks at them again and again.
pub async fn until(registry: &Registry, what: &str, holds: impl Fn(&[PluginStatus]) -> bool) {
    let waiting = async {
        while !holds(&registry.status()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
        panic!("{what}: {:#?}", registry.status());
    }
}

pub async fn until_state(registry: &Registry, file: &str, state: PluginState) {
    let holds = |page: &[PluginStatus]| {
        page.iter().any(|entry| entry.file.as_deref() == Some(file) && entry.state == state)
    };
    until(registry, &format!("{file} {state:?}"), holds).await;
}

pub fn targets(count: u32) -> Vec<TargetFacts> {
    (0..count)
        .map(|index| TargetFacts {
            index,
            upstream: format!("up{index}"),
            model: "m".into(),
            places: vec![Place { route: "chat".into(), position: index, weight: 1.0 }],
            price_input: Some(1.0),
            price_output: Some(2.0),
            context: Some(8192),
            capabilities: Some(vec!["tools".into()]),
            region: None,
            attributes: vec![("tier".into(), "a".into())],
        })
        .collect()
}

pub fn request() -> RequestFacts {
    RequestFacts {
        id: "0123456789abcdef".into(),
        model: "chat".into(),
        input_tokens: 800,
        streaming: true,
        messages: 4,
        seed: 11,
        ..RequestFacts::default()
    }
}

pub fn moment() -> Moment {
    Moment { attempt: 1, budget_left: Duration::from_secs(20), now_ms: 1_800_000_000_000 }
}

pub fn candidates(count: u32) -> Vec<Candidate> {
    (0..count)
        .map(|target| Candidate {
            target,
            health: 1.0,
            samples: 0,
            latency_p50_ms: Some(300.0),
            latency_p95_ms: Some(900.0),
            first_content_p50_ms: None,
            first_content_p95_ms: None,
            in_flight: 1,
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
        served: Some(1),
        degraded: true,
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
