//! What plugins cost a gateway that serves: its start, its memory at rest, and the time of the decisions of one request,
//! with the three bundled ones alone and with ten loaded.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::process::Process;
use super::trouble::{SHIPPED, shipped};
use super::{settled, steady};
use crate::client::Client;

/// The example plugins; with copies of the bundled ones they are ten.
const EXAMPLES: [&str; 7] = [
    "cheapest-within-latency",
    "cost-tagger",
    "data-residency",
    "long-prompt",
    "prefer-last",
    "provider-quirks",
    "sticky-session",
];
/// In the place of its own sidecar, which would refuse calls that do not say where they may go.
const ANYWHERE: &str = "settings: { residencies: { eu: [eu] }, without_header: anywhere }\n";
/// A gateway at rest has given back what its start took.
const REST: Duration = Duration::from_secs(1);
/// Longer than any call takes.
const FOR_GOOD: Duration = Duration::from_secs(60);

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Footprint {
    /// The gateway.
    pub program: PathBuf,
    /// Starts, of which the median is told.
    pub starts: usize,
    /// Calls, one after the other.
    pub calls: u32,
}

/// One gateway.
#[derive(Debug, Clone)]
pub struct Print {
    /// Files in its folder.
    pub plugins: usize,
    /// From its beginning until it listens, plugins loaded.
    pub start: Duration,
    /// Resident memory at rest, MiB.
    pub memory: u64,
    /// Calls of plugins that one request makes.
    pub asked: f64,
    /// What all of them take, µs.
    pub decisions: f64,
    /// What one request costs in the gateway, the decisions included, µs.
    pub overhead: f64,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Prints(pub Vec<Print>);

impl fmt::Display for Prints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>16} {:>10} {:>12} {:>16} {:>22} {:>22}",
            "plugins loaded",
            "start",
            "at rest",
            "asked a request",
            "decisions a request",
            "overhead a request"
        )?;
        for print in &self.0 {
            let (start, memory) =
                (format!("{} ms", print.start.as_millis()), format!("{} MiB", print.memory));
            let (decisions, overhead) =
                (format!("{:.1} µs", print.decisions), format!("{:.1} µs", print.overhead));
            write!(
                f,
                "\n{:>16} {start:>10} {memory:>12} {:>16.1} {decisions:>22} {overhead:>22}",
                print.plugins, print.asked
            )?;
        }
        Ok(())
    }
}

fn file(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Ten plugins with the sidecars beside them.
fn ten() -> Vec<(String, Vec<u8>)> {
    let examples =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("examples/plugins");
    let mut files: Vec<_> = SHIPPED.iter().map(|name| (format!("{name}.wasm"), shipped(name))).collect();
    for name in EXAMPLES {
        let folder = examples.join(name);
        files.push((format!("{name}.wasm"), file(&folder.join(format!("{name}.wasm")))));
        let sidecar = format!("{name}.yaml");
        if name == "data-residency" {
            files.push((sidecar, ANYWHERE.into()));
        } else if folder.join(&sidecar).exists() {
            files.push((sidecar.clone(), file(&folder.join(sidecar))));
        }
    }
    files
}

fn config(upstream: std::net::SocketAddr) -> Value {
    let base = format!("http://{upstream}/v1");
    json!({
        "listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "state_dir": "./state",
        "plugins": {"dir": "./plugins.d", "headers": ["x-data-residency"]},
        // The names that the sidecars of the examples have.
        "upstreams": {
            "cloud": {"base_url": base, "models": {"m": {}, "large-context": {}}},
            "relay": {"base_url": base, "models": {"m": {}}},
            "local": {"base_url": base, "models": {"m": {}}},
        },
        "routes": {"all": {"targets": ["cloud/m", "cloud/large-context", "relay/m", "local/m"]}},
        "drain": {"window": "0s", "limit": "10s"},
    })
}

impl Footprint {
    /// Measures it.
    ///
    /// # Panics
    /// When a gateway does not start, refuses a plugin, or does not answer.
    pub async fn run(&self) -> Prints {
        let mut tasks = JoinSet::new();
        let config = config(steady::upstream(Duration::ZERO, &mut tasks).await);
        let mut prints = Vec::new();
        for plugins in [Vec::new(), ten()] {
            prints.push(self.of(&config, &plugins).await);
        }
        Prints(prints)
    }

    async fn of(&self, config: &Value, plugins: &[(String, Vec<u8>)]) -> Print {
        let mut starts = Vec::new();
        let mut last = None;
        for _ in 0..self.starts.max(1) {
            if let Some(gateway) = last.take() {
                Process::stop(gateway).await;
            }
            let began: Instant = crate::now();
            last = Some(Process::start(&self.program, config, plugins).await);
            starts.push(crate::now().duration_since(began));
        }
        starts.sort_unstable();
        let gateway = last.expect("it was started");
        tokio::time::sleep(REST).await;
        let memory = gateway.memory();
        let mut client = Client::open(gateway.listen).await;
        for _ in 0..self.calls {
            client.send(&steady::request(false)).await;
            let response = client.finish_within(FOR_GOOD).await;
            assert_eq!(response.status, 200, "{response:?}");
        }
        drop(client);
        let metrics = settled(&gateway).await;
        let of_a_request = |name| metrics.sum(name, &[]) * 1e6 / f64::from(self.calls.max(1));
        let files = plugins.iter().filter(|(name, _)| name.ends_with(".wasm"));
        let (loaded, expected) =
            (metrics.sum("sluice_plugin_state", &[("state", "active")]), files.clone().count());
        assert!(loaded >= expected as f64, "{loaded} plugins are active, not {expected}");
        let print = Print {
            plugins: expected.max(SHIPPED.len()),
            start: starts[starts.len() / 2],
            memory,
            asked: metrics.sum("sluice_plugin_calls_total", &[]) / f64::from(self.calls.max(1)),
            decisions: of_a_request("sluice_plugin_call_duration_seconds_sum"),
            overhead: of_a_request("sluice_gateway_overhead_seconds_sum"),
        };
        gateway.stop().await;
        print
    }
}
