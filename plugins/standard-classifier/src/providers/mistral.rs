//! Mistral, whose codes are numbers of its own that are no statuses.

use sluice_sdk::FailureKind::{ContextLengthExceeded, ModelUnavailable, RetryableRateLimit};

use super::Name::{BadRequest, Exact};
use super::Provider;
use super::Words::{Begins, Frames};

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[
        ("service_tier_capacity_exceeded", Exact(RetryableRateLimit)),
        ("invalid_request_prompt", BadRequest),
        ("invalid_request_message_order", BadRequest),
    ],
    words: &[
        (Frames("prompt contains ", "too large for model"), ContextLengthExceeded),
        (Begins("invalid model"), ModelUnavailable),
    ],
};
