//! `sluice plugin new`: a crate that builds as it is, in a folder of its own.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::sdk::{self, Carried};
use super::{Exit, Kind};

/// Names that another crate in the build has already.
const TAKEN: &[&str] = &["alloc", "core", "proc-macro", "serde", "sluice-sdk", "std", "test"];

/// Writes the plugin `name` into a new folder of that name in `into`.
///
/// # Errors
/// Only what writing to `out` and `err` gives; a folder that cannot be written is [`Exit::No`].
pub fn new(
    name: &str,
    kind: Kind,
    into: &Path,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    if let Err(wrong) = fits(name) {
        writeln!(err, "sluice: NAME: {wrong}")?;
        return Ok(Exit::Usage);
    }
    let dir = into.join(name);
    if fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) || dir.is_file() {
        writeln!(err, "sluice: {} is there already: expected a name of something new", dir.display())?;
        return Ok(Exit::Usage);
    }
    if let Err(error) = write(&dir, name, kind) {
        writeln!(err, "sluice: {}: {error}", dir.display())?;
        return Ok(Exit::No);
    }
    writeln!(out, "{}: a {} to start from", dir.display(), kind.as_str())?;
    writeln!(out, "  src/lib.rs          what it decides, with a unit test: cargo test")?;
    writeln!(out, "  cases/              what it is asked and should say: sluice plugin test")?;
    writeln!(out, "  wit/0.1.0           every fact it is given, with units and ranges")?;
    writeln!(out, "  vendor/sluice-sdk   the SDK, of this sluice")?;
    writeln!(out, "\nNext:\n  cd {}\n  cargo test\n  sluice plugin build", dir.display())?;
    writeln!(out, "  sluice plugin check {name}.wasm\n  sluice plugin test {name}.wasm")?;
    Ok(Exit::Done)
}

/// Both a name of a crate and a name of a plugin.
fn fits(name: &str) -> Result<(), String> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    let all = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !first || !all || name.len() > 64 || name.ends_with('-') {
        return Err(format!("expected 1 to 64 of a-z 0-9 -, a letter first and no - last, got `{name}`"));
    }
    if TAKEN.contains(&name) {
        return Err(format!("`{name}` is the name of a crate that is part of the build; take another"));
    }
    Ok(())
}

fn write(dir: &Path, name: &str, kind: Kind) -> io::Result<()> {
    let put = |path: &str, text: &str| {
        let path = dir.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    };
    for Carried { path, text } in sdk::FILES.iter().chain(kind.template()) {
        put(path, text)?;
    }
    put("Cargo.toml", &manifest(name))?;
    put("Cargo.lock", &sdk::lock(name))?;
    put(".gitignore", "/target/\n")
}

fn manifest(name: &str) -> String {
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"
publish = false

# A component is a library that exports the functions of the contract.
[lib]
crate-type = ["cdylib"]

[dependencies]
serde = {{ version = "1", features = ["derive"] }}
sluice-sdk = {{ path = "vendor/sluice-sdk" }}

# Small, and the same bytes every time.
[profile.release]
opt-level = "s"
lto = true
codegen-units = 1
panic = "abort"
strip = true

# Stands alone, also inside another workspace.
[workspace]
"#
    )
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Classifier => "classifier",
            Self::Tagger => "tagger",
        }
    }

    fn template(self) -> &'static [Carried] {
        macro_rules! template {
            ($kind:literal) => {
                &[
                    Carried {
                        path: "src/lib.rs",
                        text: include_str!(concat!("../../../../plugins/template/", $kind, "/src/lib.rs")),
                    },
                    Carried {
                        path: concat!("cases/", $kind, ".json"),
                        text: include_str!(concat!(
                            "../../../../plugins/template/",
                            $kind,
                            "/cases/",
                            $kind,
                            ".json"
                        )),
                    },
                ]
            };
        }
        match self {
            Self::Router => template!("router"),
            Self::Classifier => template!("classifier"),
            Self::Tagger => template!("tagger"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn run(name: &str, into: &Path) -> (Exit, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit = new(name, Kind::Router, into, &mut out, &mut err).unwrap();
        (exit, String::from_utf8(err).unwrap())
    }

    #[test]
    fn names_that_are_no_crate_or_no_plugin_are_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(65);
        for name in ["", "Near", "near_first", "1st", "-x", "x-", "../x", "a/b", "test", "serde", &long] {
            let (exit, said) = run(name, folder.path());
            assert_eq!(exit, Exit::Usage, "{name}: {said}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_there_is_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(run("near", folder.path()), (Exit::Done, String::new()));
        let own = folder.path().join("near/src/lib.rs");
        fs::write(&own, "mine").unwrap();
        let (exit, said) = run("near", folder.path());
        assert_eq!(exit, Exit::Usage);
        assert!(said.contains("is there already"), "{said}");
        assert_eq!(fs::read_to_string(own).unwrap(), "mine");
    }
}
