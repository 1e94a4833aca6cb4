//! A whole gateway in virtual time, between scripted upstreams and clients that do what they like, over pipes.
//!
//! Everything random comes from one seed, which a failure names. `SLUICE_SIM_SEED` runs that one alone. The plugins
//! are the bundled ones as they ship; their deadline is long, because its ticks are of real time. What holds for
//! every request and for the whole is looked up in `judge`. `script` and `reading` are the storm's, too.

mod breakers;
mod client;
mod judge;
mod net;
mod reading;
mod script;

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;
use crate::state::TargetPage;
use client::{Answer, Client};
use hyper_util::rt::TokioIo;
use net::Net;

/// Seeds that every run repeats.
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Seeds that no run has had before.
const FRESH: u64 = 2;
/// Calls of one seed.
const CALLS: usize = 700;
/// Counted failures in a row that open a breaker.
const CONSECUTIVE: u32 = 4;
/// Time for a connection.
const CONNECT: Duration = Duration::from_millis(250);
/// Virtual time in which all of them end: thousands of times the budget of one.
const LONGEST: Duration = Duration::from_secs(3600);

/// What one seed decides about the gateway. The rest is decided call by call.
#[derive(Debug, Clone)]
struct Setting {
    budget: Duration,
    reserve: Duration,
    max_switches: u32,
    retries: (u32, u32),
    places: u32,
    callers: usize,
    min_per_second: u32,
}

impl Setting {
    fn new(rng: &mut fastrand::Rng) -> Self {
        Self {
            budget: Duration::from_millis(rng.u64(2000..6000)),
            reserve: Duration::from_millis(300),
            max_switches: rng.u32(0..4),
            retries: (rng.u32(0..3), rng.u32(0..2)),
            places: rng.u32(2..9),
            callers: rng.usize(5..22),
            min_per_second: rng.choice([0, 1, 50]).unwrap(),
        }
    }

    fn config(&self, dir: &Path) -> Config {
        let upstream = |name: &str| {
            json!({"base_url": format!("http://{name}.test/v1"), "models": {"m": {}}, "credentials": ["env:A", "env:B"],
                   "max_in_flight": self.places, "queue": 4, "queue_wait": "400ms"})
        };
        let route = |targets: &[&str], commit: &str| json!({"targets": targets, "commit": commit});
        let config = json!({
            "listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "state_dir": dir.join("state"),
            "plugins": {"dir": dir, "deadline": "5s", "concurrency": 64},
            "upstreams": {"a": upstream("a"), "b": upstream("b"), "c": upstream("c")},
            "defaults": {
                "budget": ms(self.budget), "reserve": ms(self.reserve), "connect": ms(CONNECT), "attempt": "1500ms",
                "first_content": "600ms", "idle": "900ms", "min_budget": "200ms", "max_switches": self.max_switches,
                "retry": {"upstream": self.retries.0, "rate_limit": self.retries.1, "max_wait": "700ms",
                          "backoff": "50ms", "backoff_max": "200ms"},
            },
            "routes": {
                "all": route(&["a/m", "b/m", "c/m"], "first_content"),
                "pair": route(&["c/m", "a/m"], "first_content"),
                "held": route(&["b/m", "c/m", "a/m"], "complete"),
            },
            "gates": {"max_in_flight": 18, "queue": 12, "queue_wait": "800ms"},
            "breaker": {"consecutive": CONSECUTIVE, "open": "700ms", "open_max": "3s",
                        "cooldown": {"rate_limit": "500ms", "model": "500ms", "auth": "300ms", "quota": "300ms"}},
            "retry_budget": {"ratio": 0.3, "min_per_second": self.min_per_second},
            "drain": {"window": "0s", "limit": "60s"}, "log": {"level": "error"},
        });
        config::parse(&config.to_string(), Path::new("sim.yaml"), &|name| Some(name.repeat(9)))
            .unwrap()
            .config
    }
}

fn ms(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// What a run leaves to be judged.
struct Run {
    setting: Setting,
    answers: Vec<Answer>,
    exchanges: Vec<net::Exchange>,
    /// Records by request id; more than one for an id is a fault.
    records: BTreeMap<String, Vec<Value>>,
    metrics: String,
    /// The targets when all was over.
    targets: Vec<TargetPage>,
}

async fn run(seed: u64) -> Run {
    // Jitter of the gateway's own, too.
    fastrand::seed(seed);
    let mut rng = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let setting = Setting::new(&mut rng);
    let net = Arc::new(Net::new(["a", "b", "c"], rng.fork()));
    let (outside, written, _) = outside(Some(net.clone()));
    let gateway = Box::pin(Gateway::start(setting.config(dir.path()), outside)).await.unwrap();
    let cells = gateway.shared.current.load().cells.targets.clone();
    assert_eq!(cells.iter().map(|cell| &**cell.key()).collect::<Vec<_>>(), ["a/m", "b/m", "c/m"]);
    net.watch(cells.clone());
    let main = Arc::new(Main::new(gateway.shared.clone(), gateway.health.clone()));
    let mut callers = JoinSet::new();
    for caller in 0..setting.callers {
        let (main, ends, tracker) =
            (main.clone(), gateway.doors.ends().clone(), gateway.shared.tracker.clone());
        let client = Client::new(rng.fork(), move |io| {
            let serving = crate::server::serve_connection(
                TokioIo::new(io),
                crate::server::Leaving::Unseen,
                main.clone(),
                tracker.clone(),
                ends.clone(),
            );
            tracker.spawn(serving);
        });
        callers.spawn(client.calls(caller, CALLS / setting.callers));
    }
    let mut answers = Vec::new();
    let all = async {
        while let Some(done) = callers.join_next().await {
            answers.extend(done.unwrap());
        }
    };
    // A call that never ends is a fault like any other, and not a test that hangs.
    tokio::time::timeout(LONGEST, all).await.expect("every call ends");
    // Virtual time passes, no test waits: what clients left behind has to be over by then (connections that are let
    // go, streams that are judged, bodies read aside).
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    let targets = cells.iter().map(|cell| cell.page(clock::now())).collect();
    let metrics = metrics(gateway.admin()).await;
    gateway.drain(CancellationToken::new()).await;
    let mut records: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in written.lock().unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["event"] == "request" {
            records.entry(line["request_id"].as_str().unwrap().to_owned()).or_default().push(line);
        }
    }
    let exchanges = net.exchanges();
    Run { setting, answers, exchanges, records, metrics, targets }
}

/// The page as a scraper reads it.
async fn metrics(admin: SocketAddr) -> String {
    let mut socket = TcpStream::connect(admin).await.unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    tokio::time::timeout(PATIENCE, socket.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

fn simulate(seed: u64) {
    // Whatever it dies of.
    println!("SLUICE_SIM_SEED={seed}");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let run = runtime.block_on(async { Box::pin(run(seed)).await });
    let wrong = judge::all(&run);
    println!("{:?}: {:?}", run.setting, judge::outcomes(&run));
    assert!(
        wrong.is_empty(),
        "SLUICE_SIM_SEED={seed} ({:?}), {} wrong:\n{}",
        run.setting,
        wrong.len(),
        wrong.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn whatever_upstreams_and_clients_do_the_promises_hold() {
    if let Ok(seed) = std::env::var("SLUICE_SIM_SEED") {
        simulate(seed.parse().expect("a whole number"));
        return;
    }
    SEEDS.into_iter().for_each(simulate);
    for _ in 0..FRESH {
        simulate(std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), ()) >> 16);
    }
}
