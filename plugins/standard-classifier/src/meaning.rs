//! From evidence to kind.
//!
//! In this order, the first that says something:
//! 1. trouble below HTTP, unless a head with an error status had come;
//! 2. a name that means one kind, which outranks the status: providers send quota errors as 429, bad keys
//!    as 400, and rate limits as 500;
//! 3. for a 2xx or 5xx, a name that says "bad request" in general, then a status given as a code;
//! 4. words of the message, where the status leaves several kinds open;
//! 5. the status.

use sluice_sdk::FailureKind;

use crate::evidence::{Evidence, Transport};
use crate::providers::{self, Name};
use crate::status;

/// What a failure was.
pub fn kind(evidence: &Evidence<'_>) -> FailureKind {
    let refused = evidence.status.and_then(status::kind);
    match (evidence.transport, refused) {
        (Some(Transport::Timeout), None) => return FailureKind::RetryableTimeout,
        (Some(Transport::Broken), None) => return FailureKind::RetryableUpstream,
        _ => {}
    }
    let named = named(evidence);
    if let Some(Name::Exact(kind)) = named {
        return kind;
    }
    // A 4xx is taken at its word. A 2xx or 5xx is the word of a proxy or of a status line that was sent too
    // early, and what is inside knows better.
    let told = match evidence.status {
        Some(400..=499) => refused,
        _ if named == Some(Name::BadRequest) => Some(FailureKind::InvalidRequest),
        _ => evidence.inner_status.and_then(status::kind).or(refused),
    };
    let kind = told.unwrap_or(FailureKind::RetryableUpstream);
    providers::by_words(kind, evidence).unwrap_or(kind)
}

/// What the names say together: the first exact one, else that it was a bad request.
fn named(evidence: &Evidence<'_>) -> Option<Name> {
    if let Some(kind) = providers::google::daily_quota(&evidence.names) {
        return Some(Name::Exact(kind));
    }
    let known = || evidence.names.iter().filter_map(|name| providers::by_name(name));
    known().find(|name| matches!(name, Name::Exact(_))).or_else(|| known().next())
}
