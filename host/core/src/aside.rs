//! When a failing plugin is set aside, and when it may try again.
//!
//! Failures in a row set it aside; after the pause one call is the trial. A trial that fails doubles the
//! pause, one that succeeds lets calls through again. The doubled pause is remembered until the plugin has
//! run for at least as long without trouble, so that one lucky trial does not start over at the shortest.

use std::time::{Duration, Instant};

/// Failures in a row that set a plugin aside.
pub const FAILURES: u32 = 5;
/// First pause.
pub const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// What a call that wants to run is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admit {
    /// Run.
    Run,
    /// Run; what comes of it decides, so it must be settled or given back.
    Trial,
    /// Do not run.
    SetAside,
}

/// What a settled call changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing that anybody needs to hear of.
    None,
    /// Set aside, for so long.
    SetAside(Duration),
    /// Calls are let through again.
    Recovered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running { failures: u32, since: Option<Instant> },
    Aside { until: Instant, trial: bool },
}

/// The set-aside state of one plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aside {
    state: State,
    pause: Duration,
}

impl Default for Aside {
    fn default() -> Self {
        Self { state: State::Running { failures: 0, since: None }, pause: Duration::ZERO }
    }
}

impl Aside {
    /// Asks whether a call may run. A [`Admit::Trial`] takes the one trial there is.
    pub fn admit(&mut self, now: Instant) -> Admit {
        match &mut self.state {
            State::Running { .. } => Admit::Run,
            State::Aside { until, trial } if !*trial && now >= *until => {
                *trial = true;
                Admit::Trial
            }
            State::Aside { .. } => Admit::SetAside,
        }
    }

    /// A call has ended. `trial` is what [`Aside::admit`] said about it.
    pub fn settle(&mut self, trial: bool, ok: bool, now: Instant) -> Change {
        match &mut self.state {
            State::Running { failures, since } => {
                if ok {
                    *failures = 0;
                    return Change::None;
                }
                *failures += 1;
                if *failures < FAILURES {
                    return Change::None;
                }
                let calm = since.is_none_or(|since| now.duration_since(since) >= self.pause);
                self.set_aside(if calm { PAUSE } else { self.pause * 2 }, now)
            }
            State::Aside { .. } if trial && ok => {
                self.state = State::Running { failures: 0, since: Some(now) };
                Change::Recovered
            }
            State::Aside { .. } if trial => self.set_aside(self.pause * 2, now),
            // Began before the plugin was set aside: what it says is already known.
            State::Aside { .. } => Change::None,
        }
    }

    /// A trial ended without a result: the next call may be one.
    pub fn give_back(&mut self) {
        if let State::Aside { trial, .. } = &mut self.state {
            *trial = false;
        }
    }

    /// Set aside right now. Looking does not take the trial.
    pub fn is_set_aside(&self) -> bool {
        matches!(self.state, State::Aside { .. })
    }

    fn set_aside(&mut self, pause: Duration, now: Instant) -> Change {
        self.pause = pause.clamp(PAUSE, PAUSE_MAX);
        self.state = State::Aside { until: now + self.pause, trial: false };
        Change::SetAside(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(aside: &mut Aside, times: u32, now: Instant) -> Change {
        let mut last = Change::None;
        for _ in 0..times {
            last = aside.settle(false, false, now);
        }
        last
    }

    #[test]
    fn the_fifth_failure_in_a_row_sets_aside_and_a_success_between_starts_over() {
        let now = Instant::now();
        let mut aside = Aside::default();
        assert_eq!(failing(&mut aside, 4, now), Change::None);
        aside.settle(false, true, now);
        assert_eq!(failing(&mut aside, 4, now), Change::None);
        assert_eq!(failing(&mut aside, 1, now), Change::SetAside(PAUSE));
        assert_eq!(aside.admit(now), Admit::SetAside);
    }

    #[test]
    fn only_one_call_is_the_trial_and_a_dropped_one_gives_it_back() {
        let now = Instant::now();
        let mut aside = Aside::default();
        failing(&mut aside, FAILURES, now);
        assert_eq!(aside.admit(now + PAUSE - Duration::from_nanos(1)), Admit::SetAside);
        assert_eq!(aside.admit(now + PAUSE), Admit::Trial);
        assert_eq!(aside.admit(now + PAUSE), Admit::SetAside);
        aside.give_back();
        assert_eq!(aside.admit(now + PAUSE), Admit::Trial);
        assert_eq!(aside.settle(true, true, now + PAUSE), Change::Recovered);
        assert_eq!(aside.admit(now + PAUSE), Admit::Run);
    }

    #[test]
    fn failed_trials_double_the_pause_up_to_its_cap() {
        let mut now = Instant::now();
        let mut aside = Aside::default();
        let mut change = failing(&mut aside, FAILURES, now);
        let mut pauses = Vec::new();
        while let Change::SetAside(pause) = change {
            pauses.push(pause.as_secs());
            if pauses.len() == 11 {
                break;
            }
            now += pause;
            assert_eq!(aside.admit(now), Admit::Trial);
            change = aside.settle(true, false, now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn one_lucky_trial_does_not_forget_the_pause_but_a_calm_stretch_does() {
        let mut now = Instant::now();
        let mut aside = Aside::default();
        failing(&mut aside, FAILURES, now);
        now += PAUSE;
        aside.admit(now);
        aside.settle(true, true, now);
        assert_eq!(failing(&mut aside, FAILURES, now), Change::SetAside(PAUSE * 2));
        now += PAUSE * 2;
        aside.admit(now);
        aside.settle(true, true, now);
        now += PAUSE * 2;
        assert_eq!(failing(&mut aside, FAILURES, now), Change::SetAside(PAUSE));
    }

    #[test]
    fn calls_that_began_before_do_not_prolong_the_pause() {
        let now = Instant::now();
        let mut aside = Aside::default();
        failing(&mut aside, FAILURES, now);
        assert_eq!(aside.settle(false, false, now), Change::None);
        assert_eq!(aside.admit(now + PAUSE), Admit::Trial);
    }
}
