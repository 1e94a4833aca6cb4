//! Has no opinion, and never returns from a call for a request with the header `x-spin-classifier`.

use sluice_guests::{header, spin};
use sluice_sdk::{Classifier, FailureFacts, NoSettings, Plugin, RequestFacts, TargetFacts, Verdict};

struct Slow;

impl Plugin for Slow {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Classifier for Slow {
    fn classify(&self, request: &RequestFacts, _: &FailureFacts) -> Option<Verdict> {
        if header(request, "x-spin-classifier").is_some() {
            spin();
        }
        None
    }
}

sluice_sdk::plugin!(Slow: Classifier);
