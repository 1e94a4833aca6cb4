//! `sluice check`: does what start-up would do with a configuration, up to the doors, and says what it found. A
//! finding in the file is one line in the form of compilers, so that editors jump to it. A plugin that would be
//! rejected is a warning: the gateway starts without it.

use std::io::{self, Write};
use std::path::Path;

use super::Exit;
use crate::config::{self, ConfigErrors, Environment, Loaded};
use crate::gateway;
use crate::plugin::{Rejected, Rejection};

/// Checks `path` with the environment of the process and writes findings and a summary to `out`.
///
/// # Errors
/// Only what writing to `out` gives; a bad configuration is [`Exit::Usage`], a start that would fail [`Exit::No`].
pub async fn check(path: &Path, out: &mut dyn Write) -> io::Result<Exit> {
    check_with(path, &|name| std::env::var(name).ok(), out).await
}

/// [`check`] with an environment of the caller's.
///
/// # Errors
/// As [`check`].
pub async fn check_with(path: &Path, env: &Environment<'_>, out: &mut dyn Write) -> io::Result<Exit> {
    match config::load_with(path, env) {
        Ok(loaded) => {
            if !warnings(path, &loaded, out).await? {
                return Ok(Exit::No);
            }
            summary(&loaded, out)?;
            Ok(Exit::Done)
        }
        Err(errors) => {
            mistakes(&errors, path, out)?;
            Ok(Exit::Usage)
        }
    }
}

/// Tries a start, and writes everything that would not keep it from being one. False: something would, and is said.
pub(super) async fn warnings(path: &Path, loaded: &Loaded, out: &mut dyn Write) -> io::Result<bool> {
    for warning in &loaded.warnings {
        writeln!(out, "{}", warning.line_for_warning(path))?;
    }
    let gateway::Rehearsal { rejected, gaps } = match gateway::rehearse(&loaded.config).await {
        Ok(rehearsal) => rehearsal,
        Err(error) => {
            writeln!(out, "error: it would not start: {error}")?;
            return Ok(false);
        }
    };
    for plugin in rejected {
        would_be_rejected(&loaded.config.plugins.dir.join(&*plugin.file), &plugin, out)?;
    }
    for gap in gaps {
        writeln!(out, "warning: {gap}")?;
    }
    Ok(true)
}

/// Every mistake of a configuration, and how many there are.
pub(super) fn mistakes(errors: &ConfigErrors, path: &Path, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{errors}")?;
    let count = errors.findings.len();
    writeln!(out, "{count} {} in {}", plural(count, "error"), path.display())
}

/// Mistakes in a sidecar have places of their own, which editors jump to.
fn would_be_rejected(file: &Path, plugin: &Rejected, out: &mut dyn Write) -> io::Result<()> {
    let (file, reason) = (file.display(), plugin.rejection.reason().as_str());
    let calls = if plugin.denies { ", and calls be refused (on_error: deny)" } else { "" };
    let Rejection::Sidecar(errors) = &plugin.rejection else {
        return writeln!(out, "warning: {file} would be rejected ({reason}){calls}: {}", plugin.rejection);
    };
    for finding in &errors.findings {
        writeln!(out, "{}", finding.line_for_warning(&errors.file))?;
    }
    writeln!(out, "warning: {file} would be rejected ({reason}){calls}: see {}", errors.file.display())
}

fn summary(loaded: &Loaded, out: &mut dyn Write) -> io::Result<()> {
    let config = &loaded.config;
    let (routes, targets, upstreams) = (config.routes.len(), config.targets.len(), config.upstreams.len());
    writeln!(
        out,
        "ok: {routes} {}, {targets} {} on {upstreams} {}, plugins in {}",
        plural(routes, "route"),
        plural(targets, "target"),
        plural(upstreams, "upstream"),
        config.plugins.dir.display()
    )
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
