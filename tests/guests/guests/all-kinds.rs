//! A plugin of all three kinds with opinions that can be told apart: the last candidate first, 409 gives up,
//! the header `x-all-kinds`.

use sluice_sdk::{
    Action, AnswerFacts, BreakerEffect, Candidate, Classifier, FailureFacts, FailureKind, NoSettings, Plugin,
    RequestFacts, Router, Tag, Tagger, TargetFacts, Verdict, Vote,
};

struct AllKinds;

impl Plugin for AllKinds {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for AllKinds {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let last = candidates.len().max(1) as f64;
        (0..candidates.len()).map(|at| Vote::score((at + 1) as f64 / last)).collect()
    }
}

impl Classifier for AllKinds {
    fn classify(&self, _: &RequestFacts, failure: &FailureFacts) -> Option<Verdict> {
        (failure.status == Some(409)).then_some(Verdict {
            kind: FailureKind::InvalidRequest,
            action: Action::GiveUp,
            breaker: BreakerEffect::Ignore,
            cool_down_ms: None,
            client_status: None,
        })
    }
}

impl Tagger for AllKinds {
    fn tag(&self, _: &RequestFacts, _: &AnswerFacts) -> Vec<Tag> {
        vec![Tag::header("x-all-kinds", "yes")]
    }
}

sluice_sdk::plugin!(AllKinds: Router, Classifier, Tagger);
