//! The trace of one request, and the queue in which it waits to be sent with its record. Telemetry puts in and never waits;
//! who takes out, and how spans are made of it, is decided elsewhere. What finds no room is dropped and counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::record::Record;
use crate::config::Target;

/// Most requests that wait.
const MAX_REQUESTS: usize = 4096;
/// Most memory of them, by [`Record::weight`].
const MAX_BYTES: usize = 16 << 20;

/// Where the spans of a request belong. There is one only where they are kept.
#[derive(Debug)]
pub struct Trace {
    /// Of all its spans.
    pub trace_id: u128,
    /// The request's own span.
    pub span_id: u64,
    /// The client's span; none: the trace begins here.
    pub parent: Option<u64>,
    /// One for each attempt, in order.
    pub attempts: Vec<AttemptSpan>,
}

/// The span of one attempt.
#[derive(Debug)]
pub struct AttemptSpan {
    /// Its id.
    pub span_id: u64,
    /// Who was asked.
    pub target: Arc<Target>,
    /// When it began, after arrival.
    pub begin: Duration,
    /// When its exchange was over, after arrival; none: with the request.
    pub end: Option<Duration>,
    /// It was the probe of a half-open breaker.
    pub probe: bool,
    /// It ended with the client or the gateway.
    pub cancelled: bool,
}

/// An ended request and its trace.
#[derive(Debug)]
pub struct Traced {
    /// What happened.
    pub record: Arc<Record>,
    /// Where it belongs.
    pub trace: Box<Trace>,
}

impl Traced {
    /// Spans that it comes to.
    #[must_use]
    pub fn spans(&self) -> u64 {
        1 + self.trace.attempts.len() as u64
    }

    fn weight(&self) -> usize {
        self.record.weight() + self.trace.attempts.len() * size_of::<AttemptSpan>()
    }
}

/// The queue.
#[derive(Debug, Default)]
pub struct TraceQueue {
    /// Whether there is a collector: requests that began with one may end without.
    wanted: AtomicBool,
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<Traced>,
    bytes: usize,
}

impl TraceQueue {
    /// From now on there is a collector, or there is none any more and nobody misses what comes.
    pub fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Release);
    }

    /// Puts one in. False: there is a collector, but there was no room.
    pub fn push(&self, traced: Traced) -> bool {
        if !self.wanted.load(Ordering::Acquire) {
            return true;
        }
        let weight = traced.weight();
        let mut waiting = self.lock();
        if waiting.requests.len() >= MAX_REQUESTS || waiting.bytes + weight > MAX_BYTES {
            return false;
        }
        waiting.bytes += weight;
        waiting.requests.push_back(traced);
        drop(waiting);
        self.filled.notify_one();
        true
    }

    /// Takes the oldest ones, at most so many.
    pub fn take(&self, most: usize) -> Vec<Traced> {
        let mut waiting = self.lock();
        let count = most.min(waiting.requests.len());
        let taken: Vec<Traced> = waiting.requests.drain(..count).collect();
        let bytes: usize = taken.iter().map(Traced::weight).sum();
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        taken
    }

    /// Waits until one is there. For one waiter.
    pub async fn filled(&self) {
        while self.lock().requests.is_empty() {
            self.filled.notified().await;
        }
    }

    /// At least so many wait.
    pub fn has(&self, requests: usize) -> bool {
        self.lock().requests.len() >= requests
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::sample;
    use super::*;

    fn traced() -> Traced {
        let trace = Trace { trace_id: 1, span_id: 2, parent: None, attempts: Vec::new() };
        Traced { record: Arc::new(sample()), trace: Box::new(trace) }
    }

    #[tokio::test]
    async fn the_queue_has_a_bound_and_gives_the_oldest_first() {
        let queue = TraceQueue::default();
        assert!(queue.push(traced()) && !queue.has(1), "nobody wants it");
        queue.want(true);
        let room = (0..2 * MAX_REQUESTS).take_while(|_| queue.push(traced())).count();
        assert!((MAX_REQUESTS / 4..=MAX_REQUESTS).contains(&room), "{room}");
        assert!(!queue.push(traced()) && queue.has(room) && !queue.has(room + 1));
        assert_eq!(queue.take(10).len(), 10);
        assert!(queue.push(traced()));
        assert_eq!(queue.take(usize::MAX).len(), room - 9);
        assert_eq!(queue.lock().bytes, 0, "room is given back");
        queue.push(traced());
        queue.filled().await;
    }
}
