//! Wants 64 MiB before it has done anything.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering};

use sluice_guests::even;
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

const SIZE: usize = 64 * 1024 * 1024;

/// Zeros, which take no room in the file.
static ROOM: [AtomicU8; SIZE] = [const { AtomicU8::new(0) }; SIZE];

struct BigMemory;

impl Plugin for BigMemory {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        black_box(&ROOM)[black_box(SIZE - 1)].store(1, Ordering::Relaxed);
        Ok(Self)
    }
}

impl Router for BigMemory {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        even(candidates)
    }
}

sluice_sdk::plugin!(BigMemory: Router);
