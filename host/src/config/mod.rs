//! From a YAML file to a [`Config`]: parse with positions, check everything in one run, say where each
//! mistake is. Start-up, `sluice check` and reloads all come through [`load`].
//!
//! The way of a file: `source` (bytes to text) → `tree` (text to values with positions) → `top` and its
//! neighbours (values to [`Config`]), each of which reads through `field`, where wrong types, ranges and
//! unknown keys become findings. Nothing here stops at the first mistake but a syntax error, behind
//! which no value has a certain place. No message ever holds a value of the file: it may be a secret.

mod caller;
mod checked;
mod cors;
mod field;
mod finding;
mod headers;
mod plugin_names;
mod records;
mod reference;
mod route;
mod shown;
mod sidecar;
mod source;
mod suggest;
#[cfg(test)]
mod tests;
mod tls;
mod top;
mod traces;
mod tree;
mod units;
mod upstream;

use std::path::Path;

pub use caller::{Caller, KeyHash};
pub use checked::*;
pub use cors::{Cors, Origins};
pub use finding::{ConfigErrors, ErrorClass, Finding};
pub use headers::never_crosses;
pub use plugin_names::{BUNDLED_PLUGINS, RoutePlugins};
pub use shown::Shown;
pub use sidecar::{BadSidecar, Instances, OnError, SIDECAR_MAX, Sidecar, SidecarLimits, sidecar};
pub use source::Sources;
pub use tls::Tls;
pub use traces::Traces;

/// What a variable of the environment holds; none when it is not set.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What stands where the file refers to a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrets {
    /// What the reference leads to.
    Real,
    /// A text made from the reference, which is not followed.
    StandIns,
    /// What the reference leads to where the store of records is named, and a text made from it everywhere else.
    OfRecords,
}

/// A configuration that may run, and what its operator should still know.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Nothing that stops it; sorted by place.
    pub warnings: Vec<Finding>,
}

/// Reads and checks `path` with the environment of the process.
///
/// # Errors
/// Every mistake of the file, or why it could not be read.
pub fn load(path: &Path) -> Result<Loaded, ConfigErrors> {
    load_with(path, &|name| std::env::var(name).ok())
}

/// [`load`] with an environment of the caller's.
///
/// # Errors
/// As [`load`].
pub fn load_with(path: &Path, env: &Environment<'_>) -> Result<Loaded, ConfigErrors> {
    read(path, env).outcome
}

/// [`load`] without a single secret: references are checked and not followed, and something made up stands for each.
/// For whoever must not be able to send one anywhere, and has to work where there are none.
///
/// # Errors
/// As [`load`], but for secrets that are not there.
pub fn load_without_secrets(path: &Path) -> Result<Loaded, ConfigErrors> {
    load_with_some(path, Secrets::StandIns)
}

/// [`load_without_secrets`], but for the one that leads to the store of records.
///
/// # Errors
/// As [`load`], but for other secrets that are not there.
pub fn load_for_records(path: &Path) -> Result<Loaded, ConfigErrors> {
    load_with_some(path, Secrets::OfRecords)
}

fn load_with_some(path: &Path, secrets: Secrets) -> Result<Loaded, ConfigErrors> {
    let env = |name: &str| std::env::var(name).ok();
    let mut sources = Sources::default();
    let text = source::read(path, &mut sources)?;
    check(&text, path, &env, &mut sources, secrets)
}

/// One reading of a file: what came of it, and what was read.
#[derive(Debug)]
pub struct Reading {
    /// The configuration, or every mistake.
    pub outcome: Result<Loaded, ConfigErrors>,
    /// The file and those it refers to, as they were.
    pub sources: Sources,
}

/// [`load_with`], for who wants to know later whether anything has changed.
pub fn read(path: &Path, env: &Environment<'_>) -> Reading {
    let mut sources = Sources::default();
    let outcome = source::read(path, &mut sources)
        .and_then(|text| check(&text, path, env, &mut sources, Secrets::Real));
    Reading { outcome, sources }
}

/// Checks `text` as the content of `file`, which names it in messages and whose folder relative paths
/// start at. Files that the text refers to (secrets, roots) are read.
///
/// # Errors
/// Every mistake of the text.
pub fn parse(text: &str, file: &Path, env: &Environment<'_>) -> Result<Loaded, ConfigErrors> {
    check(text, file, env, &mut Sources::default(), Secrets::Real)
}

fn check(
    text: &str,
    file: &Path,
    env: &Environment<'_>,
    sources: &mut Sources,
    secrets: Secrets,
) -> Result<Loaded, ConfigErrors> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Err(ConfigErrors::one(file, ErrorClass::Read, Finding::of_file("is empty")));
    }
    let tree = tree::parse(text).map_err(|finding| ConfigErrors::one(file, ErrorClass::Syntax, finding))?;
    let dir = file.parent().unwrap_or(Path::new(""));
    let cx = field::Cx::new(dir, env, secrets, tree.findings);
    let config = top::read(&cx, file, &tree.root);
    sources.extend(cx.sources());
    let (findings, warnings) = cx.into_findings();
    if findings.is_empty() {
        Ok(Loaded { config, warnings })
    } else {
        Err(ConfigErrors::new(file, ErrorClass::Invalid, findings))
    }
}
