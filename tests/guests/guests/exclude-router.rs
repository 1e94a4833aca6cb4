//! Excludes the targets named in the header `x-exclude`, a list of `upstream/model` with commas between;
//! without the header, every one. The probe of a host, which sends no header, sees every one excluded. What is
//! named in `x-exclude-later` is excluded once an attempt has failed.

use sluice_guests::header;
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct Exclude {
    names: Vec<String>,
}

impl Plugin for Exclude {
    type Settings = NoSettings;

    fn configure(_: NoSettings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        let name = |target: TargetFacts| format!("{}/{}", target.upstream, target.model);
        Ok(Self { names: targets.into_iter().map(name).collect() })
    }
}

impl Router for Exclude {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let listed = header(request, "x-exclude");
        let later = header(request, "x-exclude-later").filter(|_| request.attempt > 1);
        let excluded = |candidate: &Candidate| match (listed, self.names.get(candidate.target as usize)) {
            (None, _) => true,
            (Some(list), Some(name)) => {
                list.split(',').chain(later.unwrap_or("").split(',')).any(|listed| listed.trim() == name)
            }
            (Some(_), None) => false,
        };
        let vote = |candidate| {
            if excluded(candidate) { Vote::exclude() } else { Vote::score(0.5) }
        };
        candidates.iter().map(vote).collect()
    }
}

sluice_sdk::plugin!(Exclude: Router);
