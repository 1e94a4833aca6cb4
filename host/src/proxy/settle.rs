//! The books of one request: everything that will be said about it, and the one place where it is said.
//!
//! A [`Ledger`] settles exactly once, in its `Drop`: with the ending it was given, or, when it was given none, as
//! a client that left. So no path out of the proxy can forget a request, and none can count it twice.

mod attempts;
mod spending;
mod telling;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use sluice_core::budget::Budget;
use sluice_core::facts::{
    AnswerFacts, Asked, AttemptFacts, Moment, PluginRef, RequestFacts, Sink, Tag, TagPhase, Usage,
};
use sluice_core::kind::{FailureKind, Outcome, Role};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Shared;
use super::caller::Known;
use super::ending::Ending;
use super::respond::AttemptView;
use super::trace;
use crate::clock;
use crate::generation::{Generation, Route, Target};
use crate::policy::Policy;
use crate::state::{QuotaUse, Spending};
use crate::telemetry::decisions::Decision;
use crate::telemetry::events::{Event, ProviderEvent};
use crate::telemetry::metrics::{AttemptResult, AttemptSummary};
use crate::telemetry::names::Interruption;
use crate::telemetry::record::{AttemptRecord, Choice, Record, Served};
use crate::telemetry::traces::{AttemptSpan, Trace};

/// One attempt, as it will be told.
struct AttemptNote {
    record: AttemptRecord,
    target_index: u32,
    started: Instant,
    committed: Option<Duration>,
}

/// The books of one request.
pub(super) struct Ledger {
    shared: Arc<Shared>,
    generation: Arc<Generation>,
    arrival: Instant,
    wall: SystemTime,
    endpoint: Cow<'static, str>,
    /// What plugins are told about the request.
    pub facts: RequestFacts,
    /// A route of that name exists, or the name could at least be read.
    pub model: Option<Arc<str>>,
    /// Once the route is known.
    pub budget: Option<Budget>,
    /// Once it is known.
    pub route: Option<Arc<Route>>,
    /// A tagger that must answer could not: none is asked again.
    pub tagger_denied: bool,
    /// Who calls; none: callers have no keys.
    pub caller: Option<Known>,
    /// What it has taken of its caller's limits, once it is let in.
    pub spending: Option<Spending>,
    /// What the last attempt counts for against the quota of its upstream.
    pub quota: Option<QuotaUse>,
    /// Plugins that were asked, in order, each once.
    asked: Vec<PluginRef>,
    attempts: Vec<AttemptNote>,
    first_failure: Option<FailureKind>,
    /// Why the first choice was not even tried.
    left_out: Option<FailureKind>,
    role: Role,
    served: Option<Served>,
    served_index: Option<u32>,
    latency: Option<Duration>,
    first_content: Option<Duration>,
    budget_left: Option<Duration>,
    /// Time in queues and pauses, which is not the gateway's own.
    pub waited: Duration,
    /// Output limit written into the body of the last attempt.
    pub max_tokens_lowered: Option<u32>,
    /// Tokens of the answer.
    pub usage: Option<Usage>,
    /// The candidates as the routers saw them first.
    pub choices: Option<Vec<Choice>>,
    /// Verdicts, scores and tags for `/debug/decisions`.
    pub decision: Decision,
    record_tags: BTreeMap<String, String>,
    ending: Option<Ending>,
    /// When it had served to its end; none: the end is when its books are closed.
    served_until: Option<Instant>,
    /// Its place in a distributed trace; none: its spans are not kept.
    pub trace: Option<Box<Trace>>,
    /// Until everything is said; none: the answer has it.
    running: Option<TaskTrackerToken>,
}

impl Ledger {
    /// Opens the books of a request that has just arrived.
    pub fn new(
        shared: Arc<Shared>,
        generation: Arc<Generation>,
        endpoint: Cow<'static, str>,
        id: Arc<str>,
    ) -> Self {
        Self {
            running: Some(shared.running.token()),
            route: None,
            tagger_denied: false,
            shared,
            generation,
            arrival: clock::now(),
            wall: clock::wall(),
            endpoint,
            facts: RequestFacts { id, seed: fastrand::u64(..), ..RequestFacts::default() },
            model: None,
            budget: None,
            caller: None,
            spending: None,
            quota: None,
            asked: Vec::new(),
            attempts: Vec::new(),
            first_failure: None,
            left_out: None,
            role: Role::Primary,
            served: None,
            served_index: None,
            latency: None,
            first_content: None,
            budget_left: None,
            waited: Duration::ZERO,
            max_tokens_lowered: None,
            usage: None,
            choices: None,
            decision: Decision::default(),
            record_tags: BTreeMap::new(),
            ending: None,
            served_until: None,
            trace: None,
        }
    }

    /// The request id.
    pub fn id(&self) -> &Arc<str> {
        &self.facts.id
    }

    /// When the request arrived.
    pub const fn arrival(&self) -> Instant {
        self.arrival
    }

    /// The generation it keeps.
    pub const fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Who is asked.
    pub fn policy(&self) -> &Policy {
        self.route.as_ref().map_or(&self.generation.policy, |route| &route.policy)
    }

    /// What the gateway shares between requests.
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Notes who calls.
    pub fn calls(&mut self, caller: Option<Known>) {
        self.facts.caller = caller.as_ref().map(|caller| caller.config.name.clone());
        self.caller = caller;
    }

    /// What makes the call run, for what goes on when its books are closed.
    pub fn keep_running(&mut self) -> TaskTrackerToken {
        self.running.take().unwrap_or_else(|| self.shared.running.token())
    }

    /// Attempts begun so far.
    pub fn attempts(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// What changes from call to call of a plugin.
    pub fn moment(&self, attempt: u32, now: Instant) -> Moment {
        let now_ms = self.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
            + now.saturating_duration_since(self.arrival);
        Moment {
            attempt,
            budget_left: self.budget.map_or(Duration::ZERO, |b| b.left(now)),
            now_ms: u64::try_from(now_ms.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Notes who was asked and hands on what came of it.
    pub fn note_asked<T>(&mut self, asked: Asked<T>) -> (T, bool) {
        for plugin in asked.by {
            if !self.asked.contains(&plugin) {
                self.asked.push(plugin);
            }
        }
        (asked.advice, asked.denied)
    }

    /// An attempt of this request came too late.
    pub fn timed_out(&self) -> bool {
        self.attempts.iter().any(|note| note.record.kind == Some(FailureKind::RetryableTimeout))
    }

    /// A gate of ours refused a place at a target: no attempt, but why the target was left.
    pub fn saturated(&mut self) {
        self.first_failure.get_or_insert(FailureKind::GatewaySaturated);
    }

    /// The first choice was left out, after failures of this kind in earlier requests.
    pub fn first_choice_left_out(&mut self, kind: Option<FailureKind>) {
        self.left_out = kind;
    }

    /// Why the first choice was left: the first failure of this request, else what had closed it off before.
    fn failure_kind(&self) -> Option<FailureKind> {
        self.first_failure.or(self.left_out)
    }

    /// A target was left out because it is open or cooling.
    pub fn skipped(&self, target: &Target) {
        self.event(ProviderEvent::SkippedUnhealthy, target.config.target.key.clone(), None, None, None);
    }

    /// The running attempt was the probe of a half-open breaker, and failed.
    pub fn probe_failed(&self, target: &Target, kind: FailureKind) {
        self.event(ProviderEvent::ProbeFailed, target.config.target.key.clone(), Some(kind), None, None);
    }

    /// The running attempt was the probe, and closed the breaker.
    pub fn probe_succeeded(&self, target: &Target) {
        for what in [ProviderEvent::ProbeSucceeded, ProviderEvent::Recovered] {
            self.event(what, target.config.target.key.clone(), None, None, None);
        }
    }

    fn event(
        &self,
        what: ProviderEvent,
        target: Arc<str>,
        kind: Option<FailureKind>,
        status: Option<u16>,
        took: Option<Duration>,
    ) {
        let request_id = Some(self.facts.id.clone());
        self.shared.telemetry.event(&Event::Provider { what, target, request_id, kind, status, took });
    }

    /// Whether the served target, or on an error the last one attempted, was not the first choice.
    pub fn degraded(&self) -> bool {
        self.role == Role::Fallback
    }

    /// Keeps the tags that are for the record.
    pub fn keep_record_tags(&mut self, tags: &[Tag]) {
        for tag in tags.iter().filter(|tag| matches!(tag.sink, Sink::Record | Sink::Both)) {
            self.record_tags.insert(tag.name.clone(), tag.value.clone());
        }
    }

    /// The stream of a target has ended before its answer did.
    pub fn interrupted(&mut self, target: &Arc<str>, code: &str) {
        let reason = Interruption::of_code(code);
        self.shared.telemetry.metrics().stream_interrupted(target, reason);
        self.end(Ending { status: 200, outcome: Outcome::Interrupted, error_code: Some(code.to_owned()) });
    }

    /// The request has ended. It is written when the ledger is dropped.
    pub fn end(&mut self, ending: Ending) {
        self.stop_budget();
        self.ending.get_or_insert(ending);
    }

    /// What is left of the budget is told as it was at commit, else as it is now.
    fn stop_budget(&mut self) {
        self.budget_left = self.budget_left.or_else(|| self.budget.map(|b| b.left(clock::now())));
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let ending = self.ending.take().unwrap_or_else(|| {
            self.attempt_cancelled();
            if std::thread::panicking() {
                Ending::torn(self.latency.is_some() && self.facts.streaming)
            } else {
                Ending::LEFT
            }
        });
        self.stop_budget();
        self.settle_spending(ending.outcome);
        self.settle_quota();
        let trace = self.trace.take();
        let ended = self.served_until.unwrap_or_else(clock::now);
        let asks = self.policy().wants_record_tags() && !self.tagger_denied;
        if !asks || tokio::runtime::Handle::try_current().is_err() {
            let (record, decision, overhead) = self.record(&ending, ended);
            self.shared.telemetry.settled(record, decision, overhead, trace);
            return;
        }
        let answer = self.answer_facts(TagPhase::Record, Some(&ending), ending.status, ended);
        let moment = self.moment(self.attempts(), ended);
        let facts = self.facts.clone();
        let (policy, telemetry) = (self.policy().clone(), self.shared.telemetry.clone());
        let (mut record, decision, overhead) = self.record(&ending, ended);
        let running = self.keep_running();
        self.shared.tracker.spawn(async move {
            let asked = policy.tag(&facts, moment, &answer).await;
            for tag in asked.advice.into_iter().filter(|tag| tag.sink != Sink::Header) {
                record.tags.insert(tag.name, tag.value);
            }
            telemetry.settled(record, decision, overhead, trace);
            drop(running);
        });
    }
}
