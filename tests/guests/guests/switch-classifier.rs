//! Switches where the bundled classifier gives up (401), and ends a 418 with a status of its own choice: the
//! one in the header `x-client-status`, else 422. No opinion on anything else.

use sluice_guests::header;
use sluice_sdk::{
    Action, BreakerEffect, Classifier, FailureFacts, FailureKind, NoSettings, Plugin, RequestFacts,
    TargetFacts, Verdict,
};

struct Switch;

impl Plugin for Switch {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Classifier for Switch {
    fn classify(&self, request: &RequestFacts, failure: &FailureFacts) -> Option<Verdict> {
        let own = header(request, "x-client-status").and_then(|status| status.parse().ok());
        let (kind, action, client_status) = match failure.status? {
            401 => (FailureKind::AuthDenied, Action::Switch, None),
            418 => (FailureKind::InvalidRequest, Action::GiveUp, own.or(Some(422))),
            _ => return None,
        };
        let breaker = BreakerEffect::Ignore;
        Some(Verdict { kind, action, breaker, cool_down_ms: None, client_status })
    }
}

sluice_sdk::plugin!(Switch: Classifier);
