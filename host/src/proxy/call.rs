//! One routed request on its way to an answer: which target is tried, what follows a failure, until there is
//! something to show or nothing left to try. Decisions are the core's; what they cost is paid here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use sluice_core::budget::{self, Budget};
use sluice_core::decide::{self, Next, NextTarget, RetriesLeft, RetryAllowance, Situation};
use sluice_core::kind::{FailureKind, Role, TransportError};
use sluice_core::lens::request::ChatRequest;
use sluice_core::lens::splice::Edit;
use sluice_core::verdict::{Action, Verdict};

use super::attempt::{self, Expected, Progress, Ready};
use super::begin::{Attempt, NotBegun};
use super::error::{Failure, LastFault};
use super::fault::Fault;
use super::judge::{self, Judged};
use super::plan::Choice;
use super::request::Outgoing;
use super::settle::Ledger;
use crate::clock;
use crate::config::{CommitRule, MinBudget};
use crate::generation::{Route, Target};
use crate::state::{Lease, Permit};

/// A request whose route is known and whose body was read.
pub(super) struct Call {
    /// Its place among the calls of its caller.
    pub own: Option<Permit>,
    /// Its books.
    pub ledger: Box<Ledger>,
    /// Its route.
    pub route: Arc<Route>,
    /// Its body and what was read from it.
    pub chat: ChatRequest,
    /// Headers that go upstream.
    pub headers: HeaderMap,
    /// Its time.
    pub budget: Budget,
    /// The permit of the global gate. None only while it queues for a saturated upstream.
    pub global: Option<Permit>,
    /// What the plan said.
    pub choice: Choice,
    /// Switches that may still be made.
    pub switches_left: u32,
    /// Credentials this call has failed with: upstream and position.
    pub failed_credentials: Vec<(Arc<str>, usize)>,
}

/// Why a target does not serve.
enum Leave {
    /// Left for the next one.
    Left(Failure),
    /// It was not able after all; nothing was tried.
    Skipped,
    /// The request ends with this.
    End(Failure),
}

impl From<Failure> for Leave {
    fn from(failure: Failure) -> Self {
        Self::End(failure)
    }
}

impl Call {
    /// Works until there is something to show.
    ///
    /// # Errors
    /// What the client is to be told.
    pub async fn run(&mut self) -> Result<(Attempt, Ready), Failure> {
        let mut last = None;
        self.plan().await?;
        while let Some(position) = self.next_position().await? {
            match self.stay(position).await {
                Ok(served) => return Ok(served),
                Err(Leave::Left(failure)) => last = Some(failure),
                Err(Leave::Skipped) => {}
                Err(Leave::End(failure)) => return Err(failure),
            }
        }
        Err(last.unwrap_or_else(|| self.nobody(clock::now())))
    }

    async fn stay(&mut self, position: usize) -> Result<(Attempt, Ready), Leave> {
        let retry = self.route.config.retry;
        let mut left = RetriesLeft { rate_limit: retry.rate_limit, upstream: retry.upstream };
        let mut tries = 0;
        self.choice.tried[position] = true;
        let mut last: Option<Judged> = None;
        loop {
            let attempt = match (self.begin(position).await, last.take()) {
                (Ok(attempt), _) => attempt,
                (Err(NotBegun::Skipped), None) => return Err(Leave::Skipped),
                // The retry found the target refusing: what is left is the switch it stood in the place of.
                (Err(NotBegun::Skipped), Some(judged)) => {
                    let verdict = Verdict { action: Action::Switch, ..judged.verdict.clone() };
                    let at = self.situation(clock::now(), position, &verdict, RetriesLeft::default(), tries);
                    return Err(self.leave(position, judged, decide::next(&verdict, &at)));
                }
                (Err(NotBegun::Saturated(failure)), _) => return Err(self.after_saturation(failure)),
                (Err(NotBegun::End(failure)), _) => return Err(Leave::End(failure)),
            };
            let body = self.body_for(position);
            let fault = match self.exchange(&attempt, body).await {
                Ok(ready) => return Ok((attempt, ready)),
                Err(fault) => fault,
            };
            let judged = judge::judge(self, attempt, &fault).await?;
            if fault.by_deadline {
                return Err(Leave::End(Failure::BudgetExhausted));
            }
            let now = clock::now();
            let at = Situation {
                other_credential: self.other_credential(self.target(position), judged.credential, now),
                ..self.situation(now, position, &judged.verdict, left, tries)
            };
            match decide::next(&judged.verdict, &at) {
                Next::Retry { after, paid_by } => {
                    match paid_by {
                        RetryAllowance::Credential => {}
                        RetryAllowance::RateLimit => {
                            left.rate_limit -= 1;
                            self.forgive(position, judged.credential);
                        }
                        RetryAllowance::Upstream => left.upstream -= 1,
                    }
                    tries += 1;
                    self.pay_retry(position, &judged.verdict);
                    self.pause(after).await?;
                    last = Some(judged);
                }
                next @ (Next::Switch | Next::End { .. }) => return Err(self.leave(position, judged, next)),
            }
        }
    }

    /// Leaves a target as was decided: for the next one, or for good.
    fn leave(&mut self, position: usize, judged: Judged, next: Next) -> Leave {
        match next {
            Next::Switch => {
                self.pay_switch(&judged.verdict);
                Leave::Left(judged.failure)
            }
            Next::End { budget_denied: true } => {
                let key = self.target(position).cell.key();
                self.ledger.shared().telemetry.metrics().retry_budget_denied(key);
                Leave::End(judged.failure)
            }
            Next::End { budget_denied: false } | Next::Retry { .. } => Leave::End(judged.failure),
        }
    }

    /// A credential whose wait is sat out may be used once more.
    fn forgive(&mut self, position: usize, credential: Option<usize>) {
        let name = self.target(position).upstream.name().clone();
        self.failed_credentials.retain(|(upstream, index)| *upstream != name || Some(*index) != credential);
    }

    /// A gate of ours refused: a reason to switch, which costs a switch but no retry budget.
    fn after_saturation(&mut self, failure: Failure) -> Leave {
        self.ledger.saturated();
        let verdict = judge::saturation();
        let at = self.situation(clock::now(), usize::MAX, &verdict, RetriesLeft::default(), 0);
        match decide::next(&verdict, &at) {
            Next::Switch => {
                self.pay_switch(&verdict);
                Leave::Left(failure)
            }
            Next::Retry { .. } | Next::End { .. } => Leave::End(failure),
        }
    }

    /// The client's body as this target gets it. In the place of the first choice, or after a timeout, its
    /// answer may be limited so that it can still come in time.
    fn body_for(&mut self, position: usize) -> Bytes {
        let target = &self.route.targets[position];
        let late = self.choice.role(position) == Role::Fallback || self.ledger.timed_out();
        let limit = target.config.fallback_max_tokens.filter(|_| late && self.chat.wire.limits_output());
        let mut edits =
            limit.map_or_else(Vec::new, |limit| self.chat.output_limit.lowered(&self.chat.body, limit));
        self.ledger.max_tokens_lowered = limit.filter(|_| !edits.is_empty());
        edits.extend(self.usage_edit());
        self.chat.with_model(&target.config.target.model, &edits)
    }

    /// Makes the exchange under its clocks. A limit that fires with nowhere to go lets the attempt run on to
    /// the deadline.
    async fn exchange(&self, attempt: &Attempt, body: Bytes) -> Result<Ready, Fault> {
        let target = self.target(attempt.position);
        let generation = self.ledger.generation();
        let outgoing = Outgoing {
            client: &target.client,
            line: &attempt.hold.line,
            path: self.chat.wire.path(),
            credential: attempt.credential.as_ref().map(Lease::index),
            headers: &self.headers,
            body,
            connect: self.route.config.connect,
        };
        let expected = Expected {
            wire: self.chat.wire,
            streaming: self.chat.stream,
            usage_asked: self.chat.usage.asked,
            rules: generation.stream_rules(&self.route.config, &self.chat),
            limits: generation.config.limits,
            idle: self.route.config.idle.filter(|_| self.route.config.commit == CommitRule::Complete),
            wait_max: generation.config.breaker.cooldown.max,
        };
        let progress = Progress::default();
        let mut work = std::pin::pin!(attempt::run(&outgoing, &expected, &progress));
        let mut fires = attempt.clock.fires(attempt.started, false);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep_until(fires.into()) => {}
            }
            let now = clock::now();
            let by_deadline = now >= self.budget.deadline();
            let limit_over = attempt.clock.target_to_blame(now, progress.content());
            if by_deadline || (limit_over && self.could_switch(now, attempt.position)) {
                return Err(Fault {
                    transport: Some(TransportError::Timeout),
                    status: progress.status(),
                    by_deadline,
                    limit_over,
                    ..Fault::new(progress.stage(self.chat.stream))
                });
            }
            fires = attempt.clock.fires(now, progress.content());
        }
    }

    /// What makes the body ask for usage, where it is to be accounted.
    fn usage_edit(&self) -> Option<Edit> {
        let account = self.ledger.generation().config.account_usage;
        self.chat.usage.ask.clone().filter(|_| account)
    }

    fn could_switch(&self, now: Instant, position: usize) -> bool {
        let verdict = judge::own_limit();
        decide::could_switch(&self.situation(now, position, &verdict, RetriesLeft::default(), 0))
    }

    /// Where the call stands, for the core to decide. `position` past the end: no target of its own.
    /// Whether there is another credential is for the caller to say, who knows which one was in use.
    fn situation(
        &self,
        now: Instant,
        position: usize,
        verdict: &Verdict,
        retries_left: RetriesLeft,
        tries: u32,
    ) -> Situation {
        let retry = &self.route.config.retry;
        let target = self.route.targets.get(position);
        let context = target.and_then(|t| t.config.target.facts.context);
        let next = self.next_able(now, verdict.kind, context).map(|next| NextTarget {
            min_budget: min_budget(next, now),
            larger_context: is_larger(next, context),
        });
        Situation {
            left: self.budget.left(now),
            min_budget: target.map_or(Duration::ZERO, |t| min_budget(t, now)),
            switches_left: self.switches_left,
            retries_left,
            wait_max: retry.max_wait,
            pause: budget::pause(tries, retry.backoff, retry.backoff_max, fastrand::f64()),
            other_credential: false,
            budget_allows: self.ledger.generation().cells.retry_budget.has(now),
            next,
        }
    }

    /// The next target that would be tried after a failure of this kind.
    fn next_able(&self, now: Instant, kind: FailureKind, context: Option<u32>) -> Option<&Target> {
        let untried = self.choice.order.iter().filter(|&&p| !self.choice.tried[p]).map(|&p| self.target(p));
        let mut able = untried.filter(|t| t.cell.able(now).is_able() && t.upstream.all_aside(now).is_none());
        match kind {
            FailureKind::ContextLengthExceeded => able.find(|t| is_larger(t, context)),
            _ => able.next(),
        }
    }

    /// Whether a credential of the target's upstream is left that is not `in_use`, and that this call has not
    /// failed with.
    pub fn other_credential(&self, target: &Target, in_use: Option<usize>, now: Instant) -> bool {
        let failed = self.failed_with(target);
        let other = |index| Some(index) != in_use && !failed.contains(&index);
        target.upstream.page(now).iter().any(|c| c.aside.is_none() && other(c.index))
    }

    pub fn failed_with(&self, target: &Target) -> Vec<usize> {
        let name = target.upstream.name();
        self.failed_credentials
            .iter()
            .filter(|(upstream, _)| upstream == name)
            .map(|(_, index)| *index)
            .collect()
    }

    fn pay_retry(&self, position: usize, verdict: &Verdict) {
        if decide::takes_from_budget(verdict.kind) {
            self.ledger.generation().cells.retry_budget.take(clock::now());
        }
        let key = self.target(position).cell.key().clone();
        self.ledger.shared().telemetry.metrics().retry(&key);
    }

    fn pay_switch(&mut self, verdict: &Verdict) {
        let now = clock::now();
        self.switches_left -= 1;
        self.choice.after = Some((verdict.kind, self.choice.current_context(&self.route)));
        if decide::takes_from_budget(verdict.kind) {
            self.ledger.generation().cells.retry_budget.take(now);
        }
        self.ledger.shared().telemetry.metrics().switch(&self.route.config.name, self.budget.left(now));
    }

    async fn pause(&mut self, after: Duration) -> Result<(), Failure> {
        if after.is_zero() {
            return Ok(());
        }
        self.ledger.waited += after;
        let shared = self.ledger.shared().clone();
        tokio::select! {
            () = tokio::time::sleep(after) => Ok(()),
            () = shared.draining.cancelled() => Err(Failure::Draining),
        }
    }

    /// The target at a position of the route.
    pub fn target(&self, position: usize) -> &Target {
        &self.route.targets[position]
    }

    /// What the client is told when this fault is the last word.
    pub fn last_fault(&self, fault: &Fault, verdict: &Verdict) -> Failure {
        Failure::Upstream(Box::new(LastFault {
            kind: verdict.kind,
            status: fault.status,
            transport: fault.transport,
            error: fault.error.clone(),
            client_status: verdict.client_status,
            retry_after: None,
        }))
    }
}

fn is_larger(target: &Target, than: Option<u32>) -> bool {
    target.config.target.facts.context.is_some_and(|context| than.is_some_and(|than| context > than))
}

fn min_budget(target: &Target, now: Instant) -> Duration {
    match target.config.min_budget {
        MinBudget::Fixed(fixed) => fixed,
        MinBudget::P95 { floor } => budget::min_budget(floor, target.cell.p95_to_commit(now)),
    }
}
