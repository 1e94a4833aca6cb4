//! OpenAI.

use sluice_sdk::FailureKind::{
    AuthDenied, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelUnavailable, QuotaExhausted,
    RetryableRateLimit,
};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "quota",
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
        QuotaExhausted,
    ),
    (
        "rate limit",
        429,
        r#"{"error":{"message":"Rate limit reached for gpt-4o on tokens per min","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
        RetryableRateLimit,
    ),
    (
        "bad key",
        401,
        r#"{"error":{"message":"Incorrect API key provided: sk-x","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
        AuthDenied,
    ),
    (
        "no access to model",
        403,
        r#"{"error":{"message":"Project does not have access to model","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
        ModelUnavailable,
    ),
    (
        "country",
        403,
        r#"{"error":{"message":"Country, region, or territory not supported","type":"request_forbidden","param":null,"code":"unsupported_country_region_territory"}}"#,
        AuthDenied,
    ),
    (
        "context",
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ContextLengthExceeded,
    ),
    (
        "output limit",
        400,
        r#"{"error":{"message":"max_tokens is too large: 99999. This model supports at most 16384 completion tokens","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}"#,
        InvalidRequest,
    ),
    (
        "flagged",
        400,
        r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}"#,
        ContentFiltered,
    ),
    (
        "slow down",
        503,
        r#"{"error":{"message":"Slow down","type":"server_error","param":null,"code":"slow_down"}}"#,
        RetryableRateLimit,
    ),
    (
        "billing",
        400,
        r#"{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","param":null,"code":"billing_hard_limit_reached"}}"#,
        QuotaExhausted,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
