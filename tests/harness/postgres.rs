//! A PostgreSQL server of a test's own: in a temporary directory, on a socket in it, as a user without rights.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::now;

/// Making the files and starting is slow on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A server, which may be stopped and started. Ended, by its own process id, when it is dropped.
pub struct Postgres {
    dir: TempDir,
    bin: PathBuf,
    /// The user that it runs as; none: the one of the test.
    user: Option<(u32, u32)>,
    server: Option<tokio::process::Child>,
}

impl Postgres {
    /// Makes an empty database `postgres` and starts serving it.
    ///
    /// # Panics
    /// When the server is not installed, or does not start.
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let user = unprivileged();
        if let Some((uid, gid)) = user {
            chown(dir.path(), Some(uid), Some(gid)).expect("a test that is root may give a directory away");
        }
        let mut postgres = Self { dir, bin: programs(), user, server: None };
        let made = postgres
            .run("initdb")
            .args([
                "--username=sluice",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
                "--pgdata",
            ])
            .arg(postgres.data())
            .output()
            .expect("initdb can be executed");
        assert!(made.status.success(), "initdb: {made:?}");
        postgres.resume().await;
        postgres
    }

    /// Starts it again.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn resume(&mut self) {
        let log = std::fs::File::create(self.dir.path().join("log")).expect("a file in our own directory");
        let mut command = self.run("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.dir.path());
        command.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=20"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let server = tokio::process::Command::from(command).kill_on_drop(true).spawn();
        self.server = Some(server.expect("postgres can be executed"));
        let begun = now();
        while !self.psql("SELECT 1").status.success() {
            assert!(now() - begun < START, "postgres does not start: {}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops it at once, as a crash does: connections are torn, nothing is finished.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn crash(&mut self) {
        let mut server = self.server.take().expect("it runs");
        let pid = server.id().expect("it runs").to_string();
        let sent = Command::new("kill").args(["-QUIT", &pid]).status().expect("kill can be executed");
        assert!(sent.success());
        tokio::time::timeout(START, server.wait())
            .await
            .expect("it ends")
            .expect("a child can be waited for");
    }

    /// Where clients find it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres:///postgres?host={}&user=sluice", self.dir.path().display())
    }

    /// What a statement gives, as `psql` writes it: a line for each row, columns with `|` between.
    ///
    /// # Panics
    /// When the server refuses it.
    #[must_use]
    pub fn sql(&self, statement: &str) -> String {
        let output = self.psql(statement);
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn psql(&self, statement: &str) -> Output {
        let mut command = self.run("psql");
        command.args(["-X", "-q", "-A", "-t", "-U", "sluice", "-d", "postgres", "-h"]).arg(self.dir.path());
        command.args(["-v", "ON_ERROR_STOP=1", "-c", statement]).output().expect("psql can be executed")
    }

    fn run(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir(self.dir.path()).env_remove("PGUSER").env_remove("PGHOST").env_remove("PGPORT");
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// What the server has written since it was started.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// The newest that is installed.
fn programs() -> PathBuf {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut found: Vec<(u32, PathBuf)> = installed
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            let bin = path.join("bin");
            bin.join("initdb").exists().then_some((version, bin))
        })
        .collect();
    found.sort();
    found
        .pop()
        .map(|(_, bin)| bin)
        .expect("a PostgreSQL server under /usr/lib/postgresql; tests/run installs it")
}

/// The server refuses to run as root; its package makes a user for it.
fn unprivileged() -> Option<(u32, u32)> {
    let id = |args: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(args).output().ok()?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    (id(&["-u"]) == Some(0)).then(|| {
        let found = id(&["-u", "postgres"]).zip(id(&["-g", "postgres"]));
        found.expect("the user that the package of the server makes")
    })
}
