//! How much of the traffic may be retries and switches: a share of the calls, and never less than a floor.
//!
//! Without it, an outage of one upstream is answered with a multiple of the load for the next one. Which
//! failures take from it is decided by their kind, elsewhere.

use std::time::{Duration, Instant};

use crate::window::{Tally, Window};

#[cfg(test)]
mod tests;

/// May be changed while calls run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Retries and switches per call, 0 to 1.
    pub ratio: f64,
    /// Always allowed: so many per second, over the whole window.
    pub min_per_second: u32,
    /// Time looked at.
    pub window: Duration,
}

/// The calls and extras of the last window.
#[derive(Debug)]
pub struct RetryBudget {
    settings: Settings,
    /// Calls in `all`, extras in `marked`.
    window: Window<20>,
}

impl RetryBudget {
    /// Nothing has happened yet.
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self { settings, window: Window::new(settings.window, now) }
    }

    /// Takes new settings in place; with another window, counting starts anew.
    pub fn set(&mut self, settings: Settings, now: Instant) {
        if settings.window != self.settings.window {
            self.window = Window::new(settings.window, now);
        }
        self.settings = settings;
    }

    /// A call came in. Once for each request.
    pub fn call(&mut self, now: Instant) {
        self.window.add(now, Tally { all: 1, marked: 0 });
    }

    /// Takes one retry or switch; false: there is none left, and none was taken.
    pub fn take(&mut self, now: Instant) -> bool {
        let allowed = self.left(now) >= 1.0;
        if allowed {
            self.window.add(now, Tally { all: 0, marked: 1 });
        }
        allowed
    }

    /// Whether [`RetryBudget::take`] would succeed. Takes nothing.
    pub fn has(&mut self, now: Instant) -> bool {
        self.left(now) >= 1.0
    }

    fn left(&mut self, now: Instant) -> f64 {
        let sum = self.window.sum(now);
        let by_share = self.settings.ratio * f64::from(sum.all);
        let floor = f64::from(self.settings.min_per_second) * self.settings.window.as_secs_f64();
        by_share.max(floor) - f64::from(sum.marked)
    }
}
