//! What the host does when neither the plugins nor the bundled policy can answer: the configured order, and
//! the safest reading of a failure. Deliberately small; it is counted whenever it is used.

use sluice_core::facts::{FailureFacts, Vote};
use sluice_core::kind::{FailureKind, TransportError};
use sluice_core::verdict::{Action, BreakerEffect, Verdict};

/// The configured order: falling in equal steps from 1.
pub fn votes(candidates: usize) -> Vec<Vote> {
    let count = u32::try_from(candidates).unwrap_or(u32::MAX);
    (0..count)
        .map(|at| Vote { score: Some(f64::from(count - at) / f64::from(count)), reason: None })
        .collect()
}

/// The row of a failure by transport and status alone.
pub fn verdict(failure: &FailureFacts) -> Verdict {
    let (kind, action, breaker) = match (failure.transport_error, failure.status) {
        (Some(TransportError::Timeout), _) | (None, Some(408 | 504 | 524)) => {
            (FailureKind::RetryableTimeout, Action::Switch, BreakerEffect::Count)
        }
        (None, Some(425 | 429)) => {
            let breaker =
                if failure.retry_after.is_some() { BreakerEffect::Ignore } else { BreakerEffect::Count };
            (FailureKind::RetryableRateLimit, Action::Switch, breaker)
        }
        (None, Some(401 | 403)) => (FailureKind::AuthDenied, Action::GiveUp, BreakerEffect::Ignore),
        (None, Some(404)) => (FailureKind::ModelUnavailable, Action::Switch, BreakerEffect::Ignore),
        (None, Some(status)) if (400..500).contains(&status) && status != 409 => {
            (FailureKind::InvalidRequest, Action::GiveUp, BreakerEffect::Ignore)
        }
        (_, _) => (FailureKind::RetryableUpstream, Action::Switch, BreakerEffect::Count),
    };
    Verdict { kind, action, breaker, cool_down: failure.retry_after, client_status: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_core::kind::Stage;
    use std::time::Duration;

    #[test]
    fn the_configured_order_is_kept_and_every_score_is_a_share_of_one() {
        let votes = votes(128);
        assert_eq!(votes[0].score, Some(1.0));
        assert!(votes.windows(2).all(|pair| pair[0].score > pair[1].score));
        assert!(votes.iter().all(|vote| vote.score.is_some_and(|score| score > 0.0)));
    }

    #[test]
    fn a_failure_is_read_by_transport_and_status() {
        use FailureKind as K;
        let table = [
            (Some(TransportError::Timeout), None, K::RetryableTimeout, Action::Switch),
            (Some(TransportError::Refused), None, K::RetryableUpstream, Action::Switch),
            (Some(TransportError::Closed), Some(200), K::RetryableUpstream, Action::Switch),
            (None, Some(504), K::RetryableTimeout, Action::Switch),
            (None, Some(429), K::RetryableRateLimit, Action::Switch),
            (None, Some(401), K::AuthDenied, Action::GiveUp),
            (None, Some(404), K::ModelUnavailable, Action::Switch),
            (None, Some(409), K::RetryableUpstream, Action::Switch),
            (None, Some(422), K::InvalidRequest, Action::GiveUp),
            (None, Some(302), K::RetryableUpstream, Action::Switch),
            (None, Some(503), K::RetryableUpstream, Action::Switch),
            (None, Some(200), K::RetryableUpstream, Action::Switch),
            (None, None, K::RetryableUpstream, Action::Switch),
        ];
        for (transport_error, status, kind, action) in table {
            let verdict = verdict(&FailureFacts {
                target: 0,
                stage: Stage::Body,
                transport_error,
                status,
                headers: Vec::new(),
                error_type: None,
                error_code: None,
                body: String::new(),
                retry_after: Some(Duration::from_secs(3)),
                elapsed: Duration::ZERO,
                other_credential: false,
            });
            assert_eq!((verdict.kind, verdict.action), (kind, action), "{transport_error:?} {status:?}");
        }
    }
}
