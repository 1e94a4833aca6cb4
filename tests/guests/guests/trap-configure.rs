//! Traps while it is configured.

use sluice_guests::{even, trap};
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct TrapConfigure;

impl Plugin for TrapConfigure {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        trap("configure")
    }
}

impl Router for TrapConfigure {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        even(candidates)
    }
}

sluice_sdk::plugin!(TrapConfigure: Router);
