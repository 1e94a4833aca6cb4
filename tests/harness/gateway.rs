//! A gateway as its users run it: the built binary, a file, two ports, a log, signals.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::PATIENCE;
use crate::client::{fetch, get};
use crate::metrics::Metrics;
use crate::response::Response;

/// Compiling the bundled plugins on a busy machine is the slow part of a start.
const START: Duration = Duration::from_secs(60);
/// The configuration, in the directory of its gateway.
pub(crate) const FILE: &str = "sluice.yaml";
/// Lines kept of one process.
const MAX_LINES: usize = 500_000;

/// The gateway of this build.
///
/// # Panics
/// When it is not built.
#[must_use]
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    // target/PROFILE/deps/NAME
    let profile = test.parent().and_then(Path::parent).expect("a test lies in a target directory");
    let binary = profile.join("sluice");
    assert!(
        binary.exists(),
        "{} is not there: run `cargo build -p sluice` (with `--release` for a release test) before these tests",
        binary.display()
    );
    binary
}

/// A gateway that is to run with the configuration in this directory, which nothing outside of it changes. It
/// is killed when its handle is dropped.
pub(crate) fn command(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["run", "-c"]).arg(dir.join(FILE)).current_dir(dir);
    command.env_remove("SLUICE_LOG").env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// What a process has written, line by line.
#[derive(Clone)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    changed: Arc<watch::Sender<usize>>,
}

impl Log {
    fn new() -> Self {
        Self { lines: Arc::default(), changed: Arc::new(watch::Sender::new(0)) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().expect("a test thread panicked")
    }

    async fn follow(self, from: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let mut kept = self.lock();
            assert!(kept.len() < MAX_LINES, "the gateway wrote {MAX_LINES} lines");
            kept.push(line);
            drop(kept);
            self.changed.send_modify(|n| *n += 1);
        }
    }

    async fn wait<T>(&self, within: Duration, look: impl Fn(&str) -> Option<T>) -> Option<T> {
        let mut changes = self.changed.subscribe();
        let mut seen = 0;
        let wait = async {
            loop {
                {
                    let lines = self.lock();
                    if let Some(found) = lines[seen..].iter().find_map(|line| look(line)) {
                        return found;
                    }
                    seen = lines.len();
                }
                changes.changed().await.expect("the log outlives its waiters");
            }
        };
        tokio::time::timeout(within, wait).await.ok()
    }
}

/// A running gateway. Killed, by its own process id, when it is dropped.
pub struct Gateway {
    child: Child,
    log: Log,
    dir: TempDir,
    listen: SocketAddr,
    admin: SocketAddr,
    _readers: JoinSet<()>,
}

/// A gateway that did not start.
#[derive(Debug)]
pub struct Refused {
    /// Its exit code.
    pub code: Option<i32>,
    /// Everything it wrote.
    pub log: String,
}

impl Gateway {
    /// Starts with this configuration (JSON is YAML), in `dir`, with these variables.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(config: &Value, dir: TempDir, env: &[(String, String)]) -> Self {
        match Self::try_start(config, dir, env).await {
            Ok(gateway) => gateway,
            Err(refused) => {
                panic!("the gateway did not start (exit code {:?}):\n{}", refused.code, refused.log)
            }
        }
    }

    /// The same for a configuration that may be refused.
    ///
    /// # Errors
    /// When it ended instead of listening.
    pub async fn try_start(config: &Value, dir: TempDir, env: &[(String, String)]) -> Result<Self, Refused> {
        Self::launch(&binary(), config, dir, env).await
    }

    /// The same with another program in the gateway's place.
    ///
    /// # Errors
    /// When it ended instead of listening.
    pub async fn launch(
        program: &Path,
        config: &Value,
        dir: TempDir,
        env: &[(String, String)],
    ) -> Result<Self, Refused> {
        write(&dir.path().join(FILE), config);
        let mut child = command(program, dir.path())
            .envs(env.iter().map(|(name, value)| (name, value)))
            .spawn()
            .expect("the gateway can be executed");
        let log = Log::new();
        let mut readers = JoinSet::new();
        readers.spawn(log.clone().follow(child.stdout.take().expect("piped")));
        readers.spawn(log.clone().follow(child.stderr.take().expect("piped")));
        let listening = tokio::select! {
            found = log.wait(START, listening) => found,
            status = child.wait() => {
                // What it wrote last is still in the pipes.
                while readers.join_next().await.is_some() {}
                let code = status.ok().and_then(|status| status.code());
                return Err(Refused { code, log: log.lock().join("\n") });
            }
        };
        let Some((listen, admin)) = listening else {
            panic!("no `listening` line within {START:?}:\n{}", log.lock().join("\n"));
        };
        Ok(Self { child, log, dir, listen, admin, _readers: readers })
    }

    /// The main listener.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.listen
    }

    /// The admin listener.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// For a client library.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.listen)
    }

    /// Where its file, plugins and state lie.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Everything it has written.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().join("\n")
    }

    /// The JSON lines with this `event`.
    #[must_use]
    pub fn events(&self, event: &str) -> Vec<Value> {
        self.log.lock().iter().filter_map(|line| event_line(line, event)).collect()
    }

    /// Waits for a JSON line with this `event` that fits.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn wait_for_event(&self, event: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let look = |line: &str| event_line(line, event).filter(|line| fits(line));
        let found = self.log.wait(PATIENCE, look).await;
        found.unwrap_or_else(|| panic!("no such `{event}` in the log:\n{}", self.log()))
    }

    /// A page of the admin listener.
    pub async fn admin_page(&self, path: &str) -> Response {
        fetch(self.admin, &get(path)).await
    }

    /// The same as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub async fn admin_json(&self, path: &str) -> Value {
        let page = self.admin_page(path).await;
        serde_json::from_slice(&page.body).unwrap_or_else(|error| panic!("{path}: {error}: {page:?}"))
    }

    /// The metrics page.
    ///
    /// # Panics
    /// When there is none.
    pub async fn metrics(&self) -> Metrics {
        let page = self.admin_page("/metrics").await;
        assert_eq!(page.status, 200, "{page:?}");
        Metrics::parse(&String::from_utf8_lossy(&page.body))
    }

    /// Puts another configuration in the place of the one that runs, as an editor does.
    pub fn rewrite(&self, config: &Value) {
        let new = self.dir.path().join("sluice.yaml.new");
        write(&new, config);
        std::fs::rename(new, self.file()).expect("a file of our own can be renamed");
    }

    /// Where its configuration is.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.dir.path().join(FILE)
    }

    /// Sends SIGTERM.
    ///
    /// # Panics
    /// When the process is gone.
    pub async fn terminate(&self) {
        self.signal("TERM").await;
    }

    /// Sends SIGHUP.
    ///
    /// # Panics
    /// When the process is gone.
    pub async fn hang_up(&self) {
        self.signal("HUP").await;
    }

    async fn signal(&self, name: &str) {
        let pid = self.pid().expect("the gateway runs").to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().await;
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} to {pid}");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end, or a signal ended it.
    pub async fn exit_code(&mut self, within: Duration) -> i32 {
        let ended = tokio::time::timeout(within, self.child.wait()).await;
        let status: ExitStatus = match ended {
            Ok(status) => status.expect("a child can be waited for"),
            Err(_) => panic!("the gateway still runs after {within:?}:\n{}", self.log()),
        };
        status.code().unwrap_or_else(|| panic!("ended by signal {:?}:\n{}", status.signal(), self.log()))
    }

    /// SIGTERM, and the exit code.
    pub async fn stop(&mut self) -> i32 {
        self.terminate().await;
        self.exit_code(PATIENCE).await
    }
}

fn write(file: &Path, config: &Value) {
    let text = serde_json::to_string_pretty(config).expect("a value is JSON");
    std::fs::write(file, text).expect("a temporary directory can be written");
}

fn event_line(line: &str, event: &str) -> Option<Value> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line["event"] == event).then_some(line)
}

fn listening(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let line = event_line(line, "listening")?;
    let addr = |name: &str| line[name].as_str().and_then(|text| text.parse().ok());
    Some((addr("listen")?, addr("admin")?))
}
