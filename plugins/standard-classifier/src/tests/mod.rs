#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation ends the test")]

mod bodies;
mod providers;
mod verdicts;

use serde_json::Value;
use sluice_sdk::{Classifier, FailureFacts, FailureKind, Stage, Verdict, testing};

use crate::StandardClassifier;

/// A failure with an answer, with `type` and `code` read from its error object as the gateway does.
fn answer(status: u16, body: &str) -> FailureFacts {
    let json: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let error = json.get("error").cloned().unwrap_or(Value::Null);
    let text = |name: &str| match error.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    FailureFacts {
        error_type: text("type"),
        error_code: text("code"),
        body: body.to_owned(),
        ..testing::failure(status)
    }
}

/// A failure below HTTP, before any head.
fn broken(stage: Stage, error: &str) -> FailureFacts {
    FailureFacts { stage, status: None, transport_error: Some(error.to_owned()), ..testing::failure(0) }
}

fn classify_with(settings: &str, failure: &FailureFacts) -> Verdict {
    let classifier: StandardClassifier = testing::configure(settings, Vec::new()).unwrap();
    let verdict = classifier.classify(&testing::request(), failure).unwrap();
    assert_eq!(verdict.client_status, None, "the status of the kind is the host's");
    verdict
}

fn classify(failure: &FailureFacts) -> Verdict {
    classify_with("{}", failure)
}

#[track_caller]
fn assert_kind(what: &str, failure: &FailureFacts, kind: FailureKind) {
    assert_eq!(classify(failure).kind, kind, "{what}: {} {}", failure.status.unwrap_or(0), failure.body);
}

/// What it is, status, body, kind.
type Case = (&'static str, u16, &'static str, FailureKind);

#[track_caller]
fn assert_all(cases: &[Case]) {
    for (what, status, body, kind) in cases {
        assert_kind(what, &answer(*status, body), *kind);
    }
}
