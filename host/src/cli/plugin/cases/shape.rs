//! The records of the contract as JSON, with a plain default for every field.

use std::fmt::Display;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sluice_core::facts::{self, BreakerState, Moment, TagPhase};
use sluice_core::kind::{FailureKind, Outcome, Stage, TransportError};

use crate::plugin::Ask;

/// Most targets a file can have, and one more than the highest index it can name.
const TARGETS_MAX: u32 = 1024;

/// What is asked.
#[derive(Debug)]
pub struct Question {
    request: facts::RequestFacts,
    moment: Moment,
    what: What,
}

/// Of whom.
#[derive(Debug)]
enum What {
    Score(Vec<facts::Candidate>),
    Classify(facts::FailureFacts),
    Tag(facts::AnswerFacts),
}

impl Question {
    /// Exactly one of the three says who is asked.
    pub(super) fn new(
        request: Request,
        candidates: Option<Vec<Candidate>>,
        failure: Option<Failure>,
        answer: Option<Answer>,
    ) -> Result<Self, String> {
        let what = match (candidates, failure, answer) {
            (Some(candidates), None, None) => {
                What::Score(candidates.into_iter().map(Candidate::facts).collect())
            }
            (None, Some(failure), None) => What::Classify(failure.facts()),
            (None, None, Some(answer)) => What::Tag(answer.facts()),
            _ => {
                return Err(
                    "expected exactly one of `candidates` (to ask a router), `failure` (a classifier), \
                            `answer` (a tagger)"
                        .to_owned(),
                );
            }
        };
        let (request, moment) = request.facts();
        let question = Self { request, moment, what };
        match question.highest_target() {
            Some(highest) if highest >= TARGETS_MAX => {
                Err(format!("expected targets below {TARGETS_MAX}, got {highest}"))
            }
            _ => Ok(question),
        }
    }

    /// As a plugin is asked.
    pub fn ask(&self) -> Ask<'_> {
        match &self.what {
            What::Score(candidates) => Ask::Score(&self.request, self.moment, candidates),
            What::Classify(failure) => Ask::Classify(&self.request, self.moment, failure),
            What::Tag(answer) => Ask::Tag(&self.request, self.moment, answer),
        }
    }

    /// The targets of the candidates; none: no router is asked.
    pub fn candidates(&self) -> Option<Vec<u32>> {
        match &self.what {
            What::Score(candidates) => Some(candidates.iter().map(|candidate| candidate.target).collect()),
            What::Classify(_) | What::Tag(_) => None,
        }
    }

    /// The highest index of a target in it.
    pub(super) fn highest_target(&self) -> Option<u32> {
        match &self.what {
            What::Score(candidates) => candidates.iter().map(|candidate| candidate.target).max(),
            What::Classify(failure) => Some(failure.target),
            What::Tag(answer) => answer.attempts.iter().map(|a| a.target).chain(answer.served).max(),
        }
    }
}

/// Reads one of a closed set by its spelling.
pub(super) fn spelled<'de, D: Deserializer<'de>, T: Copy + Display>(
    from: D,
    all: &[T],
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    all.iter().copied().find(|value| value.to_string() == text).ok_or_else(|| {
        let known: Vec<String> = all.iter().map(|value| format!("`{value}`")).collect();
        D::Error::custom(format!("expected one of {}; got `{text}`", known.join(", ")))
    })
}

macro_rules! spellings {
    ($($name:ident: $of:ty,)+) => {
        $(
            /// By its spelling.
            #[derive(Debug, Clone, Copy, PartialEq)]
            pub(super) struct $name(pub $of);

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    spelled(from, <$of>::ALL).map(Self)
                }
            }
        )+
    };
}

spellings! {
    Kind: FailureKind,
    AtStage: Stage,
    Transport: TransportError,
    Ended: Outcome,
}

#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
enum Breaker {
    Closed,
    HalfOpen,
    Open,
}

#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Head,
    Record,
}

/// `target-facts`; its index is its position.
#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Target {
    upstream: Option<String>,
    model: Option<String>,
    places: Option<Vec<Place>>,
    price_input: Option<f64>,
    price_output: Option<f64>,
    context: Option<u32>,
    capabilities: Option<Vec<String>>,
    region: Option<String>,
    attributes: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    route: String,
    position: u32,
    #[serde(default = "one")]
    weight: f64,
}

fn one() -> f64 {
    1.0
}

impl Target {
    pub(super) fn facts(self, index: u32) -> facts::TargetFacts {
        let place = |place: Place| facts::Place {
            route: place.route,
            position: place.position,
            weight: place.weight,
        };
        let chat = || vec![facts::Place { route: "chat".to_owned(), position: index, weight: 1.0 }];
        facts::TargetFacts {
            index,
            upstream: self.upstream.unwrap_or_else(|| format!("up{index}")),
            model: self.model.unwrap_or_else(|| "model".to_owned()),
            places: self.places.map_or_else(chat, |places| places.into_iter().map(place).collect()),
            price_input: self.price_input,
            price_output: self.price_output,
            context: self.context,
            capabilities: self.capabilities,
            region: self.region,
            attributes: self.attributes,
        }
    }
}

/// `request-facts`; `extra` is empty in this version of the contract.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Request {
    id: String,
    model: String,
    task: Option<String>,
    caller: Option<String>,
    input_tokens: u32,
    max_output_tokens: Option<u32>,
    streaming: bool,
    tools: bool,
    images: bool,
    json_output: bool,
    messages: u32,
    affinity: Option<u64>,
    headers: Vec<(String, String)>,
    attempt: u32,
    budget_left_ms: u32,
    now_ms: u64,
    seed: u64,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            id: "case-1".to_owned(),
            model: "chat".to_owned(),
            task: None,
            caller: None,
            input_tokens: 100,
            max_output_tokens: None,
            streaming: false,
            tools: false,
            images: false,
            json_output: false,
            messages: 1,
            affinity: None,
            headers: Vec::new(),
            attempt: 1,
            budget_left_ms: 30_000,
            now_ms: 1_700_000_000_000,
            seed: 42,
        }
    }
}

impl Request {
    fn facts(self) -> (facts::RequestFacts, Moment) {
        let moment =
            Moment { attempt: self.attempt, budget_left: ms(self.budget_left_ms), now_ms: self.now_ms };
        let facts = facts::RequestFacts {
            id: self.id.into(),
            model: self.model.into(),
            task: self.task,
            caller: self.caller.map(Into::into),
            input_tokens: self.input_tokens,
            max_output_tokens: self.max_output_tokens,
            streaming: self.streaming,
            tools: self.tools,
            images: self.images,
            json_output: self.json_output,
            messages: self.messages,
            affinity: self.affinity,
            headers: self.headers,
            seed: self.seed,
        };
        (facts, moment)
    }
}

fn ms(count: u32) -> Duration {
    Duration::from_millis(count.into())
}

/// `candidate`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Candidate {
    target: u32,
    #[serde(default = "one")]
    health: f64,
    #[serde(default)]
    samples: u32,
    latency_p50_ms: Option<f64>,
    latency_p95_ms: Option<f64>,
    first_content_p50_ms: Option<f64>,
    first_content_p95_ms: Option<f64>,
    #[serde(default)]
    in_flight: u32,
    #[serde(default = "capacity")]
    capacity: u32,
    quota_left: Option<f64>,
    #[serde(default)]
    cool_down_ms: u32,
    breaker: Option<Breaker>,
    #[serde(default)]
    failures: u32,
    #[serde(default)]
    tried: bool,
}

fn capacity() -> u32 {
    256
}

impl Candidate {
    fn facts(self) -> facts::Candidate {
        facts::Candidate {
            target: self.target,
            health: self.health,
            samples: self.samples,
            latency_p50_ms: self.latency_p50_ms,
            latency_p95_ms: self.latency_p95_ms,
            first_content_p50_ms: self.first_content_p50_ms,
            first_content_p95_ms: self.first_content_p95_ms,
            in_flight: self.in_flight,
            capacity: self.capacity,
            quota_left: self.quota_left,
            cool_down_ms: self.cool_down_ms,
            breaker: match self.breaker {
                None | Some(Breaker::Closed) => BreakerState::Closed,
                Some(Breaker::HalfOpen) => BreakerState::HalfOpen,
                Some(Breaker::Open) => BreakerState::Open,
            },
            failures: self.failures,
            tried: self.tried,
        }
    }
}

/// `failure-facts`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    #[serde(default)]
    target: u32,
    stage: Option<AtStage>,
    transport_error: Option<Transport>,
    status: Option<u16>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    error_type: Option<String>,
    error_code: Option<String>,
    #[serde(default)]
    body: String,
    retry_after_ms: Option<u32>,
    #[serde(default = "elapsed")]
    elapsed_ms: u32,
    #[serde(default)]
    other_credential: bool,
}

fn elapsed() -> u32 {
    25
}

impl Failure {
    fn facts(self) -> facts::FailureFacts {
        // An answer with a status has a body; without one, nothing came of the connection.
        let usual = if self.status.is_some() { Stage::Body } else { Stage::Connect };
        facts::FailureFacts {
            target: self.target,
            stage: self.stage.map_or(usual, |stage| stage.0),
            transport_error: self.transport_error.map(|error| error.0),
            status: self.status,
            headers: self.headers,
            error_type: self.error_type,
            error_code: self.error_code,
            body: self.body,
            retry_after: self.retry_after_ms.map(ms),
            elapsed: ms(self.elapsed_ms),
            other_credential: self.other_credential,
        }
    }
}

/// `attempt-facts`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    #[serde(default)]
    target: u32,
    kind: Option<Kind>,
    status: Option<u16>,
    #[serde(default = "elapsed")]
    ms: u32,
}

/// `usage`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Usage {
    input: u64,
    output: u64,
    #[serde(default)]
    estimated: bool,
}

/// `answer-facts`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Answer {
    phase: Phase,
    served: Option<u32>,
    degraded: bool,
    failure_kind: Option<Kind>,
    attempts: Vec<Attempt>,
    latency_ms: u32,
    first_content_ms: Option<u32>,
    duration_ms: Option<u32>,
    status: u16,
    outcome: Option<Ended>,
    error_code: Option<String>,
    usage: Option<Usage>,
    max_tokens_lowered: Option<u32>,
    policy: String,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            phase: Phase::Head,
            served: Some(0),
            degraded: false,
            failure_kind: None,
            attempts: vec![Attempt { target: 0, kind: None, status: Some(200), ms: 25 }],
            latency_ms: 26,
            first_content_ms: None,
            duration_ms: None,
            status: 200,
            outcome: None,
            error_code: None,
            usage: None,
            max_tokens_lowered: None,
            policy: "g1 router=weighted-router@00000000".to_owned(),
        }
    }
}

impl Answer {
    fn facts(self) -> facts::AnswerFacts {
        let attempt = |attempt: Attempt| facts::AttemptFacts {
            target: attempt.target,
            kind: attempt.kind.map(|kind| kind.0),
            status: attempt.status,
            took: ms(attempt.ms),
        };
        let usage = |usage: Usage| facts::Usage {
            input: usage.input,
            output: usage.output,
            estimated: usage.estimated,
        };
        facts::AnswerFacts {
            phase: match self.phase {
                Phase::Head => TagPhase::Head,
                Phase::Record => TagPhase::Record,
            },
            served: self.served,
            degraded: self.degraded,
            failure_kind: self.failure_kind.map(|kind| kind.0),
            attempts: self.attempts.into_iter().map(attempt).collect(),
            latency: ms(self.latency_ms),
            first_content: self.first_content_ms.map(ms),
            duration: self.duration_ms.map(ms),
            status: self.status,
            outcome: self.outcome.map(|outcome| outcome.0),
            error_code: self.error_code,
            usage: self.usage.map(usage),
            max_tokens_lowered: self.max_tokens_lowered,
            policy: self.policy,
        }
    }
}
