//! What follows from the kind of a failure: the next step, what the breaker learns, the cool-down.

use sluice_sdk::{Action, BreakerEffect, FailureFacts, FailureKind, Verdict};

use crate::settings::CoolDowns;

/// The verdict for a failure of this kind.
pub fn of(kind: FailureKind, failure: &FailureFacts, cool: &CoolDowns) -> Verdict {
    let verdict = before_commit(kind, failure, cool);
    if failure.stage.is_after_commit() {
        // Nothing can be tried any more; only what is learnt from it counts.
        return Verdict { action: Action::GiveUp, ..verdict };
    }
    verdict
}

fn before_commit(kind: FailureKind, failure: &FailureFacts, cool: &CoolDowns) -> Verdict {
    use BreakerEffect::{Count, Ignore, Open};
    use FailureKind as Kind;

    let another = failure.other_credential;
    let (action, breaker, cool_down_ms) = match kind {
        Kind::RetryableTimeout => (Action::Switch, Count, 0),
        Kind::RetryableRateLimit => match failure.retry_after_ms {
            Some(hint) => (Action::RetrySame(Some(hint)), Ignore, hint.min(cool.max)),
            // Only a credential is set aside: a target on its own is judged by its breaker.
            None => (with_another(another, Action::Switch), Count, if another { cool.rate_limit } else { 0 }),
        },
        Kind::RetryableUpstream => (Action::RetrySame(None), Count, 0),
        Kind::QuotaExhausted => (with_another(another, Action::Switch), Open, cool.quota),
        Kind::ModelUnavailable => (Action::Switch, Ignore, cool.model),
        Kind::ContextLengthExceeded => (Action::Switch, Ignore, 0),
        Kind::AuthDenied => (with_another(another, Action::GiveUp), Ignore, cool.auth),
        Kind::ContentFiltered | Kind::InvalidRequest => (Action::GiveUp, Ignore, 0),
        // Never shown to a classifier; a gate says nothing about the upstream.
        Kind::GatewaySaturated => (Action::Switch, Ignore, 0),
    };
    Verdict {
        kind,
        action,
        breaker,
        cool_down_ms: (cool_down_ms > 0).then_some(cool_down_ms),
        client_status: None,
    }
}

/// At once with another credential of the same upstream, if there is one.
const fn with_another(another: bool, otherwise: Action) -> Action {
    if another { Action::RetrySame(Some(0)) } else { otherwise }
}
