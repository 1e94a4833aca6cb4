//! The breaker against a model that keeps the whole history and works everything out from it each time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Admit,
    Commit(usize),
    Settle(usize, Lesson, f64),
    Wait(u64),
    Set(Settings),
}

/// What has happened, in order. Nothing is ever removed or summed up.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Entry {
    Counted { failed: bool },
    Opened { until: Instant, period: Duration },
    HalfOpened,
    ProbeOut,
    ProbeBack,
    Closed,
    Kept { calls: usize },
}

struct Model {
    settings: Settings,
    log: Vec<Entry>,
}

struct ModelTicket {
    changes: usize,
    probe: bool,
}

impl Model {
    fn changes(&self) -> usize {
        self.log
            .iter()
            .filter(|e| matches!(e, Entry::Opened { .. } | Entry::HalfOpened | Entry::Closed))
            .count()
    }

    fn state(&self) -> BreakerState {
        self.log
            .iter()
            .rev()
            .find_map(|entry| match entry {
                Entry::Opened { .. } => Some(BreakerState::Open),
                Entry::HalfOpened => Some(BreakerState::HalfOpen),
                Entry::Closed => Some(BreakerState::Closed),
                _ => None,
            })
            .unwrap_or(BreakerState::Closed)
    }

    fn since_close(&self) -> &[Entry] {
        let start = self.log.iter().rposition(|entry| *entry == Entry::Closed).map_or(0, |at| at + 1);
        &self.log[start..]
    }

    fn window(&self) -> Vec<bool> {
        let mut calls = Vec::new();
        for entry in self.since_close() {
            match *entry {
                Entry::Counted { failed } => calls.push(failed),
                Entry::Kept { calls: keep } => {
                    calls = calls[calls.len().saturating_sub(keep)..].to_vec();
                }
                _ => {}
            }
        }
        let keep = self.settings.rate.map_or(0, |rule| rule.window as usize);
        calls[calls.len().saturating_sub(keep)..].to_vec()
    }

    fn failures(&self) -> usize {
        let calls: Vec<bool> = self
            .since_close()
            .iter()
            .filter_map(|entry| match entry {
                Entry::Counted { failed } => Some(*failed),
                _ => None,
            })
            .collect();
        calls.iter().rev().take_while(|failed| **failed).count()
    }

    fn last_opened(&self) -> Option<(Instant, Duration)> {
        self.since_close().iter().rev().find_map(|entry| match *entry {
            Entry::Opened { until, period } => Some((until, period)),
            _ => None,
        })
    }

    fn probe_is_out(&self) -> bool {
        self.log.iter().rev().find(|e| matches!(e, Entry::ProbeOut | Entry::ProbeBack))
            == Some(&Entry::ProbeOut)
    }

    fn admit(&mut self, now: Instant) -> Option<ModelTicket> {
        match self.state() {
            BreakerState::Closed => {
                return Some(ModelTicket { changes: self.changes(), probe: false });
            }
            BreakerState::Open if now < self.last_opened().unwrap().0 => return None,
            BreakerState::Open => self.log.push(Entry::HalfOpened),
            BreakerState::HalfOpen if self.probe_is_out() => return None,
            BreakerState::HalfOpen => {}
        }
        self.log.push(Entry::ProbeOut);
        Some(ModelTicket { changes: self.changes(), probe: true })
    }

    fn commit(&mut self, ticket: &mut ModelTicket) {
        if ticket.probe && ticket.changes == self.changes() {
            self.log.extend([Entry::ProbeBack, Entry::Closed]);
            *ticket = ModelTicket { changes: self.changes(), probe: false };
        }
    }

    fn settle(&mut self, ticket: &ModelTicket, lesson: Lesson, now: Instant, factor: f64) {
        if ticket.changes != self.changes() {
            return;
        }
        if ticket.probe {
            self.log.push(Entry::ProbeBack);
        }
        match lesson {
            Lesson::Neutral => return,
            Lesson::Success if ticket.probe => {
                self.log.push(Entry::Closed);
                return;
            }
            _ => self.log.push(Entry::Counted { failed: lesson != Lesson::Success }),
        }
        let window = self.window();
        let failed = window.iter().filter(|failed| **failed).count();
        let by_rate = self.settings.rate.is_some_and(|rule| {
            failed > 0
                && window.len() >= rule.min as usize
                && failed as f64 / window.len() as f64 >= rule.ratio
        });
        let in_a_row = lesson == Lesson::Failure && self.failures() >= self.settings.consecutive as usize;
        if by_rate || in_a_row || lesson == Lesson::Open || ticket.probe {
            let ceiling = self.settings.open_max.max(self.settings.open);
            let period = match self.last_opened() {
                None => self.settings.open,
                Some((_, last)) => Duration::from_secs_f64(last.as_secs_f64() * 2.0 * factor).min(ceiling),
            };
            self.log.push(Entry::Opened { until: now + period, period });
        }
    }

    fn set(&mut self, settings: Settings) {
        // What the old window had already let go does not come back with a longer one.
        for settings in [self.settings, settings] {
            self.log.push(Entry::Kept { calls: settings.rate.map_or(0, |rule| rule.window as usize) });
        }
        self.settings = settings;
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    let rate = proptest::option::of((1_u32..8, 1_u32..8, 0.0_f64..=1.0));
    // One open period for all: cutting a running one in place has its own table test.
    (1_u32..5, rate).prop_map(|(consecutive, rate)| Settings {
        consecutive,
        rate: rate.map(|(window, min, ratio)| RateRule { window, min, ratio }),
        open: Duration::from_secs(10),
        open_max: Duration::from_secs(70),
    })
}

fn step() -> impl Strategy<Value = Step> {
    let lesson = prop_oneof![
        4 => Just(Lesson::Failure),
        3 => Just(Lesson::Success),
        2 => Just(Lesson::Neutral),
        1 => Just(Lesson::Open),
    ];
    prop_oneof![
        6 => Just(Step::Admit),
        2 => (0_usize..8).prop_map(Step::Commit),
        5 => (0_usize..8, lesson, 1.0_f64..=1.2).prop_map(|(at, lesson, factor)| Step::Settle(at, lesson, factor)),
        2 => (0_u64..40_000).prop_map(Step::Wait),
        1 => settings().prop_map(Step::Set),
    ]
}

proptest! {
    #[test]
    fn any_history_leads_where_the_whole_log_says(first in settings(), steps in prop::collection::vec(step(), 1..120)) {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(first);
        let mut model = Model { settings: first, log: Vec::new() };
        let mut held: Vec<(Ticket, ModelTicket)> = Vec::new();
        for step in steps {
            match step {
                Step::Admit => {
                    let able = breaker.able(now);
                    let admitted = breaker.admit(now).ok().map(|(ticket, _)| ticket);
                    prop_assert_eq!(admitted.is_some(), !matches!(able, Able::No { .. }), "looking and taking agree");
                    match (admitted, model.admit(now)) {
                        (Some(ticket), Some(expected)) => {
                            prop_assert_eq!(ticket.is_probe(), expected.probe);
                            held.push((ticket, expected));
                        }
                        (None, None) => {}
                        (got, expected) => prop_assert!(false, "{:?} where the model admits: {}", got, expected.is_some()),
                    }
                }
                Step::Commit(at) if !held.is_empty() => {
                    let at = at % held.len();
                    let (ticket, expected) = &mut held[at];
                    breaker.commit(ticket);
                    model.commit(expected);
                }
                Step::Settle(at, lesson, factor) if !held.is_empty() => {
                    let (ticket, expected) = held.remove(at % held.len());
                    let before = breaker.state();
                    let change = breaker.settle(ticket, lesson, now, factor);
                    prop_assert_eq!(change.map(|c| (c.from, c.to)), (before != breaker.state()).then(|| (before, breaker.state())));
                    model.settle(&expected, lesson, now, factor);
                }
                Step::Wait(ms) => now += Duration::from_millis(ms),
                Step::Set(settings) => {
                    breaker.set(settings);
                    model.set(settings);
                }
                Step::Commit(_) | Step::Settle(..) => {}
            }
            let facts = breaker.facts();
            let probes = held.iter().filter(|(ticket, _)| ticket.is_probe()).count();
            prop_assert!(probes <= 1, "{} probes at once", probes);
            prop_assert_eq!(facts.state, model.state());
            prop_assert_eq!(facts.failures as usize, model.failures());
            let expected_until = (facts.state == BreakerState::Open).then(|| model.last_opened().unwrap().0);
            prop_assert_eq!(facts.until, expected_until);
        }
        // Whatever happened, once every call is gone somebody can come in again.
        for (ticket, _) in held {
            breaker.release(ticket);
        }
        prop_assert!(breaker.admit(now + Duration::from_secs(70)).is_ok());
    }
}
