//! Sample calls that every plugin has to answer before it decides anything: nothing, one and many
//! candidates; a failure at every stage; an answer and an error in both phases.

use std::time::Duration;

use sluice_core::facts::{
    AnswerFacts, AttemptFacts, BreakerState, Candidate, FailureFacts, Moment, PluginKind, RequestFacts,
    TagPhase, TargetFacts, Usage,
};
use sluice_core::kind::{FailureKind, Outcome, Stage, TransportError};

use super::call::{Ask, CallError};
use super::instance::Instance;
use super::rejection::Rejection;
use crate::clock;

/// As many candidates as a route can have targets.
const MANY: usize = 128;
/// As much of an error body as a classifier can see.
const BODY: usize = 4096;

/// Asks an instance every sample question of `kinds`.
///
/// # Errors
/// The first question that was not answered as the contract allows.
pub async fn probe(
    instance: &mut Instance,
    kinds: &[PluginKind],
    targets: &[TargetFacts],
    deadline: Duration,
) -> Result<(), Rejection> {
    let request = request(targets);
    let moment = moment();
    let targets = targets.len().max(1);
    if kinds.contains(&PluginKind::Router) {
        for count in [0, 1, MANY] {
            let candidates: Vec<Candidate> = (0..count).map(|at| candidate(at % targets, at)).collect();
            ask(instance, Ask::Score(&request, moment, &candidates), deadline, || {
                format!("{count} candidates")
            })
            .await?;
        }
    }
    if kinds.contains(&PluginKind::Classifier) {
        for failure in failures() {
            let sample = || format!("a failure at stage {}", failure.stage);
            ask(instance, Ask::Classify(&request, moment, &failure), deadline, sample).await?;
        }
    }
    if kinds.contains(&PluginKind::Tagger) {
        for answer in answers() {
            let sample = || {
                let phase = if answer.phase == TagPhase::Head { "head" } else { "record" };
                format!("{phase} of an answer with status {}", answer.status)
            };
            ask(instance, Ask::Tag(&request, moment, &answer), deadline, sample).await?;
        }
    }
    Ok(())
}

async fn ask(
    instance: &mut Instance,
    question: Ask<'_>,
    deadline: Duration,
    sample: impl Fn() -> String,
) -> Result<(), Rejection> {
    let said = instance.ask(question, deadline, clock::now()).await;
    let told = |error: CallError| Rejection::Probe { sample: sample(), error };
    said.map(drop).map_err(told)
}

/// The request of every sample.
pub fn request(targets: &[TargetFacts]) -> RequestFacts {
    let route =
        targets.first().and_then(|target| target.places.first()).map_or("sample", |place| &place.route);
    RequestFacts {
        id: "sample-request".into(),
        model: route.into(),
        task: Some("summary".into()),
        caller: None,
        input_tokens: 1200,
        max_output_tokens: Some(256),
        streaming: true,
        tools: true,
        images: false,
        json_output: false,
        messages: 3,
        affinity: Some(7),
        headers: Vec::new(),
        seed: 42,
    }
}

/// When every sample happens.
pub fn moment() -> Moment {
    Moment { attempt: 1, budget_left: Duration::from_secs(30), now_ms: 1_800_000_000_000 }
}

/// One of many candidates.
pub fn candidate(target: usize, at: usize) -> Candidate {
    // Known and unknown numbers take turns, so that a plugin meets both.
    let known = at.is_multiple_of(2);
    let some = |value: f64| known.then_some(value);
    Candidate {
        target: u32::try_from(target).unwrap_or(0),
        health: if known { 0.5 } else { 1.0 },
        samples: if known { 40 } else { 0 },
        latency_p50_ms: some(420.0),
        latency_p95_ms: some(1800.0),
        first_content_p50_ms: some(200.0),
        first_content_p95_ms: some(900.0),
        in_flight: 3,
        capacity: 256,
        quota_left: some(0.25),
        cool_down_ms: 0,
        breaker: BreakerState::Closed,
        failures: u32::from(known),
        tried: at == 1,
    }
}

/// One at every stage.
pub fn failures() -> impl Iterator<Item = FailureFacts> {
    let blank = FailureFacts {
        target: 0,
        stage: Stage::Connect,
        transport_error: None,
        status: None,
        headers: Vec::new(),
        error_type: None,
        error_code: None,
        body: String::new(),
        retry_after: None,
        elapsed: Duration::from_millis(800),
        other_credential: false,
    };
    let answered = |stage, status, body: String| FailureFacts {
        stage,
        status: Some(status),
        headers: vec![("content-type".into(), "application/json".into()), ("retry-after".into(), "7".into())],
        error_type: Some("rate_limit_error".into()),
        error_code: Some("429".into()),
        body,
        retry_after: Some(Duration::from_secs(7)),
        other_credential: true,
        ..blank.clone()
    };
    [
        FailureFacts { transport_error: Some(TransportError::Refused), ..blank.clone() },
        FailureFacts { stage: Stage::Head, transport_error: Some(TransportError::Timeout), ..blank.clone() },
        answered(Stage::Body, 429, "x".repeat(BODY)),
        answered(Stage::Body, 500, "<html>".into()),
        answered(Stage::FirstEvent, 200, String::new()),
        FailureFacts {
            stage: Stage::Stream,
            transport_error: Some(TransportError::Closed),
            status: Some(200),
            ..blank
        },
    ]
    .into_iter()
}

/// One that is served and one that is not, in both phases.
pub fn answers() -> impl Iterator<Item = AnswerFacts> {
    [TagPhase::Head, TagPhase::Record].into_iter().flat_map(|phase| {
        let ended = phase == TagPhase::Record;
        let attempt =
            |target, kind, status| AttemptFacts { target, kind, status, took: Duration::from_millis(250) };
        let served = AnswerFacts {
            phase,
            served: Some(0),
            degraded: true,
            failure_kind: Some(FailureKind::RetryableTimeout),
            attempts: vec![
                attempt(0, Some(FailureKind::RetryableTimeout), None),
                attempt(0, None, Some(200)),
            ],
            latency: Duration::from_millis(512),
            first_content: ended.then_some(Duration::from_millis(512)),
            duration: ended.then_some(Duration::from_secs(2)),
            status: 200,
            outcome: ended.then_some(Outcome::FallbackSuccess),
            error_code: None,
            usage: ended.then_some(Usage { input: 1200, output: 80, estimated: false }),
            max_tokens_lowered: Some(128),
            policy: "g1 router=sample@00000000".into(),
        };
        let error = AnswerFacts {
            served: None,
            degraded: false,
            failure_kind: None,
            attempts: Vec::new(),
            first_content: None,
            status: 503,
            outcome: Some(Outcome::Exhausted),
            error_code: Some("no_healthy_target".into()),
            usage: None,
            max_tokens_lowered: None,
            ..served.clone()
        };
        [served, error]
    })
}
