//! `sluice plugin build`: the component of a crate, for release. The same sources give the same bytes in every folder:
//! paths of this machine are mapped away, and flags of the environment do not count.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Exit;
use super::toolchain::{TARGET, ToolError, Toolchain, output};

/// Variables that would become part of the bytes.
const NOT_OURS: &[&str] = &[
    "RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_TARGET",
];
/// And all that begin so.
const PROFILE: &str = "CARGO_PROFILE_RELEASE_";

/// Builds the crate in `dir` and puts `NAME.wasm` there.
///
/// # Errors
/// Only what writing to `out` and `err` gives; a build that fails is [`Exit::No`].
pub fn build(dir: &Path, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    let Ok(dir) = dir.canonicalize() else {
        writeln!(err, "sluice: {}: no such folder", dir.display())?;
        return Ok(Exit::Usage);
    };
    if !dir.join("Cargo.toml").is_file() {
        writeln!(
            err,
            "sluice: {}: expected a crate, there is no Cargo.toml; `sluice plugin new` makes one",
            dir.display()
        )?;
        return Ok(Exit::Usage);
    }
    let tools = Toolchain::of(&dir);
    let built = tools
        .ensure_target(|line| {
            // A line that cannot be written must not keep the target from being added.
            let _ = writeln!(err, "sluice: {line}");
        })
        .and_then(|()| Ok((package(&tools, &dir)?, tools.sysroot()?)))
        .and_then(|(package, sysroot)| compile(&tools, &package, &sysroot, &dir).map(|wasm| (package, wasm)));
    let (package, wasm) = match built {
        Ok(built) => built,
        Err(error) => {
            writeln!(err, "sluice: {error}")?;
            return Ok(Exit::No);
        }
    };
    let put = dir.join(format!("{}.wasm", package.name));
    match place(&wasm, &put) {
        Ok(bytes) => {
            writeln!(out, "{}\n{} bytes\nsha256 {}", shown(&put), bytes.len(), hex(&bytes))?;
            Ok(Exit::Done)
        }
        Err(error) => {
            writeln!(err, "sluice: {}: {error}", put.display())?;
            Ok(Exit::No)
        }
    }
}

/// What cargo says of the crate.
struct Package {
    name: String,
    target_dir: PathBuf,
}

fn package(tools: &Toolchain<'_>, dir: &Path) -> Result<Package, ToolError> {
    const COMMAND: &str = "cargo metadata";
    let unexpected = |what: &str| ToolError::Unexpected { command: COMMAND, what: what.to_owned() };
    let said = output(tools.cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let said: Value = serde_json::from_str(&said).map_err(|_| unexpected("it is not JSON"))?;
    let manifest = dir.join("Cargo.toml");
    let own =
        |package: &&Value| package["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest);
    let name =
        said["packages"].as_array().and_then(|all| all.iter().find(own)).and_then(|own| own["name"].as_str());
    let target_dir = said["target_directory"].as_str();
    Ok(Package {
        name: name.ok_or_else(|| unexpected("the crate is not in it"))?.to_owned(),
        target_dir: target_dir.ok_or_else(|| unexpected("it names no target folder"))?.into(),
    })
}

/// Builds and says which file came out. Compiler messages go to standard error as they come.
fn compile(
    tools: &Toolchain<'_>,
    package: &Package,
    sysroot: &Path,
    dir: &Path,
) -> Result<PathBuf, ToolError> {
    let mut command = tools.cargo();
    command.args(["build", "--release", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
    ours_alone(&mut command);
    command.env("CARGO_ENCODED_RUSTFLAGS", remapped(sysroot, dir, &package.target_dir));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let failed = |said: String| ToolError::Failed { command: "cargo build".to_owned(), said };
    let missing = |source| ToolError::Missing { program: "cargo".to_owned(), source };
    let mut child = command.spawn().map_err(missing)?;
    let manifest = dir.join("Cargo.toml");
    let mut wasm = None;
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let Ok(line) = line else { break };
        wasm = artifact(&line, &manifest).or(wasm);
    }
    let status = child.wait().map_err(missing)?;
    if !status.success() {
        return Err(failed("the compiler has said why".to_owned()));
    }
    let no_component = || {
        failed(
            "it made no .wasm file: expected `crate-type = [\"cdylib\"]` under `[lib]` in Cargo.toml"
                .to_owned(),
        )
    };
    wasm.ok_or_else(no_component)
}

fn artifact(line: &str, manifest: &Path) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let ours =
        message["reason"] == "compiler-artifact" && Path::new(message["manifest_path"].as_str()?) == manifest;
    let files = message["filenames"].as_array().filter(|_| ours)?;
    files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".wasm")).map(PathBuf::from)
}

/// Takes out of the environment what would become part of the bytes.
fn ours_alone(command: &mut Command) {
    let profile =
        std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with(PROFILE));
    for name in NOT_OURS.iter().map(OsString::from).chain(profile) {
        command.env_remove(name);
    }
}

/// Flags that keep paths of this machine out of panics and debug names. Later ones win, so the narrower come last.
fn remapped(sysroot: &Path, dir: &Path, target_dir: &Path) -> OsString {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let mut flags = OsString::new();
    let pairs = [
        (Some(sysroot), "/rust"),
        (home.as_deref(), "/cargo"),
        (Some(dir), "/plugin"),
        (Some(target_dir), "/target"),
    ];
    for (from, to) in pairs.into_iter().filter_map(|(from, to)| Some((from?, to))) {
        if !flags.is_empty() {
            flags.push("\x1f");
        }
        flags.push("--remap-path-prefix=");
        flags.push(from);
        flags.push("=");
        flags.push(to);
    }
    flags
}

/// Renamed into place, so that a gateway that watches the folder never sees half of it.
fn place(from: &Path, to: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::read(from)?;
    let new = to.with_extension("wasm.new");
    fs::write(&new, &bytes)?;
    fs::rename(&new, to)?;
    Ok(bytes)
}

/// As one would type it, where that is shorter.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
    let inside = here.as_ref().and_then(|here| path.strip_prefix(here).ok());
    inside.unwrap_or(path).display().to_string()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
