//! The classifier that runs when an operator brings none, and after all others have no opinion.
//!
//! Three steps: gather what is known about a failure ([`evidence`]), read its kind from that ([`meaning`]),
//! and say what follows from the kind ([`verdict`]). What providers say is in [`providers`]: names that they
//! give to errors first, and words of their messages only where they give no name. It always has an opinion.

mod body;
mod evidence;
mod meaning;
mod providers;
mod settings;
mod status;
mod verdict;

use sluice_sdk::{Classifier, FailureFacts, Plugin, RequestFacts, TargetFacts, Verdict};

use evidence::Evidence;
use settings::{CoolDowns, Settings};

/// The configured classifier.
#[derive(Debug)]
struct StandardClassifier {
    cool_downs: CoolDowns,
}

impl Plugin for StandardClassifier {
    type Settings = Settings;

    fn configure(settings: Settings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self { cool_downs: settings.cooldown_ms })
    }
}

impl Classifier for StandardClassifier {
    fn classify(&self, _: &RequestFacts, failure: &FailureFacts) -> Option<Verdict> {
        let kind = meaning::kind(&Evidence::of(failure));
        Some(verdict::of(kind, failure, &self.cool_downs))
    }
}

sluice_sdk::plugin!(StandardClassifier: Classifier);

#[cfg(test)]
mod tests;
