//! A router that breaks when a request asks it to, so that `sluice demo` can show what the gateway then does.
//!
//! The header `x-fault` says how: `trap`, `loop` or `memory`. Without it every candidate is as good as any,
//! which leaves the configured order. Not for any other use.

use std::hint::black_box;

use sluice_sdk::{Candidate, NoSettings, Plugin, RequestFacts, Router, TargetFacts, Vote};

/// Taken at a time by the one that eats memory.
const BITE: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Trap,
    Loop,
    Memory,
}

struct FaultRouter;

impl Plugin for FaultRouter {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for FaultRouter {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        match asked(request) {
            Some(Fault::Trap) => std::process::abort(),
            Some(Fault::Loop) => loop {
                black_box(());
            },
            Some(Fault::Memory) => eat(),
            None => candidates.iter().map(|_| Vote::score(1.0)).collect(),
        }
    }
}

fn asked(request: &RequestFacts) -> Option<Fault> {
    let (_, value) = request.headers.iter().find(|(name, _)| name == "x-fault")?;
    match value.as_str() {
        "trap" => Some(Fault::Trap),
        "loop" => Some(Fault::Loop),
        "memory" => Some(Fault::Memory),
        _ => None,
    }
}

fn eat() -> ! {
    let mut eaten = Vec::new();
    loop {
        eaten.push(black_box(vec![1_u8; BITE]));
    }
}

sluice_sdk::plugin!(FaultRouter: Router);

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_sdk::testing;

    #[test]
    fn only_the_header_asks_for_a_fault() {
        let with = |name: &str, value: &str| RequestFacts {
            headers: vec![(name.to_owned(), value.to_owned())],
            ..testing::request()
        };
        for (value, fault) in [("trap", Fault::Trap), ("loop", Fault::Loop), ("memory", Fault::Memory)] {
            assert_eq!(asked(&with("x-fault", value)), Some(fault));
            assert_eq!(asked(&with("x-task", value)), None);
        }
        assert_eq!(asked(&with("x-fault", "no such fault")), None);
        let votes = FaultRouter.score(&testing::request(), &[testing::candidate(0), testing::candidate(1)]);
        assert!(votes.iter().all(|vote| vote.score == Some(1.0)), "{votes:?}");
    }
}
