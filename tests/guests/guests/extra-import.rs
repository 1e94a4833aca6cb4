//! A router that reads a file, and so imports what no plugin may: the file system and its clocks.

use sluice_guests::even;
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct ExtraImport;

impl Plugin for ExtraImport {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for ExtraImport {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        match std::fs::read("/etc/hostname") {
            Ok(secret) => vec![Vote::score(secret.len() as f64); candidates.len()],
            Err(_) => even(candidates),
        }
    }
}

sluice_sdk::plugin!(ExtraImport: Router);
