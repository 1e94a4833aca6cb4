//! OpenRouter, also with what stands behind it.

use sluice_sdk::FailureKind::{
    ContentFiltered, ModelUnavailable, QuotaExhausted, RetryableRateLimit, RetryableUpstream,
};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    ("credits", 402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, QuotaExhausted),
    (
        "moderation",
        403,
        r#"{"error":{"code":403,"message":"m requires moderation on P. Your input was flagged for \"violence\".","metadata":{"reasons":["violence"],"flagged_input":"insufficient_quota"}}}"#,
        ContentFiltered,
    ),
    ("model", 400, r#"{"error":{"code":400,"message":"x/y is not a valid model ID"}}"#, ModelUnavailable),
    (
        "status in a 200",
        200,
        r#"{"error":{"code":429,"message":"Provider returned error"}}"#,
        RetryableRateLimit,
    ),
    (
        "provider down",
        502,
        r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"code\":\"invalid_api_key\"}}"}}}"#,
        RetryableUpstream,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
