//! The bench of the plugin host's own tests, and fault guests to put on it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use sluice::plugin::Registry;
use sluice::policy::Policy;
use sluice_core::facts::{AnswerFacts, Candidate, RequestFacts, TagPhase};

pub use bench::{PATIENCE, entry, failure, moment, until_state};

#[allow(dead_code, reason = "it has what the host's own tests need, too")]
#[path = "../../host/src/plugin/tests/bench.rs"]
mod bench;

/// What the bench is over.
mod sut {
    pub use sluice::{config, plugin};
}

/// Bytes of a guest that `tests/guests/build` has built.
pub fn guest(name: &str) -> Vec<u8> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/target/components").join(format!("{name}.wasm"));
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run tests/guests/build first", path.display()))
}

/// A folder with guests in it.
pub struct Bench(bench::Bench);

impl Bench {
    /// With these files: file name and name of the guest.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let mut bench = bench::Bench::with_folder();
        bench.settings.deadline = Duration::from_millis(50);
        bench.targets = 3;
        for (file, name) in files {
            bench.put(file, &guest(name));
        }
        Self(bench)
    }
}

impl Deref for Bench {
    type Target = bench::Bench;

    fn deref(&self) -> &bench::Bench {
        &self.0
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut bench::Bench {
        &mut self.0
    }
}

pub fn policy(registry: &Registry) -> Policy {
    Policy::new(registry.current(), 1)
}

/// A request with these headers, each with the value `1` unless it has its own after `=`.
pub fn request(headers: &[&str]) -> RequestFacts {
    let header = |header: &&str| {
        let (name, value) = header.split_once('=').unwrap_or((header, "1"));
        (name.to_owned(), value.to_owned())
    };
    RequestFacts {
        id: "0123456789abcdef".into(),
        model: "chat".into(),
        headers: headers.iter().map(header).collect(),
        ..RequestFacts::default()
    }
}

/// As many as there are targets.
pub fn candidates() -> Vec<Candidate> {
    bench::candidates(3)
}

pub fn answer(phase: TagPhase) -> AnswerFacts {
    bench::answer(phase)
}
