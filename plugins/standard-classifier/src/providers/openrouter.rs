//! OpenRouter, whose codes are the statuses of the providers behind it.

use sluice_sdk::FailureKind::{ContentFiltered, ContextLengthExceeded, ModelUnavailable, QuotaExhausted};

use super::Provider;
use super::Words::{Begins, Contains, Ends};

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[],
    words: &[
        (Contains("your input was flagged"), ContentFiltered),
        (Contains("requires moderation"), ContentFiltered),
        (Begins("this request requires more credits"), QuotaExhausted),
        (Begins("this endpoint's maximum context length"), ContextLengthExceeded),
        (Ends("is not a valid model id"), ModelUnavailable),
        (Begins("no endpoints found"), ModelUnavailable),
        (Begins("no allowed providers are available"), ModelUnavailable),
    ],
};
