//! The router that runs when an operator brings none.
//!
//! `priority`, the default, keeps the configured order. `weighted` scores each candidate by what is known
//! about it, see [`weigh`]. It never excludes a candidate: which targets can take a call is the host's
//! decision, and this one only says which is best.

mod settings;
mod weigh;

use sluice_sdk::{Candidate, Plugin, RequestFacts, Router, TargetFacts, Vote};

use settings::{Mode, Settings};
use weigh::Weighing;

/// The configured router.
#[derive(Debug)]
enum WeightedRouter {
    Priority,
    Weighted(Weighing),
}

impl Plugin for WeightedRouter {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        // Weights are checked in both modes, so that a mistake does not wait for the day the mode changes.
        let weighing = Weighing::new(&settings, &targets)?;
        Ok(match settings.mode {
            Mode::Priority => Self::Priority,
            Mode::Weighted => Self::Weighted(weighing),
        })
    }
}

impl Router for WeightedRouter {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        match self {
            Self::Priority => by_position(candidates.len()),
            Self::Weighted(weighing) => weighing.votes(request, candidates),
        }
    }
}

/// Falls in equal steps from 1, so that the order is still a preference when the scores of several routers
/// are added up.
fn by_position(candidates: usize) -> Vec<Vote> {
    let step = 1.0 / candidates.max(1) as f64;
    (0..candidates).map(|position| Vote::score(1.0 - step * position as f64)).collect()
}

sluice_sdk::plugin!(WeightedRouter: Router);

#[cfg(test)]
mod tests;
