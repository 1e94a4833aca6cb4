//! Scores everything 0.5, unless a header asks it to misbehave: `x-trap`, `x-mem`, `x-deep`, `x-nan`,
//! `x-short`, `x-long`, `x-huge`, `x-flood`, `x-loop`. With `x-wordy` it gives each vote a reason of ten
//! kilobytes, which is no fault.

use sluice_guests::{dive, even, grow, header, spin, trap};
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote, log};

struct Hostile;

impl Plugin for Hostile {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for Hostile {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let asked = |name| header(request, name).is_some();
        let mut votes = even(candidates);
        if asked("x-trap") {
            trap("asked to trap");
        }
        if asked("x-loop") {
            spin();
        }
        if asked("x-mem") {
            grow();
        }
        if asked("x-deep") {
            votes.truncate(dive(0) as usize);
        }
        if asked("x-nan") {
            let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 2.0];
            votes = odd.into_iter().cycle().take(candidates.len()).map(Vote::score).collect();
        }
        if asked("x-short") {
            votes.pop();
        }
        if asked("x-long") {
            votes.push(Vote::score(0.5));
        }
        if asked("x-huge") {
            votes = votes.into_iter().map(|vote| vote.because("x".repeat(10_000_000))).take(1).collect();
            votes.extend(even(candidates).into_iter().skip(1));
        }
        if asked("x-wordy") {
            votes = even(candidates).into_iter().map(|vote| vote.because("x".repeat(10_000))).collect();
        }
        if asked("x-flood") {
            for line in 0..10_000 {
                log::warn(&format!("line {line}: {}", "x".repeat(4_096)));
            }
        }
        votes
    }
}

sluice_sdk::plugin!(Hostile: Router);
