//! What a scripted upstream has seen: counters that only ever tell, and decide nothing.
//!
//! An exchange is open from its complete request to its end, and ends exactly once: completed, broken
//! by its script, or aborted by a client that left. Names of models are the caller's, so only so many are kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Distinct model names that are told apart; later ones count as `other`.
const MAX_MODELS: usize = 256;

/// A snapshot of the counters. Serialised as it is by `GET /mock/stats`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Calls whose request was complete.
    pub requests: u64,
    /// The same by requested model.
    pub by_model: BTreeMap<String, u64>,
    /// The same by the word of the behaviour, without its number.
    pub by_behaviour: BTreeMap<&'static str, u64>,
    /// Calls refused for a mistake of their own (400, 404, 413); not in `requests`.
    pub refused: u64,
    /// Exchanges running now.
    pub open: u64,
    /// The most that ran at once.
    pub max_open: u64,
    /// Answers given whole, errors included.
    pub completed: u64,
    /// Answers broken off by their script.
    pub broken: u64,
    /// Exchanges whose client left before the end.
    pub aborted: u64,
}

/// The counters, shared by all connections of one server.
#[derive(Debug, Clone, Default)]
pub struct Counters(Arc<Mutex<Stats>>);

impl Counters {
    fn lock(&self) -> MutexGuard<'_, Stats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As they are now.
    #[must_use]
    pub fn snapshot(&self) -> Stats {
        self.lock().clone()
    }

    /// Back to zero; exchanges that run stay counted as open.
    pub fn reset(&self) {
        let mut stats = self.lock();
        let open = stats.open;
        *stats = Stats { open, max_open: open, ..Stats::default() };
    }

    /// One call that asked for something this server does not have.
    pub fn refused(&self) {
        self.lock().refused += 1;
    }

    /// One exchange begins.
    #[must_use]
    pub fn begin(&self, model: &str, behaviour: &'static str) -> Exchange {
        let mut stats = self.lock();
        stats.requests += 1;
        let known = stats.by_model.len() < MAX_MODELS || stats.by_model.contains_key(model);
        let name = if known { model } else { "other" };
        *stats.by_model.entry(name.to_owned()).or_default() += 1;
        *stats.by_behaviour.entry(behaviour).or_default() += 1;
        stats.open += 1;
        stats.max_open = stats.max_open.max(stats.open);
        Exchange { counters: self.clone(), end: End::Aborted }
    }
}

/// One running exchange; dropped without a word, its client had left.
#[derive(Debug)]
pub struct Exchange {
    counters: Counters,
    end: End,
}

#[derive(Debug)]
enum End {
    Completed,
    Broken,
    Aborted,
}

impl Exchange {
    /// The whole answer was given.
    pub fn completed(mut self) {
        self.end = End::Completed;
    }

    /// The script broke it off.
    pub fn broken(mut self) {
        self.end = End::Broken;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut stats = self.counters.lock();
        stats.open = stats.open.saturating_sub(1);
        match self.end {
            End::Completed => stats.completed += 1,
            End::Broken => stats.broken += 1,
            End::Aborted => stats.aborted += 1,
        }
    }
}
