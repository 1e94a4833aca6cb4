//! Never returns from its start function, so that an instance is never made.

use sluice_guests::even;
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct LoopStart;

impl Plugin for LoopStart {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for LoopStart {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        even(candidates)
    }
}

/// A component calls the function of this name while it is instantiated.
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, reason = "there is no safe way to give a function its name")]
#[unsafe(export_name = "_initialize")]
extern "C" fn start() {
    sluice_guests::spin();
}

sluice_sdk::plugin!(LoopStart: Router);
