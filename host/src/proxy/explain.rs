//! What would become of a request, without calling anybody: the same admission, plan, clocks, judgement and decisions
//! as of one that is served, with failures that are supposed in the place of exchanges.
//!
//! Nothing is decided here. Time is supposed too: a target that says nothing uses up its limit at once. What breakers
//! and credentials learn is learnt by the cells of the gateway that is asked, so that one which serves is never asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt as _;
use sluice_core::decide::RetryAllowance;
use sluice_core::facts::{Candidate, RequestFacts};
use sluice_core::kind::{Role, Stage, TransportError};
use sluice_core::lens::error::ProviderError;
use sluice_core::lens::wire::Wire;
use sluice_core::machine::{After, Attempting, Choosing, Entering};
use sluice_core::verdict::Verdict;

use super::Shared;
use super::admit;
use super::attempt::error_fault;
use super::begin::{Attempt, NotBegun, Place};
use super::call::Call;
use super::caller;
use super::commit;
use super::error::Failure;
use super::fault::Fault;
use super::judge::{self, Judged};
use super::settle::Ledger;
use crate::clock;
use crate::telemetry::decisions::{ScoreRow, VerdictRow};

/// A request that nobody sends.
#[derive(Debug, Clone)]
pub struct Dry {
    /// Its wire format.
    pub wire: Wire,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// Who sends it; none: somebody without a name.
    pub caller: Option<String>,
    /// How its first attempts fail; later ones serve.
    pub mishaps: Vec<Mishap>,
}

/// How an attempt is supposed to fail.
#[derive(Debug, Clone)]
pub enum Mishap {
    /// An HTTP error.
    Answer {
        /// Its status.
        status: u16,
        /// Its headers.
        headers: HeaderMap,
        /// Its body.
        body: Bytes,
    },
    /// Something below HTTP.
    Transport(TransportError),
    /// Nothing comes until a clock of ours fires.
    Silence,
}

/// What would become of it.
#[derive(Debug)]
pub struct Explained {
    /// What plugins are told about it.
    pub facts: RequestFacts,
    /// Its route and its time; none: it has no route.
    pub route: Option<(Arc<crate::config::Route>, Duration)>,
    /// Each target of the route, in configured order.
    pub targets: Vec<TargetLine>,
    /// The targets in the order in which they would be tried.
    pub order: Vec<Arc<str>>,
    /// What each router said about each candidate, whenever it was asked.
    pub scores: Vec<ScoreRow>,
    /// What would be tried.
    pub steps: Vec<Step>,
    /// Failures that were supposed for attempts there are none of.
    pub mishaps_left: usize,
    /// The status of its answer.
    pub status: u16,
    /// The headers of ours on it.
    pub headers: HeaderMap,
    /// The body of an error; none: it would be served.
    pub error: Option<Bytes>,
}

/// A target of the route.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetLine {
    /// `upstream/model`.
    pub target: Arc<str>,
    /// Why it cannot take the request; empty: it can.
    pub left_out: Vec<String>,
    /// It counts as the first choice.
    pub first_choice: bool,
    /// What the routers saw of it; none: they were not asked about it.
    pub facts: Option<Candidate>,
    /// Weighted sum of their scores; none: excluded, or not asked about.
    pub score: Option<f64>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// `upstream/model`.
    pub target: Arc<str>,
    /// First choice or not.
    pub role: Role,
    /// After this long it would be left for another target, if there is one.
    pub limit: Duration,
    /// After this long without content, of a stream that is held to its end.
    pub first_content: Option<Duration>,
    /// Left until the deadline when it begins.
    pub left: Duration,
    /// The output limit written into its body.
    pub max_tokens: Option<u32>,
    /// What its failure would be taken for; none: it serves.
    pub verdict: Option<VerdictRow>,
    /// What would follow.
    pub follows: Follows,
}

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// It serves.
    Served,
    /// The same target again, after this long.
    Retry {
        /// The pause.
        after: Duration,
        /// With another credential.
        other_credential: bool,
    },
    /// The next target.
    Switch,
    /// An error for the client; whether the retry budget alone stood in the way of more.
    End {
        /// It did.
        budget_denied: bool,
    },
    /// The deadline is there.
    Deadline,
}

/// Says what would become of a request. The targets of `shared` learn from it.
pub async fn explain(shared: &Arc<Shared>, dry: &Dry) -> Explained {
    let id = admit::request_id(&dry.headers);
    let endpoint = dry.wire.endpoint();
    let mut ledger = Box::new(Ledger::new(shared.clone(), shared.current.load_full(), endpoint.into(), id));
    let generation = ledger.generation().clone();
    ledger.calls(dry.caller.as_ref().and_then(|name| caller::named(&generation, name)));
    let routed = admit::route(&mut ledger, dry.body.clone(), &dry.headers, dry.wire);
    let (route, body, budget) = match routed {
        Ok(routed) => routed,
        Err(failure) => {
            let facts = ledger.facts.clone();
            let mut explained = Explained::of(facts);
            explained.mishaps_left = dry.mishaps.len();
            explained.ends(commit::refuse(ledger, &failure).await).await;
            return explained;
        }
    };
    let mut call = Box::new(Call::new(ledger, route, body, dry.headers.clone(), budget));
    let mut explained = Explained::of(call.ledger.facts.clone());
    explained.route = Some((call.route.config.clone(), call.budget.total()));
    let now = clock::now();
    let targets = 0..call.route.targets.len();
    let left_out: Vec<Vec<String>> = targets.map(|position| call.left_out(position, now)).collect();
    let walked = Box::pin(walk(&mut call, dry, &mut explained.steps, now)).await;
    explained.mishaps_left = dry.mishaps.len().saturating_sub(explained.steps.len());
    explained.planned(&call, left_out);
    match walked {
        Ok(()) => match commit::head_alone(&mut call.ledger).await {
            Some(headers) => (explained.status, explained.headers) = (200, headers),
            None => explained.ends(commit::fail(call, Failure::PluginDenied).await).await,
        },
        Err(failure) => explained.ends(commit::fail(call, failure).await).await,
    }
    explained
}

impl Explained {
    fn of(facts: RequestFacts) -> Self {
        Self {
            facts,
            route: None,
            targets: Vec::new(),
            order: Vec::new(),
            scores: Vec::new(),
            steps: Vec::new(),
            mishaps_left: 0,
            status: 0,
            headers: HeaderMap::new(),
            error: None,
        }
    }

    fn planned(&mut self, call: &Call, left_out: Vec<Vec<String>>) {
        let key = |position: usize| call.target(position).cell.key().clone();
        self.order = call.choice.order.iter().map(|position| key(*position)).collect();
        self.scores.clone_from(&call.ledger.decision.scores);
        let seen = call.ledger.choices.as_deref().unwrap_or_default();
        let line = |(position, left_out): (usize, Vec<String>)| {
            let target = key(position);
            let seen = seen.iter().find(|choice| choice.target == target);
            TargetLine {
                left_out,
                first_choice: call.choice.first_choice == Some(position),
                facts: seen.map(|choice| choice.facts),
                score: seen.and_then(|choice| choice.score),
                target,
            }
        };
        self.targets = left_out.into_iter().enumerate().map(line).collect();
    }

    async fn ends(&mut self, response: http::Response<super::Body>) {
        let (head, body) = response.into_parts();
        (self.status, self.headers) = (head.status.as_u16(), head.headers);
        // A body that is whole from the start cannot break off.
        self.error = Some(body.collect().await.map(|body| body.to_bytes()).unwrap_or_default());
    }
}

/// Goes the way of [`Call::run`] with supposed failures and supposed time.
async fn walk(call: &mut Call, dry: &Dry, steps: &mut Vec<Step>, mut at: Instant) -> Result<(), Failure> {
    call.plan(at).await?;
    let mut choosing = Choosing::new(call.budget, call.rules(), call.route.targets.len());
    loop {
        let next = call.next_position(choosing.course(), at).await?;
        let entering = match choosing.choose(next) {
            Ok(entering) => entering,
            Err(Some(last)) => return Err(last.failure),
            Err(None) => return Err(call.nobody(at)),
        };
        match stay(call, dry, steps, &mut at, entering).await? {
            None => return Ok(()),
            Some(left) => choosing = left,
        }
    }
}

/// The time at one target; none: it serves.
async fn stay(
    call: &mut Call,
    dry: &Dry,
    steps: &mut Vec<Step>,
    at: &mut Instant,
    mut entering: Entering<Judged>,
) -> Result<Option<Choosing<Judged>>, Failure> {
    let position = entering.position();
    loop {
        let after = match call.place(position, *at).await {
            Ok(place) => match attempt(call, dry, steps, at, (entering, place)).await? {
                Some(after) => after,
                None => return Ok(None),
            },
            Err(NotBegun::Skipped) => {
                let outlook = call.outlook(*at, position, entering.course(), None);
                entering.skipped(*at, &outlook, || call.take_from_budget(*at))
            }
            Err(NotBegun::Saturated(failure) | NotBegun::End(failure)) => return Err(failure),
        };
        let follows = match &after {
            After::Retry(pausing) => Follows::Retry {
                after: pausing.pause(),
                other_credential: pausing.paid_by() == RetryAllowance::Credential,
            },
            After::Switch(_) | After::Skip(_) => Follows::Switch,
            After::End { budget_denied, .. } => Follows::End { budget_denied: *budget_denied },
        };
        if let Some(step) = steps.last_mut() {
            step.follows = follows;
        }
        entering = match after {
            After::Retry(pausing) => {
                if pausing.paid_by() == RetryAllowance::RateLimit {
                    call.forgive(position, pausing.failure().credential);
                }
                *at += pausing.pause();
                pausing.over()
            }
            After::Switch(to) | After::Skip(to) => return Ok(Some(to)),
            After::End { failure, .. } => return Err(failure.failure),
        };
    }
}

/// One attempt; none: it serves.
async fn attempt(
    call: &mut Call,
    dry: &Dry,
    steps: &mut Vec<Step>,
    at: &mut Instant,
    (entering, place): (Entering<Judged>, Place),
) -> Result<Option<After<Judged>>, Failure> {
    let position = entering.position();
    let (limit, first_content) = call.limits(position);
    let left = entering.course().left(*at);
    let attempting = entering.granted(*at, limit, first_content).ok_or(Failure::BudgetExhausted)?;
    let mut attempt = call.begin(position, place, *at);
    // Noted, and written into no body: nobody is sent one.
    drop(call.lower_output(position));
    let step = Step {
        target: call.target(position).cell.key().clone(),
        role: call.choice.role(position),
        limit,
        first_content,
        left,
        max_tokens: call.ledger.max_tokens_lowered,
        verdict: None,
        follows: Follows::Served,
    };
    let number = steps.len();
    steps.push(step);
    let Some(mishap) = dry.mishaps.get(number) else {
        attempting.commits();
        attempt.ticket.commit();
        let route = call.route.clone();
        call.ledger.commits(&route.targets[position], 200, call.body.stream, None, *at);
        return Ok(None);
    };
    let fault = fault(call, mishap, &attempting, &mut attempt, at);
    let (verdicts, n) = (call.ledger.decision.verdicts.len(), attempt.number);
    let judged = judge::judge(call, attempt, &fault, *at).await?;
    if let Some(step) = steps.last_mut() {
        let Verdict { kind, action, breaker, .. } = judged.verdict;
        // Of what the deadline ended no plugin is asked.
        let own = || VerdictRow { n, plugin: None, kind, action, breaker };
        step.verdict = Some(call.ledger.decision.verdicts.get(verdicts).cloned().unwrap_or_else(own));
        step.follows = Follows::Deadline;
    }
    if fault.by_deadline {
        return Err(Failure::BudgetExhausted);
    }
    let outlook = call.outlook(*at, position, attempting.course(), Some(&judged));
    Ok(Some(attempting.failed(*at, judged, &outlook, || call.take_from_budget(*at))))
}

/// The fault that a mishap is. Silence takes its time; whatever else is supposed to come at once.
fn fault(
    call: &Call,
    mishap: &Mishap,
    attempting: &Attempting<Judged>,
    attempt: &mut Attempt,
    at: &mut Instant,
) -> Fault {
    match mishap {
        Mishap::Answer { status, headers, body } => {
            let wait_max = call.ledger.generation().config.breaker.cooldown.max;
            error_fault(*status, headers, body, ProviderError::find(body), wait_max)
        }
        Mishap::Transport(class) => {
            let connects = matches!(
                class,
                TransportError::Refused
                    | TransportError::Dns
                    | TransportError::Tls
                    | TransportError::Unreachable
            );
            let stage = if connects { Stage::Connect } else { Stage::Head };
            Fault { transport: Some(*class), ..Fault::new(stage) }
        }
        Mishap::Silence => loop {
            *at = attempting.fires(*at, false);
            let outlook = || call.outlook(*at, attempt.position, attempting.course(), None);
            if let Some(out) = attempting.out_of_time(*at, false, outlook) {
                break Fault {
                    transport: Some(TransportError::Timeout),
                    by_deadline: out.by_deadline,
                    limit_over: out.limit_over,
                    ..Fault::new(Stage::Head)
                };
            }
            if attempting.is_overdue(*at, false) {
                call.runs_over(attempt.position, &mut attempt.ticket, *at);
            }
        },
    }
}
