//! The course of a routed request from its plan to its commit, as the states it can be in.
//!
//! ```text
//!             choose            granted               commits
//!  Choosing ─────────► Entering ───────► Attempting ─────────► (gone)
//!      ▲                │  ▲                 │
//!      │  skip, switch  │  │ over            │ failed
//!      └────────────────┤  └──── Pausing ◄───┤
//!                       └────────────────────┴──► the end
//! ```
//!
//! Each state is a type, and every transition takes the state it leaves: what is gone cannot be gone on from. So an
//! attempt can only begin out of [`Entering`], whose way into [`Attempting`] asks the deadline; none can begin after
//! commit or after an end, because nothing is left that it could begin from. A request whose client leaves drops the
//! state it is in, and that is the same end. What a transition costs (a switch, a retry, one of the retry budget) is
//! paid inside it. What follows a failure is decided in [`crate::decide`]; who is able, and what the client is told,
//! is the caller's to say.

use std::time::{Duration, Instant};

use crate::budget::{self, AttemptClock, Budget};
use crate::decide::{self, Next, RetriesLeft, RetryAllowance, Situation};
use crate::verdict::{Action, Verdict};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// What the route allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Switches of one request.
    pub max_switches: u32,
    /// Same-target retries, for each target anew.
    pub retries: RetriesLeft,
    /// Longest wait that is sat out.
    pub wait_max: Duration,
    /// First pause before a retry that names none.
    pub backoff: Duration,
    /// Longest such pause.
    pub backoff_max: Duration,
}

/// What the world looks like from a target that is about to be left, or kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// An unused credential of the same upstream is there.
    pub other_credential: bool,
    /// The retry budget would allow one more.
    pub budget_allows: bool,
    /// The request may be kept waiting.
    pub may_wait: bool,
    /// There is a target that was not tried, is able now and [may follow](decide::may_follow).
    pub next: bool,
    /// 0 to 1, for the pause before a retry.
    pub random: f64,
}

/// What a request has used up, whatever state it is in. `F` is what the caller knows of a failure. States hold it in a box: they
/// are handed on by value, and from one future to the next.
#[derive(Debug)]
pub struct Course<F> {
    budget: Budget,
    rules: Rules,
    switches_left: u32,
    tried: Vec<bool>,
    last: Option<F>,
}

impl<F> Course<F> {
    /// The target at this position of the route was not chosen yet.
    pub fn is_untried(&self, position: usize) -> bool {
        self.tried.get(position).is_some_and(|tried| !tried)
    }

    /// The last failure.
    pub const fn last(&self) -> Option<&F> {
        self.last.as_ref()
    }

    /// Left until the deadline.
    pub fn left(&self, now: Instant) -> Duration {
        self.budget.left(now)
    }

    fn situation(&self, now: Instant, stay: &Stay, outlook: &Outlook) -> Situation {
        let Rules { wait_max, backoff, backoff_max, .. } = self.rules;
        Situation {
            left: self.left(now),
            switches_left: self.switches_left,
            retries_left: stay.retries_left,
            wait_max,
            pause: budget::pause(stay.retries, backoff, backoff_max, outlook.random),
            other_credential: outlook.other_credential,
            budget_allows: outlook.budget_allows,
            may_wait: outlook.may_wait,
            next: outlook.next,
        }
    }
}

impl<F: AsRef<Verdict>> Course<F> {
    fn after(
        mut self: Box<Self>,
        mut stay: Stay,
        now: Instant,
        failure: F,
        verdict: &Verdict,
        outlook: &Outlook,
        pay: impl FnOnce() -> bool,
    ) -> After<F> {
        let next = decide::next(verdict, &self.situation(now, &stay, outlook));
        let paid = matches!(next, Next::End { .. }) || !decide::takes_from_budget(verdict.kind) || pay();
        match next {
            // Between the look and the payment another request may have taken the last one.
            _ if !paid => After::End { failure, budget_denied: true },
            Next::End { budget_denied } => After::End { failure, budget_denied },
            Next::Switch => {
                self.switches_left = self.switches_left.saturating_sub(1);
                self.last = Some(failure);
                After::Switch(Choosing { course: self })
            }
            Next::Retry { after, paid_by } => {
                let left = &mut stay.retries_left;
                match paid_by {
                    RetryAllowance::Credential => {}
                    RetryAllowance::RateLimit => left.rate_limit = left.rate_limit.saturating_sub(1),
                    RetryAllowance::Upstream => left.upstream = left.upstream.saturating_sub(1),
                }
                stay.retries += 1;
                After::Retry(Pausing { course: self, stay, failure, after, paid_by })
            }
        }
    }
}

/// The time at one target, from being chosen to being left.
#[derive(Debug)]
struct Stay {
    position: usize,
    retries_left: RetriesLeft,
    /// Retries so far.
    retries: u32,
}

/// What follows when a target does not serve.
#[derive(Debug)]
#[must_use = "dropped, the request is over"]
pub enum After<F> {
    /// The same target, after a pause.
    Retry(Pausing<F>),
    /// The next target; a switch was paid for.
    Switch(Choosing<F>),
    /// The next target. Nothing was tried here, and nothing was paid.
    Skip(Choosing<F>),
    /// The failure is the answer.
    End {
        /// The failure.
        failure: F,
        /// The retry budget alone stood in the way.
        budget_denied: bool,
    },
}

/// Between targets: who is next?
#[derive(Debug)]
#[must_use = "dropped, the request is over"]
pub struct Choosing<F> {
    course: Box<Course<F>>,
}

impl<F> Choosing<F> {
    /// A request that is planned; its route has `targets` targets.
    pub fn new(budget: Budget, rules: Rules, targets: usize) -> Self {
        let (switches_left, tried) = (rules.max_switches, vec![false; targets]);
        Self { course: Box::new(Course { budget, rules, switches_left, tried, last: None }) }
    }

    /// What is used up.
    pub const fn course(&self) -> &Course<F> {
        &self.course
    }

    /// Goes to a target.
    ///
    /// # Errors
    /// When there is none, or it was there before. That is the end, with the last failure, if there was any.
    pub fn choose(mut self, position: Option<usize>) -> Result<Entering<F>, Option<F>> {
        let untried = position.filter(|position| self.course.is_untried(*position));
        let Some(position) = untried else { return Err(self.course.last) };
        if let Some(tried) = self.course.tried.get_mut(position) {
            *tried = true;
        }
        let stay = Stay { position, retries_left: self.course.rules.retries, retries: 0 };
        Ok(Entering { course: self.course, stay })
    }
}

/// At a target's gates.
#[derive(Debug)]
#[must_use = "dropped, the request is over"]
pub struct Entering<F> {
    course: Box<Course<F>>,
    stay: Stay,
}

impl<F: AsRef<Verdict>> Entering<F> {
    /// Position of the target in its route.
    pub const fn position(&self) -> usize {
        self.stay.position
    }

    /// What is used up.
    pub const fn course(&self) -> &Course<F> {
        &self.course
    }

    /// Everything an attempt needs is there. It gets `own` for itself and, where what it says is held back to its
    /// end, `first_content` until something comes. None: it is too late, which is the end.
    pub fn granted(
        self,
        now: Instant,
        own: Duration,
        first_content: Option<Duration>,
    ) -> Option<Attempting<F>> {
        let Self { course, stay } = self;
        let clock = course.budget.attempt(now, own, first_content);
        (now < course.budget.deadline()).then_some(Attempting { course, stay, clock })
    }

    /// The target is not able after all. That costs nothing, unless it was a retry that found this: what is left
    /// then is the switch in whose place it stood.
    pub fn skipped(mut self, now: Instant, outlook: &Outlook, pay: impl FnOnce() -> bool) -> After<F> {
        match self.course.last.take_if(|_| self.stay.retries > 0) {
            None => After::Skip(Choosing { course: self.course }),
            Some(failure) => {
                let verdict = Verdict { action: Action::Switch, ..failure.as_ref().clone() };
                self.course.after(self.stay, now, failure, &verdict, outlook, pay)
            }
        }
    }

    /// A gate of ours refused, which counts as this failure.
    pub fn refused(
        self,
        now: Instant,
        failure: F,
        outlook: &Outlook,
        pay: impl FnOnce() -> bool,
    ) -> After<F> {
        let verdict = failure.as_ref().clone();
        self.course.after(self.stay, now, failure, &verdict, outlook, pay)
    }
}

/// An exchange runs.
#[derive(Debug)]
#[must_use = "dropped, the request is over"]
pub struct Attempting<F> {
    course: Box<Course<F>>,
    stay: Stay,
    clock: AttemptClock,
}

/// Why a clock ends an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfTime {
    /// The deadline of the request is there.
    pub by_deadline: bool,
    /// The attempt had a full limit of its own: its target is to blame.
    pub limit_over: bool,
}

impl<F: AsRef<Verdict>> Attempting<F> {
    /// What is used up.
    pub const fn course(&self) -> &Course<F> {
        &self.course
    }

    /// The next moment after `now` at which [`Attempting::out_of_time`] is to be asked.
    pub fn fires(&self, now: Instant, content: bool) -> Instant {
        self.clock.fires(now, content)
    }

    /// Whether a clock ends the attempt now. At the deadline always; at a limit of its own only when there is a
    /// target that could be switched to, else it may use what is left.
    pub fn out_of_time(
        &self,
        now: Instant,
        content: bool,
        outlook: impl FnOnce() -> Outlook,
    ) -> Option<OutOfTime> {
        let by_deadline = now >= self.course.budget.deadline();
        let limit_over = self.is_overdue(now, content);
        let elsewhere = || decide::could_switch(&self.course.situation(now, &self.stay, &outlook()));
        (by_deadline || (limit_over && elsewhere())).then_some(OutOfTime { by_deadline, limit_over })
    }

    /// The attempt has had a full limit of its own by now. That did not end it where there is nowhere to go, and it
    /// counts against its target all the same.
    pub fn is_overdue(&self, now: Instant, content: bool) -> bool {
        self.clock.target_to_blame(now, content)
    }

    /// There is something to show: nothing is tried any more.
    pub fn commits(self) {}

    /// It failed. `pay` takes one of the retry budget, and says whether there was one; it is asked only for what
    /// takes from it.
    pub fn failed(self, now: Instant, failure: F, outlook: &Outlook, pay: impl FnOnce() -> bool) -> After<F> {
        let verdict = failure.as_ref().clone();
        self.course.after(self.stay, now, failure, &verdict, outlook, pay)
    }
}

/// Before another try at the same target.
#[derive(Debug)]
#[must_use = "dropped, the request is over"]
pub struct Pausing<F> {
    course: Box<Course<F>>,
    stay: Stay,
    failure: F,
    after: Duration,
    paid_by: RetryAllowance,
}

impl<F> Pausing<F> {
    /// How long.
    pub const fn pause(&self) -> Duration {
        self.after
    }

    /// Which allowance the retry has used up.
    pub const fn paid_by(&self) -> RetryAllowance {
        self.paid_by
    }

    /// The failure that it follows.
    pub const fn failure(&self) -> &F {
        &self.failure
    }

    /// The pause is over.
    pub fn over(self) -> Entering<F> {
        let Self { mut course, stay, failure, .. } = self;
        course.last = Some(failure);
        Entering { course, stay }
    }
}
