//! Groq.

use sluice_sdk::FailureKind::{
    AuthDenied, ContextLengthExceeded, ModelUnavailable, QuotaExhausted, RetryableUpstream,
};

use super::Name::Exact;
use super::Provider;
use super::Words::Begins;

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[
        ("capacity_exceeded", Exact(RetryableUpstream)),
        ("model_decommissioned", Exact(ModelUnavailable)),
        ("model_not_active", Exact(ModelUnavailable)),
        ("model_permission_blocked_org", Exact(ModelUnavailable)),
        ("model_permission_blocked_project", Exact(ModelUnavailable)),
        ("model_terms_required", Exact(ModelUnavailable)),
        ("blocked_api_access", Exact(QuotaExhausted)),
        ("organization_restricted", Exact(AuthDenied)),
    ],
    words: &[(Begins("please reduce the length of the messages"), ContextLengthExceeded)],
};
