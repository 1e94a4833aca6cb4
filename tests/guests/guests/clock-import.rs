//! A router that reads the clock, which no plugin may: its decisions could not be replayed.

use sluice_guests::even;
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct ClockImport;

impl Plugin for ClockImport {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for ClockImport {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let even_second = std::time::SystemTime::UNIX_EPOCH.elapsed().is_ok_and(|now| now.as_secs() % 2 == 0);
        if even_second { even(candidates) } else { Vec::new() }
    }
}

sluice_sdk::plugin!(ClockImport: Router);
