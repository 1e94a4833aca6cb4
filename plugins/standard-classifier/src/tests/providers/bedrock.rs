//! Bedrock.

use sluice_sdk::FailureKind::{ContextLengthExceeded, RetryableRateLimit};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "throttled",
        400,
        r#"{"__type":"ThrottlingException","message":"Too many tokens, please wait before trying again."}"#,
        RetryableRateLimit,
    ),
    (
        "context",
        400,
        r#"{"__type":"ValidationException","message":"Input is too long for requested model."}"#,
        ContextLengthExceeded,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
