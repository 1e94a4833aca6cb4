//! Google: Gemini and Vertex AI. The name is the `status` of the body, or a `reason` among its details.

use std::borrow::Cow;

use sluice_sdk::FailureKind;

use sluice_sdk::FailureKind::{
    AuthDenied, ContentFiltered, ContextLengthExceeded, QuotaExhausted, RetryableRateLimit, RetryableTimeout,
};

use super::Name::{BadRequest, Exact};
use super::Provider;
use super::Words::{Begins, Contains};

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[
        ("RESOURCE_EXHAUSTED", Exact(RetryableRateLimit)),
        ("DEADLINE_EXCEEDED", Exact(RetryableTimeout)),
        ("API_KEY_INVALID", Exact(AuthDenied)),
        ("API_KEY_EXPIRED", Exact(AuthDenied)),
        ("API_KEY_SERVICE_BLOCKED", Exact(AuthDenied)),
        ("SERVICE_DISABLED", Exact(AuthDenied)),
        ("ACCESS_TOKEN_EXPIRED", Exact(AuthDenied)),
        ("CONSUMER_SUSPENDED", Exact(AuthDenied)),
        ("BILLING_DISABLED", Exact(QuotaExhausted)),
        ("PROHIBITED_CONTENT", Exact(ContentFiltered)),
        ("INVALID_ARGUMENT", BadRequest),
        ("FAILED_PRECONDITION", BadRequest),
        ("OUT_OF_RANGE", BadRequest),
    ],
    words: &[
        (Begins("the input token count"), ContextLengthExceeded),
        (Contains("exceeds the maximum number of tokens"), ContextLengthExceeded),
        (Begins("api key not valid"), AuthDenied),
        // The place of the gateway is not allowed, which is no fault of the request.
        (Begins("user location is not supported"), AuthDenied),
    ],
};

/// A quota for the day is used up. It has the same status, and even the same message, as a limit for the
/// minute; only the id of the quota tells them apart.
pub fn daily_quota(names: &[Cow<'_, str>]) -> Option<FailureKind> {
    let exhausted = names.iter().any(|name| super::same_name(name, "RESOURCE_EXHAUSTED"));
    let daily = names.iter().any(|name| name.to_ascii_lowercase().contains("perday"));
    (exhausted && daily).then_some(QuotaExhausted)
}
