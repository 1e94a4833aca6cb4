//! For unit tests of a plugin, which run natively: plain facts to start from, the host's way to configure,
//! and the lines that were logged.
//!
//! Facts are meant for struct update: `RequestFacts { streaming: true, ..testing::request() }`.

use std::cell::RefCell;

use crate::log::Level;
use crate::{
    AnswerFacts, BreakerState, Candidate, FailureFacts, Phase, Place, Plugin, RequestFacts, Router, Stage,
    TargetFacts, settings,
};

/// Lines kept for one test thread; further ones are dropped, as the gateway would.
const MAX_LINES: usize = 1024;

thread_local! {
    static LINES: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn record(level: Level, message: &str) {
    LINES.with_borrow_mut(|lines| {
        if lines.len() < MAX_LINES {
            lines.push((level, message.to_owned()));
        }
    });
}

/// Takes the lines this thread has logged since the last call.
pub fn logged() -> Vec<(Level, String)> {
    LINES.take()
}

/// Configures a plugin from JSON, as the gateway does.
///
/// # Errors
/// The text an operator would see.
pub fn configure<T: Plugin>(settings: &str, targets: Vec<TargetFacts>) -> Result<T, String> {
    T::configure(settings::read(settings)?, targets)
}

/// The targets in the order the gateway would try them: by score, equal ones as they came, excluded ones left out.
///
/// # Panics
/// There is not exactly one vote for each candidate, or a score is not from 0 to 1: the gateway would refuse the
/// answer.
pub fn order<T: Router>(router: &T, request: &RequestFacts, candidates: &[Candidate]) -> Vec<u32> {
    let votes = router.score(request, candidates);
    assert_eq!(votes.len(), candidates.len(), "expected one vote for each candidate, got {votes:?}");
    let mut scored: Vec<(f64, u32)> = Vec::with_capacity(votes.len());
    for (candidate, vote) in candidates.iter().zip(votes) {
        if let Some(score) = vote.score {
            assert!(
                (0.0..=1.0).contains(&score),
                "expected a score of 0 to 1, got {score} for {candidate:?}"
            );
            scored.push((score, candidate.target));
        }
    }
    scored.sort_by(|one, next| next.0.total_cmp(&one.0));
    scored.into_iter().map(|(_, target)| target).collect()
}

/// A target `upstream/model` of the route `chat`, at the position of its index; nothing else is known.
pub fn target(index: u32, upstream: &str, model: &str) -> TargetFacts {
    TargetFacts {
        index,
        upstream: upstream.to_owned(),
        model: model.to_owned(),
        places: vec![Place { route: "chat".to_owned(), position: index, weight: 1.0 }],
        price_input: None,
        price_output: None,
        context: None,
        capabilities: None,
        region: None,
        attributes: Vec::new(),
    }
}

/// A short plain request for the route `chat`, before its first attempt.
pub fn request() -> RequestFacts {
    RequestFacts {
        id: "test-1".to_owned(),
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
        extra: Vec::new(),
    }
}

/// An idle, healthy candidate that was never measured.
pub fn candidate(target: u32) -> Candidate {
    Candidate {
        target,
        health: 1.0,
        samples: 0,
        latency_p50_ms: None,
        latency_p95_ms: None,
        first_content_p50_ms: None,
        first_content_p95_ms: None,
        in_flight: 0,
        capacity: 256,
        quota_left: None,
        cool_down_ms: 0,
        breaker: BreakerState::Closed,
        failures: 0,
        tried: false,
    }
}

/// A failure of target 0 with an answer of this status and nothing in it.
pub fn failure(status: u16) -> FailureFacts {
    FailureFacts {
        target: 0,
        stage: Stage::Body,
        transport_error: None,
        status: Some(status),
        headers: Vec::new(),
        error_type: None,
        error_code: None,
        body: String::new(),
        retry_after_ms: None,
        elapsed_ms: 25,
        other_credential: false,
    }
}

/// The head of a 200 that target 0 serves at the first attempt.
pub fn answer() -> AnswerFacts {
    AnswerFacts {
        phase: Phase::Head,
        served: Some(0),
        degraded: false,
        failure_kind: None,
        attempts: vec![crate::AttemptFacts { target: 0, kind: None, status: Some(200), ms: 25 }],
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
