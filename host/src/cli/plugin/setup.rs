//! What a component is tried with: the targets and limits of a configuration, or of a sample.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use sluice_core::facts::TargetFacts;
use tokio_util::task::TaskTracker;

use super::Exit;
use crate::config::{self, ConfigErrors};
use crate::generation::target_facts;
use crate::plugin::Author;

const SAMPLE: &str = include_str!("sample.yaml");

/// A place to try components out, and what they are configured with.
pub struct Setup {
    /// The place.
    pub author: Author,
    /// The targets.
    pub targets: Arc<[TargetFacts]>,
}

/// Makes it. On a mistake it is written to `err`, and how the command ends is the inner error.
///
/// # Errors
/// Only what writing gives.
pub async fn setup(path: Option<&Path>, err: &mut dyn Write) -> io::Result<Result<Setup, Exit>> {
    let config = match load(path) {
        Ok(config) => config,
        Err(errors) => {
            writeln!(err, "{errors}")?;
            return Ok(Err(Exit::Usage));
        }
    };
    let targets = target_facts(&config).into();
    match Author::new(config.plugins, TaskTracker::new()).await {
        Ok(author) => Ok(Ok(Setup { author, targets })),
        Err(error) => {
            writeln!(err, "sluice: {error}")?;
            Ok(Err(Exit::No))
        }
    }
}

fn load(path: Option<&Path>) -> Result<config::Config, ConfigErrors> {
    let loaded = match path {
        Some(path) => config::load(path),
        None => config::parse(SAMPLE, Path::new("sample.yaml"), &|_| None),
    };
    loaded.map(|loaded| loaded.config)
}

/// Says on `err` that a gateway would not even see the file.
///
/// # Errors
/// Only what writing gives.
pub fn seen(file: &Path, err: &mut dyn Write) -> io::Result<bool> {
    let seen = Author::is_seen(file) && file.exists();
    if !file.exists() {
        writeln!(err, "sluice: {}: no such file", file.display())?;
    } else if !seen {
        writeln!(
            err,
            "sluice: {}: expected a name that ends in .wasm, a gateway looks at no other",
            file.display()
        )?;
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_sample_is_a_configuration() {
        let config = load(None).unwrap_or_else(|errors| unreachable!("{errors}"));
        assert_eq!(target_facts(&config).len(), 3);
    }
}
