//! The records of the contract as JSON, with a plain default for every field.

mod asked;

use std::time::Duration;

use serde::Deserialize;
use sluice_core::facts::{self, Moment};

pub(super) use asked::{Answer, Candidate, Failure, Kind};

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
