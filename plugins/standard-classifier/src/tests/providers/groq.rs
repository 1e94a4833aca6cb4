//! Groq.

use sluice_sdk::FailureKind::{
    ContextLengthExceeded, ModelUnavailable, RetryableRateLimit, RetryableUpstream,
};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "too large for the minute",
        413,
        r#"{"error":{"message":"Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7500","type":"tokens","code":"rate_limit_exceeded"}}"#,
        RetryableRateLimit,
    ),
    (
        "capacity",
        498,
        r#"{"error":{"message":"m","type":"invalid_request_error","code":"capacity_exceeded"}}"#,
        RetryableUpstream,
    ),
    (
        "decommissioned",
        400,
        r#"{"error":{"message":"The model `m` has been decommissioned","type":"invalid_request_error","code":"model_decommissioned"}}"#,
        ModelUnavailable,
    ),
    (
        "context",
        400,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","code":"context_length_exceeded","param":"messages"}}"#,
        ContextLengthExceeded,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
