//! Mistral.

use sluice_sdk::FailureKind::{
    AuthDenied, ContextLengthExceeded, InvalidRequest, ModelUnavailable, RetryableRateLimit,
};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "model",
        400,
        r#"{"object":"error","message":"Invalid model: mistral-x","type":"invalid_model","param":null,"code":"1500"}"#,
        ModelUnavailable,
    ),
    (
        "capacity",
        429,
        r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}"#,
        RetryableRateLimit,
    ),
    (
        "context",
        400,
        r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}"#,
        ContextLengthExceeded,
    ),
    (
        "validation",
        422,
        r#"{"object":"error","message":{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required","input":{"code":"insufficient_quota"}}]},"type":"invalid_request_error","code":null}"#,
        InvalidRequest,
    ),
    ("auth", 401, r#"{"message":"Unauthorized","request_id":"r"}"#, AuthDenied),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
