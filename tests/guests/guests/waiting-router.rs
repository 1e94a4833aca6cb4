//! Scores everything 0.5. With the header `x-wait` it first reads its standard input to the end and flushes its
//! output, which a host that lets a guest wait for it would never come back from.

use std::io::{Read as _, Write as _};

use sluice_guests::{even, header};
use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

struct Waiting;

impl Plugin for Waiting {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for Waiting {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        if header(request, "x-wait").is_some() {
            let mut read = Vec::new();
            let outcome = std::io::stdin().read_to_end(&mut read);
            let flushed = std::io::stdout().write_all(b"read\n").and_then(|()| std::io::stdout().flush());
            if outcome.is_err() || flushed.is_err() || !read.is_empty() {
                return Vec::new();
            }
        }
        even(candidates)
    }
}

sluice_sdk::plugin!(Waiting: Router);
