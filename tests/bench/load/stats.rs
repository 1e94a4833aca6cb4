//! What a load has seen, and the figures that come of it.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::LATE;

/// What one caller, or all of them, have seen.
pub struct Stats {
    /// Calls that were not answered whole.
    pub errors: u64,
    /// Events with the time at which they were written.
    pub events: u64,
    late: u64,
    /// Call to end, call to first content, upstream to client; nanoseconds.
    call: Histogram<u64>,
    first: Histogram<u64>,
    event: Histogram<u64>,
}

/// The figures of a load. Times are milliseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Calls answered whole.
    pub calls: u64,
    /// Calls that were not.
    pub errors: u64,
    /// Events seen.
    pub events: u64,
    /// Events that took longer than 250 ms from the upstream.
    pub late: u64,
    /// How long it took, seconds.
    pub secs: f64,
    /// Call to end: median, 95th and 99th percentile.
    pub call: [f64; 3],
    /// Call to first content.
    pub first: [f64; 3],
    /// Upstream to client, each event.
    pub event: [f64; 3],
}

impl Stats {
    pub fn new() -> Self {
        let times = || Histogram::new(3).expect("three digits are allowed");
        Self { errors: 0, events: 0, late: 0, call: times(), first: times(), event: times() }
    }

    /// Keeps errors alone: what was seen so far was a warm-up.
    pub fn forget_times(&mut self) {
        *self = Self { errors: self.errors, ..Self::new() };
    }

    pub fn answered(&mut self, took: Duration) {
        note(&mut self.call, took.as_nanos());
    }

    pub fn first(&mut self, took: Duration) {
        note(&mut self.first, took.as_nanos());
    }

    /// An event that was written at `written` and read at `read`; a burst does not say when it was written.
    pub fn event(&mut self, written: u128, read: u128) {
        self.events += 1;
        if written > 0 {
            let took = read.saturating_sub(written);
            self.late += u64::from(took > LATE.as_nanos());
            note(&mut self.event, took);
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.errors += other.errors;
        self.events += other.events;
        self.late += other.late;
        for (all, one) in
            [(&mut self.call, &other.call), (&mut self.first, &other.first), (&mut self.event, &other.event)]
        {
            all.add(one).expect("an automatic histogram takes any value");
        }
    }

    pub fn figures(&self, took: Duration) -> Figures {
        let of = |times: &Histogram<u64>| {
            [50.0, 95.0, 99.0].map(|p| Duration::from_nanos(times.value_at_percentile(p)).as_secs_f64() * 1e3)
        };
        Figures {
            calls: self.call.len(),
            errors: self.errors,
            events: self.events,
            late: self.late,
            secs: took.as_secs_f64(),
            call: of(&self.call),
            first: of(&self.first),
            event: of(&self.event),
        }
    }
}

fn note(times: &mut Histogram<u64>, nanoseconds: u128) {
    times.record(u64::try_from(nanoseconds).unwrap_or(u64::MAX)).expect("it grows by itself");
}
