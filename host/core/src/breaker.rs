//! When a target is refused because it keeps failing, and how it is let back in.
//!
//! Closed → open → half-open → closed. Every admitted call holds a [`Ticket`] that remembers the state
//! change it was admitted after; a result that arrives after a later change is about a situation that is
//! over, so it never counts. Half-open has one slot: whoever takes it is the probe, everybody else is
//! refused until the probe is settled. Looking ([`Breaker::able`]) takes nothing.
//!
//! What a result means (failure, success, nothing) is decided elsewhere, and cool-downs are not the
//! breaker's business: they leave it untouched.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::budget::after;
use crate::facts::BreakerState;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// Thresholds and periods. May be changed while calls run, see [`Breaker::set`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Counted failures in a row that open it; at least 1.
    pub consecutive: u32,
    /// The rate rule; none: off.
    pub rate: Option<RateRule>,
    /// First open period, kept exactly.
    pub open: Duration,
    /// Longest open period. Never shortens the first one.
    pub open_max: Duration,
}

/// Opens on a share of failures among the last calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateRule {
    /// Counted calls looked at, the newest ones.
    pub window: u32,
    /// Counted calls needed before the rule says anything.
    pub min: u32,
    /// Share of failures that opens, 0 to 1.
    pub ratio: f64,
}

/// What an admitted call taught about the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lesson {
    /// It ended well.
    Success,
    /// One counted failure.
    Failure,
    /// A failure that opens at once, whatever the thresholds say.
    Open,
    /// Nothing: cancelled, refused by a gate, or not the target's fault.
    Neutral,
}

/// Whether a call would be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Able {
    /// As an ordinary call.
    Yes,
    /// As the one probe.
    Probe,
    /// Not before this moment; none: a probe is out, and its result decides.
    No {
        /// End of the open period.
        until: Option<Instant>,
    },
}

/// A change of state, for events and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Before.
    pub from: BreakerState,
    /// After.
    pub to: BreakerState,
}

/// The right to one call. Cannot be copied: [`Breaker::settle`] takes it back, exactly once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a ticket that is not settled keeps the probe slot"]
pub struct Ticket {
    epoch: u64,
    probe: bool,
}

impl Ticket {
    /// The call is the probe of a half-open breaker, and has not committed yet.
    pub const fn is_probe(&self) -> bool {
        self.probe
    }
}

/// What pages and routers are told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// State after the last change. An open breaker whose period is over stays open until a call comes.
    pub state: BreakerState,
    /// Counted failures in a row, those that opened it included.
    pub failures: u32,
    /// Share of failures among the calls of the rate window; none without any, or without a rate rule.
    pub rate: Option<f64>,
    /// When it last opened; none while closed.
    pub opened_at: Option<Instant>,
    /// End of the open period; none unless open.
    pub until: Option<Instant>,
    /// How often it has opened, failed probes included.
    pub opens: u64,
}

#[derive(Debug)]
enum Phase {
    Closed,
    Open { since: Instant, until: Instant },
    HalfOpen { since: Instant, probing: bool },
}

/// The breaker of one target.
#[derive(Debug)]
pub struct Breaker {
    settings: Settings,
    phase: Phase,
    /// Number of state changes so far; what tickets are compared with.
    epoch: u64,
    failures: u32,
    /// Counted calls since the last close, newest at the back, true for a failure.
    recent: VecDeque<bool>,
    failed_recently: u32,
    /// Length of the last open period since the last close.
    period: Option<Duration>,
    opens: u64,
}

impl Breaker {
    /// A closed breaker that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            phase: Phase::Closed,
            epoch: 0,
            failures: 0,
            recent: VecDeque::new(),
            failed_recently: 0,
            period: None,
            opens: 0,
        }
    }

    /// Takes new settings in place. New thresholds are looked at with the next result; a running open
    /// period is cut to the new ceiling, so that lowering it helps at once.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
        self.trim();
        let ceiling = self.ceiling();
        if let Phase::Open { since, until } = &mut self.phase {
            *until = (*until).min(after(*since, ceiling));
        }
    }

    /// Whether a call would be admitted now. Takes nothing.
    pub fn able(&self, now: Instant) -> Able {
        match self.phase {
            Phase::Closed => Able::Yes,
            Phase::Open { until, .. } if now < until => Able::No { until: Some(until) },
            Phase::Open { .. } | Phase::HalfOpen { probing: false, .. } => Able::Probe,
            Phase::HalfOpen { probing: true, .. } => Able::No { until: None },
        }
    }

    /// Admits a call, as the probe where that is what is open; the change is there when the breaker
    /// became half-open by it.
    ///
    /// # Errors
    /// The same refusal as [`Breaker::able`]: never `Yes` or `Probe`.
    pub fn admit(&mut self, now: Instant) -> Result<(Ticket, Option<Change>), Able> {
        match self.able(now) {
            Able::Yes => Ok((Ticket { epoch: self.epoch, probe: false }, None)),
            Able::Probe => {
                let change = match self.phase {
                    Phase::Open { since, .. } => Some(self.turn(Phase::HalfOpen { since, probing: true })),
                    Phase::HalfOpen { since, .. } => {
                        self.phase = Phase::HalfOpen { since, probing: true };
                        None
                    }
                    Phase::Closed => None,
                };
                Ok((Ticket { epoch: self.epoch, probe: true }, change))
            }
            refused @ Able::No { .. } => Err(refused),
        }
    }

    /// First content was sent to the caller. Closes a half-open breaker: the probe is settled by it, and
    /// the rest of the call is an ordinary one of the closed breaker. Otherwise nothing happens.
    pub fn commit(&mut self, ticket: &mut Ticket) -> Option<Change> {
        if ticket.epoch != self.epoch || !ticket.probe {
            return None;
        }
        let change = self.close();
        *ticket = Ticket { epoch: self.epoch, probe: false };
        Some(change)
    }

    /// Takes a ticket back with what the call taught. `factor` (1.0 to 1.2, random) is multiplied into the
    /// doubled period of a failed probe, so that replicas do not probe in step.
    pub fn settle(&mut self, ticket: Ticket, lesson: Lesson, now: Instant, factor: f64) -> Option<Change> {
        match lesson {
            Lesson::Neutral => {
                self.release(ticket);
                None
            }
            _ if ticket.epoch != self.epoch => None,
            Lesson::Success if ticket.probe => Some(self.close()),
            Lesson::Failure | Lesson::Open if ticket.probe => {
                self.count(true);
                Some(self.open(now, factor))
            }
            Lesson::Success => {
                self.count(false);
                self.rate_trips().then(|| self.open(now, factor))
            }
            Lesson::Failure => {
                self.count(true);
                let trips = self.failures >= self.settings.consecutive || self.rate_trips();
                trips.then(|| self.open(now, factor))
            }
            Lesson::Open => {
                self.count(true);
                Some(self.open(now, factor))
            }
        }
    }

    /// Takes a ticket back that taught nothing: a probe frees its slot, everything else stays.
    pub fn release(&mut self, ticket: Ticket) {
        if ticket.epoch == self.epoch
            && ticket.probe
            && let Phase::HalfOpen { probing, .. } = &mut self.phase
        {
            *probing = false;
        }
    }

    /// State after the last change.
    pub const fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// For pages and routers.
    pub fn facts(&self) -> Facts {
        let (opened_at, until) = match self.phase {
            Phase::Closed => (None, None),
            Phase::Open { since, until } => (Some(since), Some(until)),
            Phase::HalfOpen { since, .. } => (Some(since), None),
        };
        Facts {
            state: self.state(),
            failures: self.failures,
            rate: self.rate(),
            opened_at,
            until,
            opens: self.opens,
        }
    }

    fn turn(&mut self, phase: Phase) -> Change {
        let from = self.state();
        self.phase = phase;
        self.epoch += 1;
        Change { from, to: self.state() }
    }

    fn close(&mut self) -> Change {
        self.failures = 0;
        self.recent.clear();
        self.failed_recently = 0;
        self.period = None;
        self.turn(Phase::Closed)
    }

    fn open(&mut self, now: Instant, factor: f64) -> Change {
        let period = match self.period {
            None => self.settings.open,
            Some(last) => {
                let grown = Duration::try_from_secs_f64(last.as_secs_f64() * 2.0 * factor.clamp(1.0, 1.2));
                grown.map_or(self.ceiling(), |grown| grown.min(self.ceiling()))
            }
        };
        self.period = Some(period);
        self.opens += 1;
        self.turn(Phase::Open { since: now, until: after(now, period) })
    }

    fn ceiling(&self) -> Duration {
        self.settings.open_max.max(self.settings.open)
    }

    fn count(&mut self, failed: bool) {
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        if self.settings.rate.is_some() {
            self.recent.push_back(failed);
            self.failed_recently += u32::from(failed);
            self.trim();
        }
    }

    /// Forgets calls beyond the window, all of them without a rate rule.
    fn trim(&mut self) {
        let keep = self.settings.rate.map_or(0, |rule| rule.window as usize);
        while self.recent.len() > keep {
            if self.recent.pop_front() == Some(true) {
                self.failed_recently -= 1;
            }
        }
    }

    fn rate(&self) -> Option<f64> {
        (!self.recent.is_empty()).then(|| f64::from(self.failed_recently) / self.recent.len() as f64)
    }

    /// A rate that no failure belongs to never opens, not even with a ratio of 0.
    fn rate_trips(&self) -> bool {
        let (Some(rule), Some(rate)) = (self.settings.rate, self.rate()) else {
            return false;
        };
        self.failed_recently > 0 && self.recent.len() >= rule.min as usize && rate >= rule.ratio
    }
}
