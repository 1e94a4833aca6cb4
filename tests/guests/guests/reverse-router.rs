//! Prefers the last candidate, and says so.

use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct Reverse;

impl Plugin for Reverse {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for Reverse {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let last = candidates.len().max(1) as f64;
        let vote =
            |at: usize| Vote::score((at + 1) as f64 / last).because(format!("place {at} from the end"));
        (0..candidates.len()).map(vote).collect()
    }
}

sluice_sdk::plugin!(Reverse: Router);
