//! `sluice plugin check`: the host's own admission, and its own words.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::lines::Lines;
use super::setup::{Setup, seen, setup};
use super::{Exit, With};

/// Admits `file` as a gateway would; [`Exit::No`] with the reason when it is rejected.
///
/// # Errors
/// Only what writing to `out` and `err` gives.
pub async fn check(file: &Path, with: &With, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    if !seen(file, err)? {
        return Ok(Exit::Usage);
    }
    let Setup { author, targets } = match setup(with.config.as_deref(), err).await? {
        Ok(setup) => setup,
        Err(exit) => return Ok(exit),
    };
    let lines = Arc::new(Lines::default());
    let admitted = author.admit(file, &targets, None, lines.clone()).await;
    let name = file.display().to_string();
    match admitted {
        Ok(plugin) => {
            let kinds: Vec<&str> = plugin.kinds().iter().map(|kind| kind.as_str()).collect();
            let (version, contract) =
                (plugin.version().escape_debug().to_string(), plugin.contract().version());
            if with.json {
                let digest = &**plugin.digest();
                writeln!(
                    out,
                    "{}",
                    json!({"file": name, "admitted": true, "kinds": kinds, "version": plugin.version(),
                        "contract": contract, "digest": digest, "log": lines.take()})
                )?;
            } else {
                writeln!(out, "ok: {name} would run: {} {version}, contract {contract}", kinds.join(", "))?;
                writeln!(out, "  sha256 {}", plugin.digest())?;
                lines.show(out)?;
            }
            Ok(Exit::Done)
        }
        Err(rejection) => {
            let reason = rejection.reason().as_str();
            if with.json {
                let message = rejection.to_string();
                writeln!(
                    out,
                    "{}",
                    json!({"file": name, "admitted": false, "reason": reason, "message": message,
                        "log": lines.take()})
                )?;
            } else {
                writeln!(out, "rejected: {name} ({reason}): {rejection}")?;
                lines.show(out)?;
                if with.config.is_none() {
                    writeln!(
                        out,
                        "  tried with three sample targets; -c FILE takes those of a configuration"
                    )?;
                }
            }
            Ok(Exit::No)
        }
    }
}
