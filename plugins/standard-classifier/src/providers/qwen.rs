//! Alibaba: Qwen on Model Studio (DashScope).

use sluice_sdk::FailureKind::{ContentFiltered, ContextLengthExceeded, QuotaExhausted, RetryableRateLimit};

use super::Name::Exact;
use super::Provider;
use super::Words::Begins;

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[
        ("data_inspection_failed", Exact(ContentFiltered)),
        ("Arrearage", Exact(QuotaExhausted)),
        ("Throttling", Exact(RetryableRateLimit)),
        ("Throttling.RateQuota", Exact(RetryableRateLimit)),
        ("Throttling.BurstRate", Exact(RetryableRateLimit)),
        ("Throttling.AllocationQuota", Exact(RetryableRateLimit)),
        ("AllocationQuota.FreeTierOnly", Exact(QuotaExhausted)),
    ],
    words: &[(Begins("range of input length should be"), ContextLengthExceeded)],
};
