//! Contract 0.1: the host's own types to its bindings and back. Text and lists are lent, not copied.

use std::time::Duration;

use sluice_core::facts::{self as core, PluginKind};
use sluice_core::kind::{FailureKind, Stage};
use sluice_core::verdict as decided;
use wasmtime::Store;
use wasmtime::component::{HasSelf, Instance, InstancePre, Linker};

use self::bindings::exports::sluice::policy::{classifier, plugin, router, tagger};
use self::bindings::sluice::policy::{log, types};
use super::Description;
use crate::clock::whole_ms;
use crate::plugin::call::{Ask, Said};
use crate::plugin::state::State;
use crate::plugin::watch::LogLevel;

mod bindings {
    #![allow(clippy::pedantic, reason = "generated")]
    wasmtime::component::bindgen!({
        path: "../wit/0.1.0",
        world: "policy-plugin",
        exports: { default: async },
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}

/// Defines the `log` import.
pub fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    log::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl log::Host for State {
    fn log(&mut self, level: log::Level, message: String) {
        let level = match level {
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        State::log(self, level, &message);
    }
}

/// The exports of a component, found and checked for their shape.
pub struct Exports {
    plugin: plugin::GuestIndices,
    router: Option<router::GuestIndices>,
    classifier: Option<classifier::GuestIndices>,
    tagger: Option<tagger::GuestIndices>,
}

impl Exports {
    /// Finds the exports of `kinds`.
    pub fn find(pre: &InstancePre<State>, kinds: &[PluginKind]) -> wasmtime::Result<Self> {
        let has = |kind| kinds.contains(&kind);
        Ok(Self {
            plugin: plugin::GuestIndices::new(pre)?,
            router: has(PluginKind::Router).then(|| router::GuestIndices::new(pre)).transpose()?,
            classifier: has(PluginKind::Classifier)
                .then(|| classifier::GuestIndices::new(pre))
                .transpose()?,
            tagger: has(PluginKind::Tagger).then(|| tagger::GuestIndices::new(pre)).transpose()?,
        })
    }

    /// The same exports in an instance.
    pub fn load(&self, store: &mut Store<State>, instance: &Instance) -> wasmtime::Result<Guest> {
        Ok(Guest {
            plugin: self.plugin.load(&mut *store, instance)?,
            router: self.router.as_ref().map(|found| found.load(&mut *store, instance)).transpose()?,
            classifier: self
                .classifier
                .as_ref()
                .map(|found| found.load(&mut *store, instance))
                .transpose()?,
            tagger: self.tagger.as_ref().map(|found| found.load(&mut *store, instance)).transpose()?,
            candidates: Vec::new(),
            attempts: Vec::new(),
        })
    }
}

/// An instance that can be asked.
pub struct Guest {
    plugin: plugin::Guest,
    router: Option<router::Guest>,
    classifier: Option<classifier::Guest>,
    tagger: Option<tagger::Guest>,
    /// Kept between calls for its capacity.
    candidates: Vec<router::Candidate>,
    /// As well.
    attempts: Vec<tagger::AttemptFacts>,
}

impl Guest {
    /// Calls `describe`.
    pub async fn describe(&self, store: &mut Store<State>) -> wasmtime::Result<Description> {
        let plugin::Description { name, version, tags_head, tags_record } =
            self.plugin.call_describe(store).await?;
        Ok(Description { name, version, tags_head, tags_record })
    }

    /// Calls `configure`.
    pub async fn configure(
        &self,
        store: &mut Store<State>,
        settings: &str,
        targets: &[core::TargetFacts],
    ) -> wasmtime::Result<Result<(), String>> {
        let lent: Vec<LentTarget<'_>> = targets.iter().map(LentTarget::new).collect();
        let facts: Vec<types::TargetFacts<'_>> = targets.iter().zip(&lent).map(target).collect();
        self.plugin.call_configure(store, settings, &facts).await
    }

    /// Asks. Only kinds that were found are asked for; any other is answered with a trap.
    pub async fn ask(&mut self, store: &mut Store<State>, ask: Ask<'_>) -> wasmtime::Result<Said> {
        match ask {
            Ask::Score(facts, moment, candidates) => {
                let headers = pairs(&facts.headers);
                self.candidates.clear();
                self.candidates.extend(candidates.iter().map(candidate));
                let router = self.router.as_ref().ok_or(wasmtime::Trap::UnreachableCodeReached)?;
                let votes =
                    router.call_score(store, request(facts, moment, &headers), &self.candidates).await?;
                Ok(Said::Votes(
                    votes
                        .into_iter()
                        .map(|vote| core::Vote { score: vote.score, reason: vote.reason })
                        .collect(),
                ))
            }
            Ask::Classify(facts, moment, failure) => {
                let (headers, of_answer) = (pairs(&facts.headers), pairs(&failure.headers));
                let classifier = self.classifier.as_ref().ok_or(wasmtime::Trap::UnreachableCodeReached)?;
                let lent = failure_facts(failure, &of_answer);
                let said = classifier.call_classify(store, request(facts, moment, &headers), lent).await?;
                Ok(Said::Verdict(said.map(|said| verdict(&said))))
            }
            Ask::Tag(facts, moment, answer) => {
                let headers = pairs(&facts.headers);
                self.attempts.clear();
                self.attempts.extend(answer.attempts.iter().map(attempt));
                let tagger = self.tagger.as_ref().ok_or(wasmtime::Trap::UnreachableCodeReached)?;
                let lent = answer_facts(answer, &self.attempts);
                let tags = tagger.call_tag(store, request(facts, moment, &headers), lent).await?;
                Ok(Said::Tags(tags.into_iter().map(tag).collect()))
            }
        }
    }
}

/// The lists of one target, lent.
struct LentTarget<'a> {
    places: Vec<types::Place<'a>>,
    capabilities: Option<Vec<&'a str>>,
    attributes: Vec<(&'a str, &'a str)>,
}

impl<'a> LentTarget<'a> {
    fn new(target: &'a core::TargetFacts) -> Self {
        let place = |place: &'a core::Place| types::Place {
            route: &place.route,
            position: place.position,
            weight: place.weight,
        };
        Self {
            places: target.places.iter().map(place).collect(),
            capabilities: target.capabilities.as_ref().map(|list| list.iter().map(String::as_str).collect()),
            attributes: pairs(&target.attributes),
        }
    }
}

fn target<'a>((target, lent): (&'a core::TargetFacts, &'a LentTarget<'a>)) -> types::TargetFacts<'a> {
    types::TargetFacts {
        index: target.index,
        upstream: &target.upstream,
        model: &target.model,
        places: &lent.places,
        price_input: target.price_input,
        price_output: target.price_output,
        context: target.context,
        capabilities: lent.capabilities.as_deref(),
        region: target.region.as_deref(),
        attributes: &lent.attributes,
    }
}

fn pairs(list: &[(String, String)]) -> Vec<(&str, &str)> {
    list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn millis(time: Duration) -> u32 {
    u32::try_from(whole_ms(time)).unwrap_or(u32::MAX)
}

fn request<'a>(
    facts: &'a core::RequestFacts,
    moment: core::Moment,
    headers: &'a [(&'a str, &'a str)],
) -> types::RequestFacts<'a> {
    types::RequestFacts {
        id: &facts.id,
        model: &facts.model,
        task: facts.task.as_deref(),
        caller: facts.caller.as_deref(),
        input_tokens: facts.input_tokens,
        max_output_tokens: facts.max_output_tokens,
        streaming: facts.streaming,
        tools: facts.tools,
        images: facts.images,
        json_output: facts.json_output,
        messages: facts.messages,
        affinity: facts.affinity,
        headers,
        attempt: moment.attempt,
        budget_left_ms: millis(moment.budget_left),
        now_ms: moment.now_ms,
        seed: facts.seed,
        extra: &[],
    }
}

fn candidate(facts: &core::Candidate) -> router::Candidate {
    router::Candidate {
        target: facts.target,
        health: facts.health,
        samples: facts.samples,
        latency_p50_ms: facts.latency_p50_ms,
        latency_p95_ms: facts.latency_p95_ms,
        first_content_p50_ms: facts.first_content_p50_ms,
        first_content_p95_ms: facts.first_content_p95_ms,
        in_flight: facts.in_flight,
        capacity: facts.capacity,
        quota_left: facts.quota_left,
        cool_down_ms: facts.cool_down_ms,
        breaker: match facts.breaker {
            core::BreakerState::Closed => types::BreakerState::Closed,
            core::BreakerState::HalfOpen => types::BreakerState::HalfOpen,
            core::BreakerState::Open => types::BreakerState::Open,
        },
        failures: facts.failures,
        tried: facts.tried,
    }
}

fn failure_facts<'a>(
    failure: &'a core::FailureFacts,
    headers: &'a [(&'a str, &'a str)],
) -> classifier::FailureFacts<'a> {
    classifier::FailureFacts {
        target: failure.target,
        stage: match failure.stage {
            Stage::Connect => classifier::Stage::Connect,
            Stage::Head => classifier::Stage::Head,
            Stage::Body => classifier::Stage::Body,
            Stage::FirstEvent => classifier::Stage::FirstEvent,
            Stage::Stream => classifier::Stage::Stream,
        },
        transport_error: failure.transport_error.map(|error| error.as_str()),
        status: failure.status,
        headers,
        error_type: failure.error_type.as_deref(),
        error_code: failure.error_code.as_deref(),
        body: &failure.body,
        retry_after_ms: failure.retry_after.map(millis),
        elapsed_ms: millis(failure.elapsed),
        other_credential: failure.other_credential,
    }
}

fn verdict(said: &classifier::Verdict) -> decided::Verdict {
    let wait = |ms: u32| Duration::from_millis(ms.into());
    decided::Verdict {
        kind: kind_from(said.kind),
        action: match said.action {
            classifier::Action::GiveUp => decided::Action::GiveUp,
            classifier::Action::RetrySame(after) => decided::Action::RetrySame(after.map(wait)),
            classifier::Action::Switch => decided::Action::Switch,
        },
        breaker: match said.breaker {
            classifier::BreakerEffect::Count => decided::BreakerEffect::Count,
            classifier::BreakerEffect::Ignore => decided::BreakerEffect::Ignore,
            classifier::BreakerEffect::Open => decided::BreakerEffect::Open,
        },
        cool_down: said.cool_down_ms.map(wait),
        client_status: said.client_status,
    }
}

fn attempt(facts: &core::AttemptFacts) -> tagger::AttemptFacts {
    tagger::AttemptFacts {
        target: facts.target,
        kind: facts.kind.map(kind_to),
        status: facts.status,
        ms: millis(facts.took),
    }
}

fn answer_facts<'a>(
    answer: &'a core::AnswerFacts,
    attempts: &'a [tagger::AttemptFacts],
) -> tagger::AnswerFacts<'a> {
    tagger::AnswerFacts {
        phase: match answer.phase {
            core::TagPhase::Head => tagger::Phase::Head,
            core::TagPhase::Record => tagger::Phase::Record,
        },
        served: answer.served,
        degraded: answer.degraded,
        failure_kind: answer.failure_kind.map(kind_to),
        attempts,
        latency_ms: millis(answer.latency),
        first_content_ms: answer.first_content.map(millis),
        duration_ms: answer.duration.map(millis),
        status: answer.status,
        outcome: answer.outcome.map(|outcome| outcome.as_str()),
        error_code: answer.error_code.as_deref(),
        usage: answer.usage.map(|usage| tagger::Usage {
            input: usage.input,
            output: usage.output,
            estimated: usage.estimated,
        }),
        max_tokens_lowered: answer.max_tokens_lowered,
        policy: &answer.policy,
    }
}

fn tag(fact: tagger::Fact) -> core::Tag {
    core::Tag {
        name: fact.name,
        value: fact.value,
        sink: match fact.sink {
            tagger::Sink::Header => core::Sink::Header,
            tagger::Sink::Record => core::Sink::Record,
            tagger::Sink::Both => core::Sink::Both,
        },
    }
}

fn kind_to(kind: FailureKind) -> types::FailureKind {
    match kind {
        FailureKind::RetryableTimeout => types::FailureKind::RetryableTimeout,
        FailureKind::RetryableRateLimit => types::FailureKind::RetryableRateLimit,
        FailureKind::RetryableUpstream => types::FailureKind::RetryableUpstream,
        FailureKind::QuotaExhausted => types::FailureKind::QuotaExhausted,
        FailureKind::ModelUnavailable => types::FailureKind::ModelUnavailable,
        FailureKind::ContextLengthExceeded => types::FailureKind::ContextLengthExceeded,
        FailureKind::ContentFiltered => types::FailureKind::ContentFiltered,
        FailureKind::AuthDenied => types::FailureKind::AuthDenied,
        FailureKind::InvalidRequest => types::FailureKind::InvalidRequest,
        FailureKind::GatewaySaturated => types::FailureKind::GatewaySaturated,
    }
}

fn kind_from(kind: types::FailureKind) -> FailureKind {
    match kind {
        types::FailureKind::RetryableTimeout => FailureKind::RetryableTimeout,
        types::FailureKind::RetryableRateLimit => FailureKind::RetryableRateLimit,
        types::FailureKind::RetryableUpstream => FailureKind::RetryableUpstream,
        types::FailureKind::QuotaExhausted => FailureKind::QuotaExhausted,
        types::FailureKind::ModelUnavailable => FailureKind::ModelUnavailable,
        types::FailureKind::ContextLengthExceeded => FailureKind::ContextLengthExceeded,
        types::FailureKind::ContentFiltered => FailureKind::ContentFiltered,
        types::FailureKind::AuthDenied => FailureKind::AuthDenied,
        types::FailureKind::InvalidRequest => FailureKind::InvalidRequest,
        types::FailureKind::GatewaySaturated => FailureKind::GatewaySaturated,
    }
}
