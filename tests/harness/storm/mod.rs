//! A storm: the built gateway for minutes, between upstreams that fail as they like and callers that leave as they
//! like, while its plugins and its configuration are changed under it. In the end everything must be as if nothing
//! had been: gauges at zero, memory flat, books that add up, no answer that was half or mixed.
//!
//! What upstreams say and how answers are read is the simulation's (`host/src/gateway/tests/sim`); there time is
//! virtual and every request is held against its record, here everything is real and there is a lot of it.

mod caller;
mod footprint;
mod process;
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "shared with the simulation, which uses all of it"
)]
#[path = "../../../host/src/gateway/tests/sim/reading.rs"]
mod reading;
mod reloads;
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "shared with the simulation, which uses all of it"
)]
#[path = "../../../host/src/gateway/tests/sim/script.rs"]
mod script;
mod steady;
mod trouble;
mod upstream;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use footprint::{Footprint, Print, Prints};
pub use reloads::{ReloadReport, Reloads};

use crate::client::{fetch, get};
use crate::metrics::Metrics;
use process::Process;
use upstream::{Marks, Upstream};

/// What kind of storm.
#[derive(Debug, Clone)]
pub struct Storm {
    /// The gateway.
    pub program: PathBuf,
    /// How long callers call.
    pub seconds: u64,
    /// Callers at a time.
    pub concurrency: usize,
    /// Of everything random on this side. The timing of a machine is not in it.
    pub seed: u64,
}

/// What was seen. Nothing in `wrong`: every promise was kept.
#[derive(Debug, Default)]
pub struct Report {
    /// Broken promises, the first hundred.
    pub wrong: Vec<String>,
    /// How calls ended, as their callers saw it.
    pub calls: BTreeMap<&'static str, u64>,
    /// Requests by outcome, as the gateway says.
    pub outcomes: BTreeMap<String, f64>,
    /// Resident memory in MiB, second by second.
    pub memory: Vec<u64>,
    /// Changes of plugins and configuration: made, and noticed by result.
    pub changes: BTreeMap<String, f64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "calls as seen by callers: {:?}", self.calls)?;
        writeln!(f, "requests as counted by the gateway: {:?}", self.outcomes)?;
        writeln!(f, "changes: {:?}", self.changes)?;
        let step = self.memory.len().div_ceil(12).max(1);
        let memory: Vec<_> = self.memory.iter().step_by(step).collect();
        writeln!(f, "memory in MiB: {memory:?}, at most {}", self.memory.iter().max().unwrap_or(&0))?;
        match self.wrong.as_slice() {
            [] => write!(f, "every promise was kept"),
            wrong => write!(f, "{} broken promises:\n{}", wrong.len(), wrong.join("\n")),
        }
    }
}

/// What the tasks of a storm share.
struct Shared {
    marks: Marks,
    wrong: Mutex<Vec<String>>,
    calls: Mutex<BTreeMap<&'static str, u64>>,
    over: watch::Sender<bool>,
}

impl Shared {
    fn wrong(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap();
        if wrong.len() < 100 {
            wrong.push(what);
        }
    }

    fn count(&self, what: &'static str) {
        *self.calls.lock().unwrap().entry(what).or_default() += 1;
    }

    /// Ready when callers are to stop.
    async fn over(&self) {
        // The sender is in here, so it cannot be gone.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }
}

/// The gateway's file, with what changes from time to time.
fn config(upstreams: &[Upstream], rng: &mut fastrand::Rng) -> Value {
    let entry = |up: &Upstream| {
        json!({"base_url": up.base_url(), "models": {"m": {}}, "credentials": ["env:KEY_ONE", "env:KEY_TWO"],
               "max_in_flight": 400, "queue": 100, "queue_wait": "500ms"})
    };
    let named: serde_json::Map<String, Value> =
        upstreams.iter().map(|up| (up.name().to_owned(), entry(up))).collect();
    json!({
        "listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "plugins": {"dir": "./plugins.d", "rescan": "1s"},
        "state_dir": "./state", "upstreams": named,
        "defaults": {
            "budget": "4s", "connect": "500ms", "attempt": "2s", "first_content": "800ms", "idle": "1s",
            "min_budget": "200ms", "max_switches": rng.u32(1..4),
            "retry": {"upstream": rng.u32(0..3), "rate_limit": 1, "max_wait": "700ms", "backoff": "50ms"},
        },
        "routes": {
            "all": {"targets": ["a/m", "b/m", "c/m"]},
            "pair": {"targets": ["c/m", "a/m"]},
            "held": {"targets": ["b/m", "c/m"], "commit": "complete"},
        },
        "gates": {"max_in_flight": 2000, "queue": 500},
        "breaker": {"open": "500ms", "open_max": "2s", "cooldown": {"rate_limit": "300ms", "model": "300ms", "auth": "300ms"}},
        "retry_budget": {"min_per_second": 1000},
        "drain": {"window": "0s", "limit": "10s"},
    })
}

impl Storm {
    /// Lets it blow over.
    ///
    /// # Panics
    /// When the gateway does not start, or cannot be asked how it is.
    pub async fn run(&self) -> Report {
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let shared = Arc::new(Shared {
            marks: Marks::default(),
            wrong: Mutex::default(),
            calls: Mutex::default(),
            over: watch::Sender::new(false),
        });
        let mut tasks = JoinSet::new();
        let mut upstreams = Vec::new();
        for name in ["a", "b", "c"] {
            upstreams.push(Upstream::start(name, shared.clone(), rng.fork(), &mut tasks).await);
        }
        let gateway = Process::start(&self.program, &config(&upstreams, &mut rng), &[]).await;
        let mut callers = JoinSet::new();
        for _ in 0..self.concurrency {
            callers.spawn(caller::calls(shared.clone(), gateway.listen, rng.fork()));
        }
        let plugins = trouble::plugins(shared.clone(), gateway.dir().join("plugins.d"), rng.fork());
        let (dir, fork) = (gateway.dir().to_owned(), rng.fork());
        let files = trouble::configuration(shared.clone(), dir, move |rng| config(&upstreams, rng), fork);
        let (plugins, files) = (tasks.spawn(plugins), tasks.spawn(files));
        let mut memory = Vec::new();
        for _ in 0..self.seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            memory.push(gateway.memory());
        }
        shared.over.send_replace(true);
        while let Some(ended) = callers.join_next().await {
            if let Err(error) = ended {
                shared.wrong(format!("a caller panicked: {error}"));
            }
        }
        plugins.abort();
        files.abort();
        let metrics = settled(&gateway).await;
        let mut report = Report { memory, calls: shared.calls.lock().unwrap().clone(), ..Report::default() };
        verdict::at_rest(&metrics, &mut report);
        let log = gateway.stop().await;
        verdict::at_the_end(&log, &metrics, &mut report);
        report.wrong.extend(shared.wrong.lock().unwrap().iter().cloned());
        report
    }
}

/// The metrics once nothing runs any more, or after a while that would be long enough.
async fn settled(gateway: &Process) -> Metrics {
    let deadline = crate::now() + Duration::from_secs(15);
    loop {
        let page = fetch(gateway.admin, &get("/metrics")).await;
        let metrics = Metrics::parse(&String::from_utf8_lossy(&page.body));
        if verdict::is_at_rest(&metrics) || crate::now() > deadline {
            return metrics;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
