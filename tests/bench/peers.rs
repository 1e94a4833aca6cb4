//! The processes of a run, each on its core: the upstream, the bare proxies, and the gateway with a file of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use harness::now;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::load::{Figures, Plan};
use crate::place;

const PATIENCE: Duration = Duration::from_secs(60);

/// A process that listens.
pub struct Peer {
    child: Child,
    /// Where.
    pub addr: SocketAddr,
    /// How long it took to listen.
    pub start: Duration,
    /// Goes away with the process.
    _dir: Option<TempDir>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn own() -> PathBuf {
    std::env::current_exe().expect("a running program has a path")
}

impl Peer {
    fn own(core: usize, args: &[&str]) -> Self {
        let begun = now();
        let mut child = place::on(core, &own())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("taskset (util-linux) starts it");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says where it listens");
        let addr = line.trim().parse().expect("an address");
        Self { child, addr, start: now() - begun, _dir: None }
    }

    /// The provider.
    pub fn upstream() -> Self {
        Self::own(place::LOAD, &["--upstream"])
    }

    /// The bare proxy.
    pub fn proxy(upstream: SocketAddr, gathers: bool) -> Self {
        let role = if gathers { "--gathering" } else { "--proxy" };
        Self::own(place::PROXY, &[role, &upstream.to_string()])
    }

    /// The gateway `bin` with `config`, and with the plugins at the paths `plugins` in its folder.
    pub fn gateway(bin: &Path, mut config: Value, plugins: &[PathBuf]) -> Self {
        let dir = tempfile::Builder::new().prefix("sluice-bench-").tempdir().expect("a temporary directory");
        // The gateway watches the folder of its file, and its log is no business of its.
        let (etc, folder) = (dir.path().join("etc"), dir.path().join("plugins.d"));
        for folder in [&etc, &folder] {
            std::fs::create_dir(folder).expect("a directory in our own");
        }
        for plugin in plugins {
            let name = plugin.file_name().expect("a plugin is a file");
            std::fs::copy(plugin, folder.join(name)).expect("a plugin can be copied");
        }
        config["listen"] = json!("127.0.0.1:0");
        config["admin"] = json!("127.0.0.1:0");
        config["state_dir"] = json!(dir.path().join("state"));
        config["plugins"] = json!({"dir": folder});
        let file = etc.join("sluice.yaml");
        std::fs::write(&file, config.to_string()).expect("a file in our own directory");
        let log = dir.path().join("log");
        let out = std::fs::File::create(&log).expect("a file in our own directory");
        let begun = now();
        let child = place::on(place::PROXY, bin)
            .args(["run", "-c"])
            .arg(&file)
            .env_remove("SLUICE_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::inherit())
            .spawn()
            .expect("taskset (util-linux) starts it");
        let mut peer =
            Self { child, addr: ([127, 0, 0, 1], 0).into(), start: Duration::ZERO, _dir: Some(dir) };
        peer.addr = peer.listening(&log, begun);
        peer.start = now() - begun;
        peer
    }

    fn listening(&mut self, log: &Path, begun: Instant) -> SocketAddr {
        loop {
            let lines = std::fs::read_to_string(log).unwrap_or_default();
            let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(line) = events.into_iter().find(|line| line["event"] == "listening") {
                return line["listen"].as_str().and_then(|addr| addr.parse().ok()).expect("an address");
            }
            let ended = self.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "the gateway did not start:\n{lines}");
            assert!(now() < begun + PATIENCE, "the gateway does not listen within {PATIENCE:?}:\n{lines}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// CPU time so far, seconds.
    pub fn cpu(&self) -> f64 {
        place::cpu(self.child.id())
    }

    /// Resident memory, bytes.
    pub fn resident(&self) -> f64 {
        place::resident(self.child.id())
    }

    /// Puts a load on it, and waits for the end. `during` is asked once, `after` has passed.
    pub fn load<T>(&self, plan: &Plan, after: Duration, during: impl FnOnce(&Self) -> T) -> (Figures, T) {
        let plan = Plan { to: self.addr, ..plan.clone() };
        let load = place::on(place::LOAD, &own())
            .arg("--load")
            .arg(serde_json::to_string(&plan).expect("a plan is JSON"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("taskset (util-linux) starts it");
        std::thread::sleep(after);
        let seen = during(self);
        let output = load.wait_with_output().expect("the load ends");
        (serde_json::from_slice(&output.stdout).expect("the load says how it went"), seen)
    }
}
