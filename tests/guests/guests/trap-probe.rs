//! Takes its configuration and traps at every call, as a host's probe finds out.

use sluice_guests::trap;
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct TrapProbe;

impl Plugin for TrapProbe {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for TrapProbe {
    fn score(&self, _: &RequestFacts, _: &[Candidate]) -> Vec<Vote> {
        trap("score")
    }
}

sluice_sdk::plugin!(TrapProbe: Router);
