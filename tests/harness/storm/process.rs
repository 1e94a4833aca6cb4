//! The gateway of a storm: a process whose log is counted, not kept.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::gateway::{FILE, command};

/// Starting, and ending with calls on their way.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was in the log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Records of requests.
    pub records: u64,
    /// Lines about panics, and lines that are none of a log.
    pub bad: Vec<String>,
    /// How the process ended.
    pub code: Option<i32>,
}

pub(super) struct Process {
    child: Child,
    dir: TempDir,
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    readers: JoinSet<Log>,
}

async fn follow(from: impl AsyncRead + Unpin, json: bool, listening: mpsc::Sender<Value>) -> Log {
    let (mut log, mut lines) = (Log::default(), BufReader::new(from).lines());
    while let Ok(Some(line)) = lines.next_line().await {
        if line.contains("\"event\":\"request\"") {
            log.records += 1;
        } else if line.contains("\"event\":\"listening\"") {
            let line = serde_json::from_str(&line).expect("a log line is JSON");
            listening.send(line).await.expect("somebody waits for it");
        }
        if (line.contains("panic") || (json && !line.starts_with('{'))) && log.bad.len() < 20 {
            log.bad.push(line);
        }
    }
    log
}

impl Process {
    /// With these files in its plugin folder.
    pub async fn start(program: &Path, config: &Value, plugins: &[(String, Vec<u8>)]) -> Self {
        let dir = tempfile::Builder::new().prefix("sluice-storm-").tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("plugins.d")).expect("a directory in our own");
        for (name, bytes) in plugins {
            std::fs::write(dir.path().join("plugins.d").join(name), bytes)
                .expect("a file in our own directory");
        }
        std::fs::write(dir.path().join(FILE), config.to_string()).expect("a file in our own directory");
        let mut child = command(program, dir.path())
            .envs([("KEY_ONE", "sk-storm-one-4c1d"), ("KEY_TWO", "sk-storm-two-9f7a")])
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let (told, mut listening) = mpsc::channel(4);
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let mut readers = JoinSet::new();
        readers.spawn(follow(out, true, told.clone()));
        readers.spawn(follow(err, false, told));
        let line = tokio::time::timeout(PATIENCE, listening.recv()).await;
        let line = line.ok().flatten().expect("the gateway did not start");
        let addr = |name: &str| line[name].as_str().and_then(|text| text.parse().ok()).expect("an address");
        Self { child, dir, listen: addr("listen"), admin: addr("admin"), readers }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Resident memory in MiB; 0: the process is gone.
    pub fn memory(&self) -> u64 {
        let status =
            self.child.id().and_then(|id| std::fs::read_to_string(format!("/proc/{id}/status")).ok());
        let kib = status.as_deref().and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok())
        });
        kib.map_or(0, |kib: u64| kib / 1024)
    }

    /// SIGTERM, its end, and what the log held.
    pub async fn stop(mut self) -> Log {
        let mut log = Log::default();
        if let Some(id) = self.child.id() {
            let sent = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
            assert!(sent.is_ok_and(|status| status.success()), "SIGTERM to {id}");
        }
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        log.code = ended.ok().and_then(Result::ok).and_then(|status| status.code());
        while let Some(read) = self.readers.join_next().await {
            let read = read.expect("a reader reads to the end");
            log.records += read.records;
            log.bad.extend(read.bad);
        }
        log
    }
}
