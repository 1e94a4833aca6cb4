#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn near(got: Duration, expected: u64) -> bool {
    got.abs_diff(ms(expected)) <= ms(expected / 100 + 1)
}

#[test]
fn percentiles_are_right_to_two_digits() {
    let now = Instant::now();
    let mut latency = Latency::new();
    assert_eq!(latency.percentiles(now), None);
    for sample in 1..=1000 {
        latency.record(now, ms(sample * 10));
    }
    let read = latency.percentiles(now).unwrap();
    assert!(near(read.p50, 5000) && near(read.p95, 9500) && near(read.p99, 9900), "{read:?}");
    assert_eq!(read.samples, 1000);
}

#[test]
fn what_is_read_follows_the_samples_though_not_each_of_them() {
    let now = Instant::now();
    let mut latency = Latency::new();
    for sample in 1..=2000u64 {
        latency.record(now, ms(if sample <= 1000 { 10 } else { 5000 }));
        let read = latency.percentiles(now).unwrap();
        assert!(read.samples <= sample && sample - read.samples <= sample / 32, "{sample}: {}", read.samples);
    }
    let read = latency.percentiles(now).unwrap();
    assert!(near(read.p50, 10) && near(read.p95, 5000), "{read:?}");
}

#[test]
fn samples_out_of_range_count_at_its_ends() {
    let now = Instant::now();
    for (took, expected) in [(Duration::ZERO, 1), (Duration::from_micros(10), 1), (Duration::MAX, 3_600_000)]
    {
        let mut latency = Latency::new();
        latency.record(now, took);
        assert!(near(latency.percentiles(now).unwrap().p50, expected), "{took:?}");
    }
}

#[test]
fn old_samples_leave_after_one_to_two_periods() {
    let start = Instant::now();
    let mut latency = Latency::new();
    latency.record(start, ms(9000));
    for _ in 0..99 {
        latency.record(start + PERIOD / 2, ms(9000));
    }
    latency.record(start + PERIOD, ms(10));
    let read = latency.percentiles(start + PERIOD).unwrap();
    assert_eq!(read.samples, 101, "the period before is still there");
    let read = latency.percentiles(start + PERIOD * 2).unwrap();
    assert_eq!((read.samples, read.p99), (1, ms(10)), "and gone one later");
    assert_eq!(latency.percentiles(start + PERIOD * 3), None);
}

#[test]
fn memory_is_made_with_the_first_sample_bounded_and_given_up_when_idle() {
    let start = Instant::now();
    let mut latency = Latency::new();
    assert!(size_of::<Latency>() <= 16 && latency.pair.is_none());
    for sample in 0..10_000 {
        latency.record(start, ms(sample * 997 % 3_600_000));
    }
    let counters = latency.pair.as_ref().unwrap().older.distinct_values();
    assert!(counters * size_of::<u32>() <= 10 * 1024, "{counters} counters");
    assert_eq!(latency.percentiles(start + PERIOD * 2), None);
    assert!(latency.pair.is_none());
}
