//! What is known about one target, and the right to call it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluice_core::breaker::{self, Breaker, Change, Facts};
use sluice_core::facts::{BreakerState, Candidate};
use sluice_core::kind::FailureKind;
use sluice_core::latency::{Latency, Percentiles};
use sluice_core::window::{SuccessRate, Tally};
use tokio::sync::Notify;

use super::{Gate, StateWatch, UpstreamCell, lock};
use crate::{clock, config};

mod ticket;

#[cfg(test)]
mod tests;

pub use ticket::{Running, Ticket};

/// Providers count by the minute: what they told about a quota is stale after one.
const QUOTA_KNOWN_FOR: Duration = Duration::from_secs(60);

/// Whether a target can take a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Able {
    /// It can.
    Yes,
    /// It can, as the one probe of its breaker.
    Probe,
    /// Its breaker refuses.
    Open {
        /// When it may be tried; none: a probe is out, and its result decides.
        until: Option<Instant>,
    },
    /// It is left alone, its breaker untouched.
    Cooling {
        /// When it may be tried.
        until: Instant,
        /// The failure it cools after.
        kind: FailureKind,
    },
}

/// What pages show of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetPage {
    /// Whether it can take a call.
    pub able: Able,
    /// Its breaker.
    pub breaker: Facts,
    /// Cool-down left, and the failure it cools after.
    pub cooling: Option<(Duration, FailureKind)>,
    /// Attempts running.
    pub in_flight: u32,
    /// Attempts of the last minute, the answered ones marked.
    pub last_minute: Tally,
    /// Time to commit.
    pub latency: Option<Percentiles>,
    /// Time to first content of streams.
    pub first_content: Option<Percentiles>,
    /// Share of the provider's quota left: what it told within the last minute, else what is left of the configured one
    /// by our own count.
    pub quota_left: Option<f64>,
}

/// A target at its position in one configuration. What is behind it is shared with other generations.
pub struct TargetCell {
    index: u32,
    upstream: Arc<UpstreamCell>,
    gate: Option<Arc<Gate>>,
    kept: Arc<Kept>,
}

/// What outlives a configuration.
pub(super) struct Kept {
    key: Arc<str>,
    watch: Arc<dyn StateWatch>,
    refusing: Notify,
    in_flight: AtomicU32,
    inner: Mutex<Inner>,
}

struct Inner {
    breaker: Breaker,
    cooling: Option<(Instant, FailureKind)>,
    success: SuccessRate,
    latency: Latency,
    first_content: Latency,
    quota: Option<(f64, Instant)>,
    last_failure: Option<FailureKind>,
}

impl TargetCell {
    pub(super) fn new(
        index: usize,
        upstream: Arc<UpstreamCell>,
        gate: Option<Arc<Gate>>,
        kept: Arc<Kept>,
    ) -> Self {
        Self { index: u32::try_from(index).unwrap_or(u32::MAX), upstream, gate, kept }
    }

    /// `upstream/model`.
    pub fn key(&self) -> &Arc<str> {
        &self.kept.key
    }

    /// Its upstream, in the same configuration.
    pub fn upstream(&self) -> &Arc<UpstreamCell> {
        &self.upstream
    }

    /// The gates of an attempt, in the order they are to be entered: its own first, so that nobody holds a
    /// permit of the upstream, which its other targets need, while waiting for this one.
    pub fn gates(&self) -> impl Iterator<Item = &Arc<Gate>> {
        self.gate.iter().chain(std::iter::once(self.upstream.gate()))
    }

    /// Whether it can take a call now. Takes nothing.
    pub fn able(&self, now: Instant) -> Able {
        lock(&self.kept.inner).able(now)
    }

    /// The right to one call, as the probe where that is what is free.
    ///
    /// # Errors
    /// Why not: [`Able::Open`] or [`Able::Cooling`].
    pub fn admit(&self, now: Instant) -> Result<Ticket, Able> {
        let (ticket, change) = {
            let mut inner = lock(&self.kept.inner);
            match inner.able(now) {
                Able::Yes | Able::Probe => inner.breaker.admit(now).map_err(|refused| open(refused, None))?,
                refused => return Err(refused),
            }
        };
        self.kept.tell(change);
        Ok(Ticket::new(&self.kept, ticket))
    }

    /// Leaves it alone until then, without touching its breaker. A longer cool-down stays.
    pub fn cool(&self, until: Instant, kind: FailureKind) {
        let longer = {
            let mut inner = lock(&self.kept.inner);
            let longer = inner.cooling.is_none_or(|(before, _)| before < until);
            if longer {
                inner.cooling = Some((until, kind));
            }
            longer
        };
        if longer {
            self.kept.refusing.notify_waiters();
        }
    }

    /// Its breaker is open or it is cooling: a call that was admitted before should go elsewhere.
    pub fn refuses(&self, now: Instant) -> bool {
        lock(&self.kept.inner).refuses(now)
    }

    /// Ends once the breaker opens or a cool-down begins, so that calls queued for this target can go
    /// elsewhere. To be polled by calls that were admitted: a probe does not refuse itself.
    pub async fn refusing(&self) {
        // Made before looking, it hears of everything that happens from here on.
        let told = self.kept.refusing.notified();
        if lock(&self.kept.inner).refuses(clock::now()) {
            return;
        }
        told.await;
    }

    /// An attempt begins; it runs until what is returned is dropped.
    pub fn run(&self) -> Running {
        Running::new(&self.kept)
    }

    /// An attempt committed so long after it began; a stream's first content came after its own time.
    pub fn observe_commit(&self, now: Instant, took: Duration, first_content: Option<Duration>) {
        let mut inner = lock(&self.kept.inner);
        inner.latency.record(now, took);
        if let Some(first_content) = first_content {
            inner.first_content.record(now, first_content);
        }
    }

    /// An attempt was answered or failed, for the success rate. Cancelled ones are not observed.
    pub fn observe_result(&self, now: Instant, ok: bool) {
        lock(&self.kept.inner).success.record(now, ok);
    }

    /// What the last failed attempt was.
    pub fn observe_failure(&self, kind: FailureKind) {
        lock(&self.kept.inner).last_failure = Some(kind);
    }

    /// The provider told which share of its quota is left.
    pub fn observe_quota(&self, now: Instant, left: f64) {
        lock(&self.kept.inner).quota = Some((left, now));
    }

    /// What the last failed attempt was, also before this configuration.
    pub fn last_failure_kind(&self) -> Option<FailureKind> {
        lock(&self.kept.inner).last_failure
    }

    /// Recent p95 to commit.
    pub fn p95_to_commit(&self, now: Instant) -> Option<Duration> {
        lock(&self.kept.inner).latency.percentiles(now).map(|read| read.p95)
    }

    /// What a router is told. `tried` is the request's to set.
    pub fn candidate_numbers(&self, now: Instant) -> Candidate {
        let page = self.page(now);
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let cool_down = page.cooling.map_or(0, |(left, _)| left.as_millis());
        Candidate {
            target: self.index,
            health: page.last_minute.share().unwrap_or(1.0),
            samples: page.last_minute.all,
            latency_p50_ms: page.latency.map(|read| ms(read.p50)),
            latency_p95_ms: page.latency.map(|read| ms(read.p95)),
            first_content_p50_ms: page.first_content.map(|read| ms(read.p50)),
            first_content_p95_ms: page.first_content.map(|read| ms(read.p95)),
            in_flight: page.in_flight,
            capacity: self.gates().map(|gate| gate.snapshot().limit).min().unwrap_or(u32::MAX),
            quota_left: page.quota_left,
            cool_down_ms: u32::try_from(cool_down).unwrap_or(u32::MAX),
            // To a router, a breaker that would let a probe through is half-open, whether or not one was.
            breaker: if page.able == Able::Probe { BreakerState::HalfOpen } else { page.breaker.state },
            failures: page.breaker.failures,
            tried: false,
        }
    }

    /// For pages and metrics.
    pub fn page(&self, now: Instant) -> TargetPage {
        let in_flight = self.kept.in_flight.load(Ordering::Relaxed);
        let counted = self.upstream.quota_left(now);
        let mut inner = lock(&self.kept.inner);
        let known = |(left, at): (f64, Instant)| {
            (now.saturating_duration_since(at) < QUOTA_KNOWN_FOR).then_some(left)
        };
        TargetPage {
            able: inner.able(now),
            breaker: inner.breaker.facts(),
            cooling: inner.cooling(now).map(|(until, kind)| (until - now, kind)),
            in_flight,
            last_minute: inner.success.last_minute(now),
            latency: inner.latency.percentiles(now),
            first_content: inner.first_content.percentiles(now),
            quota_left: inner.quota.and_then(known).or(counted),
        }
    }
}

impl Kept {
    pub(super) fn new(
        key: &Arc<str>,
        settings: &config::Breaker,
        watch: &Arc<dyn StateWatch>,
        now: Instant,
    ) -> Self {
        let inner = Inner {
            breaker: Breaker::new(breaker_settings(settings)),
            cooling: None,
            success: SuccessRate::new(now),
            latency: Latency::new(),
            first_content: Latency::new(),
            quota: None,
            last_failure: None,
        };
        Self {
            key: key.clone(),
            watch: watch.clone(),
            refusing: Notify::new(),
            in_flight: AtomicU32::new(0),
            inner: Mutex::new(inner),
        }
    }

    pub(super) fn set(&self, settings: &config::Breaker) {
        lock(&self.inner).breaker.set(breaker_settings(settings));
    }

    fn tell(&self, change: Option<Change>) {
        let Some(Change { from, to }) = change else {
            return;
        };
        if to == BreakerState::Open {
            self.refusing.notify_waiters();
        }
        self.watch.breaker_changed(&self.key, from, to);
    }
}

impl Inner {
    fn cooling(&self, now: Instant) -> Option<(Instant, FailureKind)> {
        self.cooling.filter(|(until, _)| now < *until)
    }

    fn refuses(&self, now: Instant) -> bool {
        self.breaker.state() == BreakerState::Open || self.cooling(now).is_some()
    }

    /// An open breaker is the graver reason, but a cool-down that ends later still decides when.
    fn able(&self, now: Instant) -> Able {
        let cooling = self.cooling(now);
        match (self.breaker.able(now), cooling) {
            (refused @ breaker::Able::No { .. }, _) => open(refused, cooling.map(|(until, _)| until)),
            (_, Some((until, kind))) => Able::Cooling { until, kind },
            (breaker::Able::Probe, None) => Able::Probe,
            (breaker::Able::Yes, None) => Able::Yes,
        }
    }
}

fn open(refused: breaker::Able, cooling_until: Option<Instant>) -> Able {
    match refused {
        breaker::Able::No { until: Some(until) } => {
            Able::Open { until: Some(cooling_until.map_or(until, |cooling| cooling.max(until))) }
        }
        _ => Able::Open { until: None },
    }
}

fn breaker_settings(config: &config::Breaker) -> breaker::Settings {
    let rate =
        config.rate.map(|rate| breaker::RateRule { window: rate.window, min: rate.min, ratio: rate.ratio });
    breaker::Settings { consecutive: config.consecutive, rate, open: config.open, open_max: config.open_max }
}
