//! Percentiles of a few hundred measured times. Each is one of the times themselves, the smallest that so many
//! per cent do not exceed, so that a P99 of a hundred calls is a call that can be looked up.

use std::time::Duration;

/// Three percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Median.
    pub p50: Duration,
    /// 95th.
    pub p95: Duration,
    /// 99th.
    pub p99: Duration,
}

impl Times {
    /// Of these times; none: there are none.
    pub fn of(times: impl Iterator<Item = Duration>) -> Option<Self> {
        let mut times: Vec<Duration> = times.collect();
        times.sort_unstable();
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { p50: at(50)?, p95: at(95)?, p99: at(99)? })
    }

    /// How many times the tail of another this one's is; none: the other has none to speak of.
    pub fn tail_ratio(&self, healthy: &Self) -> Option<f64> {
        let base = healthy.p99.as_secs_f64();
        (base > 0.0).then(|| self.p99.as_secs_f64() / base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[u64]) -> Option<(u128, u128, u128)> {
        let times = Times::of(times.iter().map(|ms| Duration::from_millis(*ms)))?;
        Some((times.p50.as_millis(), times.p95.as_millis(), times.p99.as_millis()))
    }

    #[test]
    fn a_percentile_is_the_smallest_time_that_so_many_do_not_exceed() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some((7, 7, 7)));
        assert_eq!(of(&[4, 1, 3, 2]), Some((2, 4, 4)));
        assert_eq!(of(&(1..=20).rev().collect::<Vec<_>>()), Some((10, 19, 20)));
        assert_eq!(of(&(1..=100).collect::<Vec<_>>()), Some((50, 95, 99)));
        assert_eq!(of(&(1..=1000).collect::<Vec<_>>()), Some((500, 950, 990)));
    }

    #[test]
    fn tails_are_compared_by_their_p99() {
        let times = |p99| Times { p50: Duration::ZERO, p95: Duration::ZERO, p99: Duration::from_millis(p99) };
        assert_eq!(times(30).tail_ratio(&times(20)), Some(1.5));
        assert_eq!(times(30).tail_ratio(&times(0)), None);
    }
}
