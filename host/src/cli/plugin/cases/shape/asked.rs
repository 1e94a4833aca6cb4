//! What changes from question to question: candidates of a router, the failure of a classifier, the answer of a
//! tagger.

use std::fmt::Display;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sluice_core::facts::{self, BreakerState, TagPhase};
use sluice_core::kind::{FailureKind, Outcome, Stage, TransportError};

use super::ms;

/// Reads one of a closed set by its spelling.
fn spelled<'de, D: Deserializer<'de>, T: Copy + Display>(from: D, all: &[T]) -> Result<T, D::Error> {
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
            pub struct $name(pub $of);

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

/// `candidate`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    target: u32,
    #[serde(default = "super::one")]
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
    pub(super) fn facts(self) -> facts::Candidate {
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
pub struct Failure {
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
    pub(super) fn facts(self) -> facts::FailureFacts {
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
pub struct Answer {
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
    pub(super) fn facts(self) -> facts::AnswerFacts {
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
            policy: self.policy.into(),
        }
    }
}
