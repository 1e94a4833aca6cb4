//! Scores everything 0.5, and never returns from a call with the header `x-loop`, about which it
//! writes a line first.

use sluice_guests::{even, header, spin};
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote, log};

struct Looping;

impl Plugin for Looping {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for Looping {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        if header(request, "x-loop").is_some() {
            log::warn("about to spin");
            spin();
        }
        even(candidates)
    }
}

sluice_sdk::plugin!(Looping: Router);
