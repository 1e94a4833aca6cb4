//! Amazon Bedrock.

use sluice_sdk::FailureKind::{
    AuthDenied, ContentFiltered, ModelUnavailable, QuotaExhausted, RetryableRateLimit, RetryableTimeout,
    RetryableUpstream,
};

use super::Name::{BadRequest, Exact};
use super::Provider;
use super::Words::{Begins, Contains};

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[
        ("ThrottlingException", Exact(RetryableRateLimit)),
        ("ServiceQuotaExceededException", Exact(QuotaExhausted)),
        ("AccessDeniedException", Exact(AuthDenied)),
        ("UnrecognizedClientException", Exact(AuthDenied)),
        ("ExpiredTokenException", Exact(AuthDenied)),
        ("InvalidSignatureException", Exact(AuthDenied)),
        ("ResourceNotFoundException", Exact(ModelUnavailable)),
        ("ModelNotReadyException", Exact(RetryableUpstream)),
        ("ModelErrorException", Exact(RetryableUpstream)),
        ("ModelStreamErrorException", Exact(RetryableUpstream)),
        ("ServiceUnavailableException", Exact(RetryableUpstream)),
        ("InternalServerException", Exact(RetryableUpstream)),
        ("ModelTimeoutException", Exact(RetryableTimeout)),
        ("ValidationException", BadRequest),
    ],
    words: &[
        (Begins("the provided model identifier is invalid"), ModelUnavailable),
        (Contains("blocked by guardrail"), ContentFiltered),
    ],
};
