//! Recent percentiles of a time, for routers, pages and `min_budget: p95`.
//!
//! Two histograms take every sample; the older one is read. After each period the older one is emptied and
//! they change places, so what is read covers one to two periods, without merging or copying. They are made
//! with the first sample and given up after two idle periods: a target nobody calls costs a few words.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

#[cfg(test)]
mod tests;

/// Time between two rotations.
const PERIOD: Duration = Duration::from_secs(150);

/// Percentiles are found anew once there is one sample more for each so many.
const STALE: u64 = 32;

const LOWEST_MS: u64 = 1;
const HIGHEST_MS: u64 = 3_600_000;
const DIGITS: u8 = 2;

/// Percentiles of the recent samples, exact to two digits, 1 ms to 1 h. Of many samples the last few may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentiles {
    /// Median.
    pub p50: Duration,
    /// 95 of 100 were not longer.
    pub p95: Duration,
    /// 99 of 100 were not longer.
    pub p99: Duration,
    /// Samples behind them.
    pub samples: u64,
}

/// The recent samples of one time.
#[derive(Debug, Default)]
pub struct Latency {
    pair: Option<Box<Pair>>,
}

#[derive(Debug)]
struct Pair {
    older: Histogram<u32>,
    newer: Histogram<u32>,
    rotated: Instant,
    /// What was read last: finding a percentile walks over thousands of counters.
    read: Option<Percentiles>,
}

impl Latency {
    /// Without samples, and without memory for any.
    pub const fn new() -> Self {
        Self { pair: None }
    }

    /// Takes a sample; below a millisecond counts as one, above an hour as one hour.
    pub fn record(&mut self, now: Instant, took: Duration) {
        self.rotate(now);
        if self.pair.is_none() {
            self.pair = Pair::new(now).map(Box::new);
        }
        if let Some(pair) = &mut self.pair {
            let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).clamp(LOWEST_MS, HIGHEST_MS);
            pair.older.saturating_record(ms);
            pair.newer.saturating_record(ms);
            let grown = |read: &Percentiles| pair.older.len() > read.samples + read.samples / STALE;
            if pair.read.as_ref().is_some_and(grown) {
                pair.read = None;
            }
        }
    }

    /// Percentiles of the last one to two periods; none without samples in them.
    pub fn percentiles(&mut self, now: Instant) -> Option<Percentiles> {
        self.rotate(now);
        let pair = self.pair.as_mut()?;
        let Pair { older, read, .. } = &mut **pair;
        let at = |quantile| Duration::from_millis(older.value_at_quantile(quantile));
        let known = read.take().filter(|_| !older.is_empty());
        *read = known.or_else(|| {
            (!older.is_empty()).then(|| Percentiles {
                p50: at(0.5),
                p95: at(0.95),
                p99: at(0.99),
                samples: older.len(),
            })
        });
        *read
    }

    fn rotate(&mut self, now: Instant) {
        let Some(pair) = &mut self.pair else { return };
        let idle = now.saturating_duration_since(pair.rotated);
        if idle >= PERIOD * 2 {
            self.pair = None;
        } else if idle >= PERIOD {
            std::mem::swap(&mut pair.older, &mut pair.newer);
            pair.newer.reset();
            pair.rotated += PERIOD;
            pair.read = None;
        }
    }
}

impl Pair {
    /// None only if the library refused the constant bounds, which a test would show.
    fn new(now: Instant) -> Option<Self> {
        let empty = || Histogram::new_with_bounds(LOWEST_MS, HIGHEST_MS, DIGITS).ok();
        Some(Self { older: empty()?, newer: empty()?, rotated: now, read: None })
    }
}
