//! Treats an answer of 418 as a provider that is busy: another target, and this one is left alone for a while.

use sluice_sdk::prelude::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// How long the target is left alone, milliseconds.
    cool_down_ms: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cool_down_ms: 2000 }
    }
}

struct Policy {
    cool_down_ms: u32,
}

impl Plugin for Policy {
    type Settings = Settings;

    fn configure(settings: Settings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self { cool_down_ms: settings.cool_down_ms })
    }
}

impl Classifier for Policy {
    fn classify(&self, _: &RequestFacts, failure: &FailureFacts) -> Option<Verdict> {
        // None leaves everything else to the next classifier, the bundled one last.
        (failure.status == Some(418)).then_some(Verdict {
            kind: FailureKind::RetryableUpstream,
            action: Action::Switch,
            breaker: BreakerEffect::Ignore,
            cool_down_ms: Some(self.cool_down_ms),
            client_status: None,
        })
    }
}

sluice_sdk::plugin!(Policy: Classifier);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_418_has_a_meaning_of_its_own() {
        let policy: Policy = testing::configure(r#"{"cool_down_ms":70}"#, Vec::new()).unwrap();
        let verdict = policy.classify(&testing::request(), &testing::failure(418)).unwrap();
        assert_eq!((verdict.action, verdict.cool_down_ms), (Action::Switch, Some(70)));
        assert_eq!(policy.classify(&testing::request(), &testing::failure(500)), None);
    }
}
