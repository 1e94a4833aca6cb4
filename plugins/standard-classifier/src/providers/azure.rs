//! Azure OpenAI, whose codes are partly statuses and partly names of its own.

use sluice_sdk::FailureKind::{
    AuthDenied, ContentFiltered, ModelUnavailable, RetryableRateLimit, RetryableUpstream,
};

use super::Name::Exact;
use super::Provider;
use super::Words::Begins;

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[
        ("DeploymentNotFound", Exact(ModelUnavailable)),
        ("ResourceNotFound", Exact(ModelUnavailable)),
        // The model of the deployment does not do this operation; another target of the route may.
        ("OperationNotSupported", Exact(ModelUnavailable)),
        ("ResponsibleAIPolicyViolation", Exact(ContentFiltered)),
        ("RateLimitReached", Exact(RetryableRateLimit)),
        ("AuthenticationFailed", Exact(AuthDenied)),
        ("InvalidAuthenticationToken", Exact(AuthDenied)),
        ("ExpiredAuthenticationToken", Exact(AuthDenied)),
        ("AccessDenied", Exact(AuthDenied)),
        ("InsufficientCapacity", Exact(RetryableUpstream)),
        ("NoCapacity", Exact(RetryableUpstream)),
    ],
    words: &[
        (Begins("the response was filtered due to the prompt triggering"), ContentFiltered),
        (Begins("access denied due to invalid subscription key"), AuthDenied),
    ],
};
