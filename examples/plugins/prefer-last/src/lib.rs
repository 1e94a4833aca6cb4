//! Turns the configured order around: the last target that can take the call is asked first.

use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct PreferLast;

impl Plugin for PreferLast {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for PreferLast {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let step = 1.0 / candidates.len().max(1) as f64;
        (1..=candidates.len()).map(|place| Vote::score(step * place as f64)).collect()
    }
}

sluice_sdk::plugin!(PreferLast: Router);

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_sdk::testing::{candidate, request};

    #[test]
    fn the_last_candidate_scores_best() {
        let votes = PreferLast.score(&request(), &[candidate(4), candidate(0), candidate(2)]);
        assert!(votes.iter().map(|vote| vote.score).is_sorted_by(|one, next| one < next), "{votes:?}");
        assert_eq!(votes.last().and_then(|vote| vote.score), Some(1.0));
    }
}
