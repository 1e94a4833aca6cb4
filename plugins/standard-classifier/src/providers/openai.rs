//! OpenAI.

use sluice_sdk::FailureKind::{AuthDenied, ContentFiltered, QuotaExhausted, RetryableRateLimit};

use super::Name::Exact;
use super::Provider;
use super::Words::{Begins, Contains};

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[
        ("billing_hard_limit_reached", Exact(QuotaExhausted)),
        ("billing_not_active", Exact(QuotaExhausted)),
        ("access_terminated", Exact(AuthDenied)),
        ("account_deactivated", Exact(AuthDenied)),
        ("invalid_organization", Exact(AuthDenied)),
        ("mismatched_organization", Exact(AuthDenied)),
        ("mismatched_project", Exact(AuthDenied)),
        ("unsupported_country_region_territory", Exact(AuthDenied)),
        // A message to the account, although it comes as a 503.
        ("slow_down", Exact(RetryableRateLimit)),
        // The prompt was flagged; a prompt that is merely wrong has another code.
        ("invalid_prompt", Exact(ContentFiltered)),
        ("moderation_blocked", Exact(ContentFiltered)),
    ],
    words: &[
        (Begins("you exceeded your current quota"), QuotaExhausted),
        (Begins("billing hard limit has been reached"), QuotaExhausted),
        (Begins("incorrect api key provided"), AuthDenied),
        (Begins("your request was rejected as a result of our safety system"), ContentFiltered),
        (Contains("violating our usage policy"), ContentFiltered),
    ],
};
