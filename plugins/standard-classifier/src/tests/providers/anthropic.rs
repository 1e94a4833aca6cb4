//! Anthropic.

use sluice_sdk::FailureKind::{
    ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelUnavailable, QuotaExhausted,
    RetryableUpstream,
};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "overloaded",
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        RetryableUpstream,
    ),
    (
        "overloaded in a 200",
        200,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        RetryableUpstream,
    ),
    (
        "credit",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
        QuotaExhausted,
    ),
    ("billing", 403, r#"{"type":"error","error":{"type":"billing_error","message":"m"}}"#, QuotaExhausted),
    (
        "context",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        ContextLengthExceeded,
    ),
    (
        "context with output",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
        ContextLengthExceeded,
    ),
    (
        "bytes",
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        InvalidRequest,
    ),
    (
        "model",
        404,
        r#"{"type":"error","error":{"type":"not_found_error","message":"model: m"}}"#,
        ModelUnavailable,
    ),
    (
        "output filter",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}"#,
        ContentFiltered,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
