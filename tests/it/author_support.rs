//! The commands of a plugin's author, run as an author runs them: the built binary, in a folder.

use std::path::{Path, PathBuf};
use std::process::Output;

use harness::gateway::binary;
use tokio::process::Command;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the workspace").to_owned()
}

/// What a command said.
pub struct Said {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs `sluice` with these arguments in `dir`.
pub async fn sluice(dir: &Path, args: &[&str]) -> Said {
    let run = Command::new(binary()).args(args).current_dir(dir).kill_on_drop(true).output();
    let Output { status, stdout, stderr } = run.await.expect("the binary runs");
    Said {
        code: status.code().expect("an exit code"),
        out: String::from_utf8(stdout).expect("text"),
        err: String::from_utf8(stderr).expect("text"),
    }
}

impl Said {
    /// Everything, for a message.
    pub fn all(&self) -> String {
        format!("exit {}\n{}{}", self.code, self.out, self.err)
    }
}
