//! Answers by how often it was asked: a plugin whose instances are not like each other.

use std::cell::Cell;

use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct Counting {
    calls: Cell<u32>,
}

impl Plugin for Counting {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self { calls: Cell::new(0) })
    }
}

impl Router for Counting {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        self.calls.set(self.calls.get() + 1);
        Vote::each(candidates, |_| Vote::score(1.0 / f64::from(self.calls.get())))
    }
}

sluice_sdk::plugin!(Counting: Router);
