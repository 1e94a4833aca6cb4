//! A plugin swapped many times under running streams: no stream may be lost, every version has to get its turn, and
//! memory has to stay where it is once the first versions have come and gone.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::process::Process;
use super::trouble::{replace, shipped};
use super::{settled, steady};
use crate::client::{Client, fetch, get};

/// Between the pieces of a stream, so that every reload meets streams on their way.
const PAUSE: Duration = Duration::from_millis(40);
/// Of one reload, and of one stream.
const FOR_GOOD: Duration = Duration::from_secs(60);
/// The reload from which on memory may not grow, where there are that many.
const SETTLED: u64 = 200;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Reloads {
    /// The gateway.
    pub program: PathBuf,
    /// How often the plugin is swapped.
    pub count: u64,
    /// Streams at a time.
    pub concurrency: usize,
    /// The most that resident memory may grow from reload 200, or a fifth of all, to the end, in MiB.
    pub growth: u64,
}

/// What was seen. Nothing in `wrong`: every promise was kept.
#[derive(Debug, Default)]
pub struct ReloadReport {
    /// Broken promises, the first hundred.
    pub wrong: Vec<String>,
    /// Streams that came whole.
    pub streams: u64,
    /// From the first swap to the last.
    pub took: Duration,
    /// Resident memory in MiB before the first swap and after each.
    pub memory: Vec<u64>,
    /// Its growth, in MiB, between the two windows that are compared.
    pub growth: i64,
}

impl fmt::Display for ReloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.memory.len().saturating_sub(1);
        writeln!(f, "{count} reloads in {:.1} s, {} streams whole", self.took.as_secs_f64(), self.streams)?;
        for (at, memory) in self.memory.iter().enumerate().step_by(count.div_ceil(10).max(1)) {
            writeln!(f, "after reload {at:>5}: {memory:>4} MiB resident")?;
        }
        writeln!(f, "growth once settled: {} MiB", self.growth)?;
        match self.wrong.as_slice() {
            [] => write!(f, "every promise was kept"),
            wrong => write!(f, "{} broken promises:\n{}", wrong.len(), wrong.join("\n")),
        }
    }
}

/// What the callers share.
#[derive(Default)]
struct Tally {
    over: AtomicBool,
    whole: AtomicU64,
    wrong: std::sync::Mutex<Vec<String>>,
}

impl Tally {
    fn wrong(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap();
        if wrong.len() < 100 {
            wrong.push(what);
        }
    }
}

async fn streams(tally: Arc<Tally>, gateway: SocketAddr) {
    let mut client = Client::open(gateway).await;
    while !tally.over.load(Ordering::Relaxed) {
        client.send(&steady::request(true)).await;
        let response = client.finish_within(FOR_GOOD).await;
        match steady::missing(&response) {
            None => drop(tally.whole.fetch_add(1, Ordering::Relaxed)),
            Some(what) => {
                tally.wrong(format!("a stream is not whole: {what}"));
                client = Client::open(gateway).await;
            }
        }
    }
}

/// A component that does what the bundled router does, with a digest of its own.
fn version(n: u64) -> Vec<u8> {
    let mut bytes = shipped("weighted-router");
    bytes.extend_from_slice(&[0, 10, 1, b'n']);
    bytes.extend_from_slice(&n.to_le_bytes());
    bytes
}

/// Puts the bytes there and waits until new requests get them. `digest` is of the version before, and becomes theirs.
async fn swap(gateway: &Process, file: &Path, bytes: &[u8], digest: &mut Value) -> Result<(), String> {
    replace(file, bytes);
    let deadline = crate::now() + FOR_GOOD;
    loop {
        let page = fetch(gateway.admin, &get("/debug/plugins")).await;
        let page: Value =
            serde_json::from_slice(&page.body).map_err(|error| format!("/debug/plugins: {error}"))?;
        let mut entries = page["plugins"].as_array().into_iter().flatten();
        let entry = entries.find(|entry| entry["name"] == "swapped");
        if let Some(entry) = entry
            && entry["state"] == "active"
            && entry["digest"] != *digest
        {
            digest.clone_from(&entry["digest"]);
            return Ok(());
        }
        if crate::now() > deadline {
            return Err(format!("a version did not get its turn within {FOR_GOOD:?}: {entry:?}"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn config(upstream: SocketAddr, concurrency: usize) -> Value {
    let entry = json!({"base_url": format!("http://{upstream}/v1"), "models": {"m": {}}, "max_in_flight": 2 * concurrency});
    json!({
        "listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "state_dir": "./state",
        "plugins": {"dir": "./plugins.d", "settle": "20ms", "rescan": "1s"},
        "upstreams": {"a": entry, "b": entry},
        "routes": {"all": {"targets": ["a/m", "b/m"]}},
        "gates": {"max_in_flight": 2 * concurrency},
        "drain": {"window": "0s", "limit": "10s"},
    })
}

impl Reloads {
    /// Does it.
    ///
    /// # Panics
    /// When the gateway does not start, or cannot be asked how it is.
    pub async fn run(&self) -> ReloadReport {
        let mut tasks = JoinSet::new();
        let upstream = steady::upstream(PAUSE, &mut tasks).await;
        let gateway = Process::start(&self.program, &config(upstream, self.concurrency), &[]).await;
        let file = gateway.dir().join("plugins.d/swapped.wasm");
        let (tally, mut callers) = (Arc::new(Tally::default()), JoinSet::new());
        for _ in 0..self.concurrency {
            callers.spawn(streams(tally.clone(), gateway.listen));
        }
        tokio::time::sleep(PAUSE * 10).await;
        let (began, mut memory) = (crate::now(), vec![gateway.memory()]);
        let mut digest = Value::Null;
        for n in 1..=self.count {
            if let Err(what) = swap(&gateway, &file, &version(n), &mut digest).await {
                tally.wrong(format!("reload {n}: {what}"));
                break;
            }
            memory.push(gateway.memory());
        }
        let took = crate::now().duration_since(began);
        tally.over.store(true, Ordering::Relaxed);
        while let Some(ended) = callers.join_next().await {
            if let Err(error) = ended {
                tally.wrong(format!("a caller panicked: {error}"));
            }
        }
        let streams = tally.whole.load(Ordering::Relaxed);
        let growth = growth(&memory);
        let mut report = ReloadReport { streams, took, memory, growth, ..ReloadReport::default() };
        self.judge(gateway, &mut report).await;
        report.wrong.extend(tally.wrong.lock().unwrap().iter().cloned());
        report
    }

    /// Whether the books of the gateway say the same.
    async fn judge(&self, gateway: Process, report: &mut ReloadReport) {
        let metrics = settled(&gateway).await;
        let mut hold = |holds: bool, what: String| {
            if !holds {
                report.wrong.push(what);
            }
        };
        let of =
            |result| metrics.sum("sluice_plugin_reloads_total", &[("plugin", "swapped"), ("result", result)]);
        let (loaded, rejected) = (of("loaded"), of("rejected"));
        hold(
            (loaded - self.count as f64).abs() < 0.5,
            format!("{loaded} versions were loaded, not {}", self.count),
        );
        hold(rejected < 0.5, format!("{rejected} versions were rejected"));
        let good = metrics.sum("sluice_requests_total", &[("outcome", "success")]);
        let all = metrics.sum("sluice_requests_total", &[]);
        hold((all - good).abs() < 0.5, format!("{good} of {all} requests were a success"));
        let streams = report.streams as f64;
        hold((good - streams).abs() < 0.5, format!("{good} requests in the books, {streams} streams seen"));
        let ended = gateway.stop().await;
        hold(ended.code == Some(0), format!("the gateway ended with {:?}", ended.code));
        hold(ended.bad.is_empty(), format!("in the log: {:?}", ended.bad));
        let growth = report.growth;
        let most = i64::try_from(self.growth).unwrap_or(i64::MAX);
        hold(growth <= most, format!("memory grew by {growth} MiB once settled, at most {most}"));
    }
}

/// From the reload at which it has settled to the end: the medians of as many reloads after the one as before the other.
fn growth(memory: &[u64]) -> i64 {
    let last = memory.len().saturating_sub(1);
    let from = usize::try_from(SETTLED).unwrap_or(usize::MAX).min(last / 5);
    let width = (last / 20).clamp(1, 50);
    let median = |window: &[u64]| {
        let mut window = window.to_vec();
        window.sort_unstable();
        i64::try_from(window.get(window.len() / 2).copied().unwrap_or(0)).unwrap_or(i64::MAX)
    };
    let (head, tail) =
        (from..(from + width).min(memory.len()), memory.len().saturating_sub(width)..memory.len());
    median(&memory[tail]) - median(&memory[head])
}

#[cfg(test)]
mod tests {
    use super::growth;

    #[test]
    fn growth_is_what_comes_after_the_first_reloads() {
        let rising: Vec<u64> = (0..=1000).map(|n| if n < 200 { n } else { 200 }).collect();
        assert_eq!(growth(&rising), 0, "it has settled by then");
        let leaking: Vec<u64> = (0..=1000).collect();
        assert_eq!(growth(&leaking), 751, "from the middle of one window to the middle of the other");
        let mut spiked = vec![100; 1001];
        spiked[1000] = 900;
        assert_eq!(growth(&spiked), 0, "one compile at work is no growth");
        assert_eq!(growth(&[5]), 0);
    }
}
