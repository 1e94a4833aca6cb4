//! Counters of one plugin for the status page. They outlive a reconfiguration, not a new version.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::call::CallResult;

/// Longest time told apart, µs.
const LONGEST_US: u64 = 60_000_000;

/// Counters of one plugin.
#[derive(Debug)]
pub struct Stats {
    results: [AtomicU64; CallResult::ALL.len()],
    took: Option<Mutex<Histogram<u64>>>,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            results: Default::default(),
            took: Histogram::new_with_bounds(1, LONGEST_US, 2).ok().map(Mutex::new),
        }
    }
}

impl Stats {
    /// A call ended.
    pub fn count(&self, result: CallResult, took: Duration) {
        if let Some(counter) = CallResult::ALL.iter().position(|other| *other == result) {
            self.results[counter].fetch_add(1, Ordering::Relaxed);
        }
        if let (Some(histogram), false) = (&self.took, result == CallResult::SetAside) {
            let micros = u64::try_from(took.as_micros()).unwrap_or(LONGEST_US);
            histogram.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros.max(1));
        }
    }

    /// Calls that ran.
    pub fn calls(&self) -> u64 {
        let set_aside = self.results[CallResult::ALL.len() - 1].load(Ordering::Relaxed);
        self.results.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>() - set_aside
    }

    /// Calls by result, without those that gave an answer and without zeros.
    pub fn failures(&self) -> BTreeMap<&'static str, u64> {
        CallResult::ALL
            .iter()
            .zip(&self.results)
            .filter(|(result, _)| !matches!(result, CallResult::Ok | CallResult::None))
            .map(|(result, count)| (result.as_str(), count.load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// Time of a call in µs at a quantile; none before the first.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let histogram = self.took.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_no_failures_and_calls_that_were_not_made_are_no_calls() {
        let stats = Stats::default();
        assert_eq!((stats.calls(), stats.quantile_us(0.5)), (0, None));
        for result in [CallResult::Ok, CallResult::None, CallResult::Trap, CallResult::SetAside] {
            stats.count(result, Duration::from_micros(100));
        }
        assert_eq!(stats.calls(), 3);
        assert_eq!(stats.failures(), BTreeMap::from([("trap", 1), ("set_aside", 1)]));
        assert!(stats.quantile_us(0.99).is_some_and(|us| (99..=101).contains(&us)));
    }
}
