//! Whether an answer is one the contract allows. What is wrong here fails the whole call; what is only
//! wrong with a single tag is left to the policy, which drops that tag.

use sluice_core::facts::{Tag, Vote};
use sluice_core::kind::FailureKind;
use sluice_core::verdict::Verdict;

use super::call::{Ask, CallError, Said, truncate};

/// Longest reason of a vote, bytes; longer ones are cut.
const REASON_MAX: usize = 256;
/// Tags of one call.
const TAGS_MAX: usize = 16;
/// Bytes of all tags of one call together. Far above sixteen of the longest allowed.
const TAGS_BYTES_MAX: usize = 64 * 1024;

/// Checks an answer against its question.
///
/// # Errors
/// [`CallError::Invalid`], saying what was expected and what came.
pub fn answer(ask: Ask<'_>, said: Said) -> Result<Said, CallError> {
    match (ask, said) {
        (Ask::Score(_, _, candidates), Said::Votes(votes)) => {
            votes_for(candidates.len(), votes).map(Said::Votes)
        }
        (Ask::Classify(..), Said::Verdict(verdict)) => {
            verdict.as_ref().map_or(Ok(()), allowed)?;
            Ok(Said::Verdict(verdict))
        }
        (Ask::Tag(..), Said::Tags(tags)) => {
            bounded(&tags)?;
            Ok(Said::Tags(tags))
        }
        (ask, _) => Err(CallError::Invalid(format!("not the answer of a {}", ask.kind().as_str()))),
    }
}

fn votes_for(candidates: usize, mut votes: Vec<Vote>) -> Result<Vec<Vote>, CallError> {
    if votes.len() != candidates {
        return Err(CallError::Invalid(format!("expected {candidates} votes, it gave {}", votes.len())));
    }
    for (at, vote) in votes.iter_mut().enumerate() {
        if let Some(score) = vote.score
            && !(0.0..=1.0).contains(&score)
        {
            return Err(CallError::Invalid(format!("expected a score of 0 to 1, vote {at} has {score}")));
        }
        if let Some(reason) = &mut vote.reason {
            truncate(reason, REASON_MAX);
        }
    }
    Ok(votes)
}

fn allowed(verdict: &Verdict) -> Result<(), CallError> {
    if let Some(status) = verdict.client_status
        && !(400..=599).contains(&status)
    {
        return Err(CallError::Invalid(format!("expected a client status of 400 to 599, it gave {status}")));
    }
    if verdict.kind == FailureKind::GatewaySaturated {
        return Err(CallError::Invalid(format!("`{}` is the host's own kind", verdict.kind)));
    }
    Ok(())
}

fn bounded(tags: &[Tag]) -> Result<(), CallError> {
    if tags.len() > TAGS_MAX {
        return Err(CallError::Invalid(format!("expected at most {TAGS_MAX} tags, it gave {}", tags.len())));
    }
    let bytes: usize = tags.iter().map(|tag| tag.name.len() + tag.value.len()).sum();
    if bytes > TAGS_BYTES_MAX {
        return Err(CallError::Invalid(format!(
            "expected tags of at most {TAGS_BYTES_MAX} bytes, they have {bytes}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use sluice_core::facts::Sink;
    use sluice_core::verdict::{Action, BreakerEffect};

    fn vote(score: f64) -> Vote {
        Vote { score: Some(score), reason: None }
    }

    #[test]
    fn scores_that_are_no_share_of_one_are_refused() {
        for score in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.001, 1.001] {
            assert!(matches!(votes_for(1, vec![vote(score)]), Err(CallError::Invalid(_))), "{score}");
        }
        for score in [0.0, -0.0, 0.5, 1.0] {
            assert!(votes_for(1, vec![vote(score)]).is_ok(), "{score}");
        }
    }

    #[test]
    fn another_number_of_votes_is_refused() {
        for (candidates, votes) in [(2, 1), (2, 3), (1, 0), (0, 1)] {
            assert!(votes_for(candidates, vec![vote(0.5); votes]).is_err(), "{candidates} {votes}");
        }
        assert_eq!(votes_for(0, Vec::new()), Ok(Vec::new()));
    }

    #[test]
    fn long_reasons_are_cut_between_characters() {
        let reason = "é".repeat(200);
        let votes = votes_for(1, vec![Vote { score: None, reason: Some(reason) }]).unwrap();
        assert_eq!(votes[0].reason.as_ref().map(String::len), Some(256));
        let odd =
            votes_for(1, vec![Vote { score: None, reason: Some(format!("x{}", "é".repeat(200))) }]).unwrap();
        assert_eq!(odd[0].reason.as_ref().map(String::len), Some(255));
    }

    #[test]
    fn a_verdict_cannot_use_a_status_or_kind_that_is_not_its_own() {
        let verdict = |kind, client_status| Verdict {
            kind,
            action: Action::Switch,
            breaker: BreakerEffect::Ignore,
            cool_down: None,
            client_status,
        };
        for status in [0, 200, 399, 600] {
            assert!(allowed(&verdict(FailureKind::InvalidRequest, Some(status))).is_err(), "{status}");
        }
        for status in [None, Some(400), Some(599)] {
            assert!(allowed(&verdict(FailureKind::InvalidRequest, status)).is_ok(), "{status:?}");
        }
        assert!(allowed(&verdict(FailureKind::GatewaySaturated, None)).is_err());
    }

    #[test]
    fn too_many_tags_and_too_many_bytes_are_refused() {
        let tag = |bytes| Tag { name: "x".into(), value: "v".repeat(bytes), sink: Sink::Header };
        assert!(bounded(&vec![tag(1024); 16]).is_ok());
        assert!(bounded(&vec![tag(1); 17]).is_err());
        assert!(bounded(&[tag(TAGS_BYTES_MAX)]).is_err());
    }
}
