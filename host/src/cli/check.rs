//! `sluice check`: reads a configuration as start-up would and says what it found. A finding is one line
//! in the form of compilers, so that editors jump to it.

use std::io::{self, Write};
use std::path::Path;

use super::Exit;
use crate::config::{self, Environment, Loaded};

/// Checks `path` with the environment of the process and writes findings and a summary to `out`.
///
/// # Errors
/// Only what writing to `out` gives; a bad configuration is [`Exit::Usage`].
pub fn check(path: &Path, out: &mut dyn Write) -> io::Result<Exit> {
    check_with(path, &|name| std::env::var(name).ok(), out)
}

/// [`check`] with an environment of the caller's.
///
/// # Errors
/// As [`check`].
pub fn check_with(path: &Path, env: &Environment<'_>, out: &mut dyn Write) -> io::Result<Exit> {
    match config::load_with(path, env) {
        Ok(loaded) => {
            summary(path, &loaded, out)?;
            Ok(Exit::Done)
        }
        Err(errors) => {
            writeln!(out, "{errors}")?;
            let count = errors.findings.len();
            writeln!(out, "{count} {} in {}", plural(count, "error"), path.display())?;
            Ok(Exit::Usage)
        }
    }
}

fn summary(path: &Path, loaded: &Loaded, out: &mut dyn Write) -> io::Result<()> {
    for warning in &loaded.warnings {
        writeln!(out, "{}", warning.line_for_warning(path))?;
    }
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
