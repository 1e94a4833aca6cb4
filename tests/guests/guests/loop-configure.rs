//! Never returns from `configure`.

use sluice_guests::{even, spin};
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct LoopConfigure;

impl Plugin for LoopConfigure {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        spin()
    }
}

impl Router for LoopConfigure {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        even(candidates)
    }
}

sluice_sdk::plugin!(LoopConfigure: Router);
