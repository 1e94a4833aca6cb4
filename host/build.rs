//! Notes the commit that a release is built from, for `sluice --version` and `sluice_build_info`.
//!
//! `SLUICE_COMMIT` in the environment wins, for builds without a git checkout. Development builds do not ask
//! git, or each commit would build the gateway anew.

#![allow(clippy::print_stdout, reason = "a build script speaks to cargo on its standard output")]

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=SLUICE_COMMIT");
    let given = std::env::var("SLUICE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| if release { of_checkout() } else { None });
    println!("cargo::rustc-env=SLUICE_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

fn of_checkout() -> Option<String> {
    // The log of HEAD grows with every commit, checkout and reset.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
