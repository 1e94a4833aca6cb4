//! One routed request on its way to an answer: which target is tried, what follows a failure, until there is
//! something to show or nothing left to try. The course is `core::machine`'s, which this drives: what happens is
//! told to the state the request is in, and what it becomes is done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use sluice_core::budget::Budget;
use sluice_core::decide::{RetriesLeft, RetryAllowance};
use sluice_core::kind::{Role, TransportError};
use sluice_core::lens::request::RequestBody;
use sluice_core::lens::splice::Edit;
use sluice_core::machine::{After, Attempting, Choosing, Entering, Pausing, Rules};
use sluice_core::verdict::Verdict;

use super::attempt::{self, Expected, Progress, Ready};
use super::begin::{Attempt, NotBegun, Place};
use super::error::{Failure, LastFault};
use super::fault::Fault;
use super::judge::{self, Judged};
use super::plan::Choice;
use super::request::Outgoing;
use super::settle::Ledger;
use crate::clock;
use crate::config::CommitRule;
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
    pub body: RequestBody,
    /// The client's headers.
    pub headers: HeaderMap,
    /// Its time.
    pub budget: Budget,
    /// The permit of the global gate. None only while it queues for a saturated upstream.
    pub global: Option<Permit>,
    /// What the plan said.
    pub choice: Choice,
    /// Credentials this call has failed with: upstream and position.
    pub failed_credentials: Vec<(Arc<str>, usize)>,
}

/// How the time at one target ended.
enum Stayed {
    /// It serves.
    Served(Box<(Attempt, Ready)>),
    /// It was left for the next one.
    Left(Box<Choosing<Judged>>),
}

/// What became of one attempt.
enum Tried {
    Served(Box<(Attempt, Ready)>),
    Failed(Box<After<Judged>>),
}

impl Call {
    /// A call that has no place yet.
    pub fn new(
        ledger: Box<Ledger>,
        route: Arc<Route>,
        body: RequestBody,
        headers: HeaderMap,
        budget: Budget,
    ) -> Self {
        let (choice, failed_credentials) = (Choice::default(), Vec::new());
        Self { own: None, ledger, route, body, headers, budget, global: None, choice, failed_credentials }
    }

    /// Works until there is something to show.
    ///
    /// # Errors
    /// What the client is to be told.
    pub async fn run(&mut self) -> Result<Box<(Attempt, Ready)>, Failure> {
        self.plan(clock::now()).await?;
        let mut choosing = Choosing::new(self.budget, self.rules(), self.route.targets.len());
        loop {
            let now = clock::now();
            let next = self.next_position(choosing.course(), now).await?;
            // After an attempt routers may have been asked.
            let now = if self.ledger.attempts() > 0 { clock::now() } else { now };
            let entering = match choosing.choose(next) {
                Ok(entering) => entering,
                Err(Some(last)) => return Err(last.failure),
                Err(None) => return Err(self.nobody(now)),
            };
            choosing = match self.stay(entering, now).await? {
                Stayed::Served(served) => return Ok(served),
                Stayed::Left(choosing) => *choosing,
            };
        }
    }

    /// What the route allows.
    pub fn rules(&self) -> Rules {
        let retry = &self.route.config.retry;
        Rules {
            max_switches: self.route.config.max_switches,
            retries: RetriesLeft { rate_limit: retry.rate_limit, upstream: retry.upstream },
            wait_max: retry.max_wait,
            backoff: retry.backoff,
            backoff_max: retry.backoff_max,
        }
    }

    async fn stay(&mut self, mut entering: Entering<Judged>, mut now: Instant) -> Result<Stayed, Failure> {
        let position = entering.position();
        loop {
            let after = match self.place(position, now).await {
                Ok(place) => match self.attempt(entering, place).await? {
                    Tried::Served(served) => return Ok(Stayed::Served(served)),
                    Tried::Failed(after) => *after,
                },
                Err(NotBegun::Skipped) => {
                    let now = clock::now();
                    let outlook = self.outlook(now, position, entering.course(), None);
                    entering.skipped(now, &outlook, || self.take_from_budget(now))
                }
                Err(NotBegun::Saturated(failure)) => {
                    self.ledger.saturated();
                    let now = clock::now();
                    let judged = Judged { verdict: judge::saturation(), failure, credential: None };
                    let outlook = self.outlook(now, position, entering.course(), Some(&judged));
                    entering.refused(now, judged, &outlook, || self.take_from_budget(now))
                }
                Err(NotBegun::End(failure)) => return Err(failure),
            };
            entering = match after {
                After::Retry(pausing) => self.pause(position, pausing).await?,
                After::Switch(to) => {
                    let (name, left) = (&self.route.config.name, to.course().left(clock::now()));
                    self.ledger.shared().telemetry.metrics().switch(name, left);
                    return Ok(Stayed::Left(Box::new(to)));
                }
                After::Skip(to) => return Ok(Stayed::Left(Box::new(to))),
                After::End { failure, budget_denied } => {
                    if budget_denied {
                        let key = self.target(position).cell.key();
                        self.ledger.shared().telemetry.metrics().retry_budget_denied(key);
                    }
                    return Err(failure.failure);
                }
            };
            now = clock::now();
        }
    }

    /// One attempt, from the moment everything it needs is there.
    async fn attempt(&mut self, entering: Entering<Judged>, place: Place) -> Result<Tried, Failure> {
        let (position, now) = (entering.position(), place.at);
        let (own, first_content) = self.limits(position);
        let attempting = entering.granted(now, own, first_content).ok_or(Failure::BudgetExhausted)?;
        let mut attempt = self.begin(position, place, now);
        let edits = self.lower_output(position);
        let body = self.body_for(position, edits);
        let fault = match self.exchange(&attempting, &mut attempt, body).await {
            Ok(ready) => {
                attempting.commits();
                return Ok(Tried::Served(Box::new((attempt, ready))));
            }
            Err(fault) => fault,
        };
        // Apart, so that an attempt that serves does not carry the place for it.
        let judged = Box::pin(judge::judge(self, attempt, &fault, clock::now())).await?;
        if fault.by_deadline {
            return Err(Failure::BudgetExhausted);
        }
        let now = clock::now();
        let outlook = self.outlook(now, position, attempting.course(), Some(&judged));
        let after = attempting.failed(now, judged, &outlook, || self.take_from_budget(now));
        Ok(Tried::Failed(Box::new(after)))
    }

    /// What an attempt at a target has for itself, and what it has until its first content where the route holds
    /// a stream back to its end.
    pub fn limits(&self, position: usize) -> (Duration, Option<Duration>) {
        let limits = &self.target(position).config;
        match (self.body.stream, self.route.config.commit) {
            (false, _) => (limits.attempt, None),
            (true, CommitRule::FirstContent) => (limits.first_content, None),
            (true, CommitRule::Complete) => (limits.attempt, Some(limits.first_content)),
        }
    }

    /// The answer is shown and nothing is sent upstream any more: what would have been is let go, with the pages of the
    /// connection that it was read into.
    pub fn is_shown(&mut self) {
        self.body.bytes = Bytes::new();
        self.headers = HeaderMap::new();
    }

    /// Takes one retry or switch from what all requests share.
    pub fn take_from_budget(&self, now: Instant) -> bool {
        self.ledger.generation().cells.retry_budget.take(now)
    }

    /// In the place of the first choice, or after a timeout, the answer of this target may be limited so that it can
    /// still come in time. Notes the limit, and gives what writes it into the body.
    pub fn lower_output(&mut self, position: usize) -> Vec<Edit> {
        let target = &self.route.targets[position];
        let late = self.choice.role(position) == Role::Fallback || self.ledger.timed_out();
        let limit = target.config.fallback_max_tokens.filter(|_| late && self.body.wire.limits_output());
        let edits =
            limit.map_or_else(Vec::new, |limit| self.body.output_limit.lowered(&self.body.bytes, limit));
        self.ledger.max_tokens_lowered = limit.filter(|_| !edits.is_empty());
        edits
    }

    /// The client's body as this target gets it, with these edits.
    fn body_for(&self, position: usize, mut edits: Vec<Edit>) -> Bytes {
        // What makes the body ask for usage, where it is to be accounted.
        let account = self.ledger.generation().config.account_usage;
        edits.extend(self.body.usage.ask.clone().filter(|_| account));
        self.body.with_model(&self.target(position).config.target.model, &edits)
    }

    /// Makes the exchange under its clocks. A limit that fires with nowhere to go lets the attempt run on to
    /// the deadline. Where it is known already what the attempt came to, a clock ends it with that.
    async fn exchange(
        &self,
        attempting: &Attempting<Judged>,
        attempt: &mut Attempt,
        body: Bytes,
    ) -> Result<Ready, Fault> {
        let Attempt { position, started, ref credential, ref hold, ref mut ticket, .. } = *attempt;
        let target = self.target(position);
        let generation = self.ledger.generation();
        let outgoing = Outgoing {
            client: &target.client,
            line: &hold.line,
            path: self.body.wire.path(),
            credential: credential.as_ref().map(Lease::index),
            headers: (&self.headers, &generation.config.forward_headers),
            request_id: self.ledger.id(),
            trace: self.ledger.trace.as_deref(),
            body,
            begun: started,
            connect: self.route.config.connect,
        };
        let expected = Expected {
            wire: self.body.wire,
            streaming: self.body.stream,
            usage_asked: self.body.usage.asked,
            rules: generation.stream_rules(&self.route.config, &self.body),
            limits: generation.config.limits,
            idle: self.route.config.idle,
            wait_max: generation.config.breaker.cooldown.max,
        };
        let progress = Progress::default();
        let mut work = std::pin::pin!(attempt::run(&outgoing, &expected, &progress));
        let mut fires = attempting.fires(started, false);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep_until(fires.into()) => {}
            }
            let now = clock::now();
            if progress.is_decided() && now >= attempting.fires(started, progress.content()) {
                progress.is_enough();
                return work.await;
            }
            let outlook = || self.outlook(now, position, attempting.course(), None);
            if let Some(out) = attempting.out_of_time(now, progress.content(), outlook) {
                return Err(Fault {
                    transport: Some(TransportError::Timeout),
                    status: progress.status(),
                    by_deadline: out.by_deadline,
                    limit_over: out.limit_over,
                    ..Fault::new(progress.stage(self.body.stream))
                });
            }
            if attempting.is_overdue(now, progress.content()) {
                self.runs_over(position, ticket, now);
            }
            fires = attempting.fires(now, progress.content());
        }
    }

    /// Waits before a retry.
    async fn pause(
        &mut self,
        position: usize,
        pausing: Pausing<Judged>,
    ) -> Result<Entering<Judged>, Failure> {
        if pausing.paid_by() == RetryAllowance::RateLimit {
            self.forgive(position, pausing.failure().credential);
        }
        let shared = self.ledger.shared().clone();
        shared.telemetry.metrics().retry(self.target(position).cell.key());
        let after = pausing.pause();
        if after.is_zero() {
            return Ok(pausing.over());
        }
        self.ledger.waited += after;
        tokio::select! {
            () = tokio::time::sleep(after) => Ok(pausing.over()),
            () = shared.draining.cancelled() => Err(Failure::Draining),
        }
    }

    /// Tokens: the input as it was estimated and, where the request limits it, the whole output.
    pub fn estimate(&self) -> (u64, u64) {
        let each = u64::from(self.body.max_output_tokens.unwrap_or(0));
        (self.body.input_tokens.into(), each.saturating_mul(self.body.choices.into()))
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
