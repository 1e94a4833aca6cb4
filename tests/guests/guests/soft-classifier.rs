//! Has no opinion, and traps on a request with the header `x-trap-classifier`.

use sluice_guests::{header, trap};
use sluice_sdk::{Classifier, FailureFacts, NoSettings, Plugin, RequestFacts, TargetFacts, Verdict};

struct Soft;

impl Plugin for Soft {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Classifier for Soft {
    fn classify(&self, request: &RequestFacts, _: &FailureFacts) -> Option<Verdict> {
        if header(request, "x-trap-classifier").is_some() {
            trap("asked to trap");
        }
        None
    }
}

sluice_sdk::plugin!(Soft: Classifier);
