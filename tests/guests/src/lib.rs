//! What the guests share: reading the header that makes a guest misbehave, and the ways to do so.
//!
//! Each guest is an example of this package, which is how one package makes many components.

use std::hint::black_box;

use sluice_sdk::{Candidate, RequestFacts, Vote};

/// The value of a request header, if the request has it.
pub fn header<'a>(request: &'a RequestFacts, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The same score for every candidate.
pub fn even(candidates: &[Candidate]) -> Vec<Vote> {
    candidates.iter().map(|_| Vote::score(0.5)).collect()
}

/// Panics with a message longer than any log line.
#[allow(clippy::panic, reason = "a trap is what the guest is for")]
pub fn trap(why: &str) -> ! {
    panic!("{why}: {}", "a message without end, ".repeat(4_096))
}

/// Never returns.
pub fn spin() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Takes memory until there is none.
pub fn grow() -> ! {
    let mut taken = Vec::new();
    loop {
        taken.push(black_box(vec![1_u8; 64 * 1024]));
    }
}

/// Recurses until the stack of calls is used up. Its frames hold next to nothing, or the guest would run out
/// of its own memory for the stack first, which is another trap.
pub fn dive(depth: u64) -> u64 {
    if black_box(depth) == u64::MAX { 0 } else { dive(depth + 1).wrapping_add(depth) }
}
