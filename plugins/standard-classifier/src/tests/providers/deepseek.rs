//! DeepSeek.

use sluice_sdk::FailureKind::{AuthDenied, ContentFiltered, QuotaExhausted, RetryableRateLimit};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "balance",
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#,
        QuotaExhausted,
    ),
    (
        "auth",
        401,
        r#"{"error":{"message":"Authentication Fails","type":"authentication_error","param":null,"code":"invalid_request_error"}}"#,
        AuthDenied,
    ),
    (
        "content",
        400,
        r#"{"error":{"message":"Content Exists Risk","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
        ContentFiltered,
    ),
    (
        "rate",
        429,
        r#"{"error":{"message":"m","type":"rate_limit_error","param":null,"code":"invalid_request_error"}}"#,
        RetryableRateLimit,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
