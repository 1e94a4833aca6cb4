//! Refuses to be configured without the setting `region`; with `"huge"` in it, in 100 KB.

use sluice_guests::even;
use sluice_sdk::{Candidate, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct ErrorConfigure;

#[derive(serde::Deserialize)]
struct Settings {
    region: String,
}

impl Plugin for ErrorConfigure {
    type Settings = Settings;

    fn configure(settings: Settings, _: Vec<TargetFacts>) -> Result<Self, String> {
        match settings.region.as_str() {
            "" => Err("settings.region: expected the name of a region, got nothing".to_owned()),
            "huge" => Err("settings.region: ".to_owned() + &"x".repeat(100_000)),
            _ => Ok(Self),
        }
    }
}

impl Router for ErrorConfigure {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        even(candidates)
    }
}

sluice_sdk::plugin!(ErrorConfigure: Router);
