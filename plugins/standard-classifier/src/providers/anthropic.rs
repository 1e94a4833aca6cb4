//! Anthropic, by way of its OpenAI-shaped interface or of a proxy.

use sluice_sdk::FailureKind::{ContentFiltered, ContextLengthExceeded, QuotaExhausted, RetryableUpstream};

use super::Name::{BadRequest, Exact};
use super::Provider;
use super::Words::{Begins, Contains};

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[
        ("billing_error", Exact(QuotaExhausted)),
        ("overloaded_error", Exact(RetryableUpstream)),
        // Too many bytes, which says nothing about the context of the model.
        ("request_too_large", BadRequest),
    ],
    words: &[
        (Begins("your credit balance is too low"), QuotaExhausted),
        (Contains("exceed context limit"), ContextLengthExceeded),
        (Begins("output blocked by content filtering policy"), ContentFiltered),
    ],
};
