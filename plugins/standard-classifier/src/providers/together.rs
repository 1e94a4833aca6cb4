//! Together and Fireworks.

use sluice_sdk::FailureKind::{ContextLengthExceeded, ModelUnavailable, QuotaExhausted, RetryableRateLimit};

use super::Name::Exact;
use super::Provider;
use super::Words::{Begins, Contains, Frames};

/// What they say.
pub const SAYS: Provider = Provider {
    names: &[
        ("credit_limit", Exact(QuotaExhausted)),
        ("credit_limit_exceeded", Exact(QuotaExhausted)),
        ("dynamic_request_limited", Exact(RetryableRateLimit)),
        ("dynamic_token_limited", Exact(RetryableRateLimit)),
        ("model_not_deployed", Exact(ModelUnavailable)),
    ],
    words: &[
        (Begins("unable to access model"), ModelUnavailable),
        (Begins("unable to access non-serverless model"), ModelUnavailable),
        (Begins("credit limit exceeded"), QuotaExhausted),
        (Frames("account ", " is suspended"), QuotaExhausted),
        (Contains("`inputs` tokens + `max_new_tokens` must be"), ContextLengthExceeded),
        (Contains("model maximum context length"), ContextLengthExceeded),
    ],
};
