//! What an HTTP status means by itself.

use sluice_sdk::FailureKind;

/// The kind of a status that is not a success; none for 2xx, which says nothing about a failure.
pub const fn kind(status: u16) -> Option<FailureKind> {
    Some(match status {
        200..=299 => return None,
        401 | 403 => FailureKind::AuthDenied,
        402 => FailureKind::QuotaExhausted,
        404 => FailureKind::ModelUnavailable,
        408 | 504 | 524 => FailureKind::RetryableTimeout,
        425 | 429 => FailureKind::RetryableRateLimit,
        409 => FailureKind::RetryableUpstream,
        400..=499 => FailureKind::InvalidRequest,
        _ => FailureKind::RetryableUpstream,
    })
}
