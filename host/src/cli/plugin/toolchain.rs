//! The Rust of this machine, as far as building a component needs it. Every question is put to the programs
//! themselves, in the folder of the crate, so that a toolchain file there counts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a component is built for.
pub const TARGET: &str = "wasm32-wasip2";

/// Why there is no build.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A program is not there.
    #[error("cannot run `{program}`: {source}; building a plugin needs Rust, best installed by rustup")]
    Missing {
        /// Its name.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program ended badly. It has said why.
    #[error("`{command}` failed: {said}")]
    Failed {
        /// The whole command.
        command: String,
        /// The last lines it said, or its status.
        said: String,
    },
    /// The target is not there and cannot be added from here.
    #[error(
        "the Rust target {TARGET} is missing, and there is no rustup to add it; install the standard library of that \
         target the way this Rust was installed, so that `{dir}` is there"
    )]
    NoTarget {
        /// Where it would be.
        dir: PathBuf,
    },
    /// A program said something else than it should.
    #[error("`{command}` said something unexpected: {what}")]
    Unexpected {
        /// The whole command.
        command: &'static str,
        /// What is missing in it.
        what: String,
    },
}

/// The programs, and where they run.
pub struct Toolchain<'a> {
    dir: &'a Path,
    cargo: OsString,
    rustc: OsString,
    rustup: OsString,
}

impl<'a> Toolchain<'a> {
    /// Of the environment.
    pub fn of(dir: &'a Path) -> Self {
        let program = |variable: &str, name: &str| {
            let set = std::env::var_os(variable).filter(|value| !value.is_empty());
            set.unwrap_or_else(|| name.into())
        };
        Self {
            dir,
            cargo: program("CARGO", "cargo"),
            rustc: program("RUSTC", "rustc"),
            rustup: "rustup".into(),
        }
    }

    /// These programs.
    #[cfg(test)]
    pub fn with(dir: &'a Path, programs: &Path) -> Self {
        let program = |name: &str| programs.join(name).into_os_string();
        Self { dir, cargo: program("cargo"), rustc: program("rustc"), rustup: program("rustup") }
    }

    /// A cargo command in the folder of the crate.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(self.dir);
        command
    }

    /// Where this Rust lives.
    ///
    /// # Errors
    /// There is none.
    pub fn sysroot(&self) -> Result<PathBuf, ToolError> {
        self.rustc(&["--print", "sysroot"]).map(PathBuf::from)
    }

    /// Adds the target if it is not there; `say` is told before something is installed.
    ///
    /// # Errors
    /// It is not there, and says how to get it.
    pub fn ensure_target(&self, say: impl FnOnce(&str)) -> Result<(), ToolError> {
        let dir = PathBuf::from(self.rustc(&["--print", "target-libdir", "--target", TARGET])?);
        if dir.is_dir() {
            return Ok(());
        }
        if !runs(&self.rustup, self.dir) {
            return Err(ToolError::NoTarget { dir });
        }
        say(&format!("adding the Rust target {TARGET}: rustup target add {TARGET}"));
        let mut command = Command::new(&self.rustup);
        command.current_dir(self.dir).args(["target", "add", TARGET]);
        output(&mut command).map(drop)
    }

    fn rustc(&self, args: &[&str]) -> Result<String, ToolError> {
        let mut command = Command::new(&self.rustc);
        command.current_dir(self.dir).args(args);
        output(&mut command)
    }
}

fn runs(program: &OsString, dir: &Path) -> bool {
    let mut command = Command::new(program);
    command.current_dir(dir).arg("--version").stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

/// Runs a command to its end and gives what it printed, without the line end.
///
/// # Errors
/// It cannot be run, or failed.
pub fn output(command: &mut Command) -> Result<String, ToolError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let line = || {
        let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
        std::iter::once(program.clone()).chain(args).collect::<Vec<_>>().join(" ")
    };
    let whole = line();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ToolError::Missing { program: program.clone(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let said = if said.is_empty() { output.status.to_string() } else { said };
    Err(ToolError::Failed { command: whole, said })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder of programs that are shell scripts.
    fn programs(scripts: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in scripts {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\ncd \"$(dirname \"$0\")\"\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    const RUSTC: &str = "echo \"$PWD/lib\"";

    #[test]
    fn a_missing_target_is_added_once_and_said() {
        let folder = programs(&[
            ("rustc", RUSTC),
            ("rustup", "[ $1 = --version ] || { echo \"$*\" >> asked; mkdir lib; }"),
        ]);
        let tools = Toolchain::with(folder.path(), folder.path());
        let mut said = Vec::new();
        tools.ensure_target(|line| said.push(line.to_owned())).unwrap();
        tools.ensure_target(|line| said.push(line.to_owned())).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("asked")).unwrap(), "target add wasm32-wasip2\n");
        assert_eq!(said, ["adding the Rust target wasm32-wasip2: rustup target add wasm32-wasip2"]);
    }

    #[test]
    fn without_rustup_it_is_said_where_the_target_has_to_be() {
        let folder = programs(&[("rustc", RUSTC)]);
        let error = Toolchain::with(folder.path(), folder.path()).ensure_target(|_| ()).unwrap_err();
        assert!(matches!(&error, ToolError::NoTarget { dir } if dir.ends_with("lib")), "{error}");
    }

    #[test]
    fn a_rustup_that_fails_is_quoted() {
        let folder = programs(&[
            ("rustc", RUSTC),
            ("rustup", "[ $1 = --version ] || { echo 'no network' >&2; exit 1; }"),
        ]);
        let error = Toolchain::with(folder.path(), folder.path()).ensure_target(|_| ()).unwrap_err();
        assert!(
            error.to_string().ends_with("rustup target add wasm32-wasip2` failed: no network"),
            "{error}"
        );
    }

    #[test]
    fn without_rust_it_is_said_what_is_needed() {
        let folder = programs(&[]);
        let error = Toolchain::with(folder.path(), folder.path()).sysroot().unwrap_err();
        assert!(error.to_string().contains("needs Rust"), "{error}");
    }
}
