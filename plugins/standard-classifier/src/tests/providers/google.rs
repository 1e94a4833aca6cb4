//! Google's Gemini.

use sluice_sdk::FailureKind::{
    AuthDenied, ContextLengthExceeded, InvalidRequest, QuotaExhausted, RetryableRateLimit, RetryableTimeout,
    RetryableUpstream,
};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "per minute, though it speaks of billing",
        429,
        r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"m","quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]"#,
        RetryableRateLimit,
    ),
    (
        "per day",
        429,
        r#"{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}"#,
        QuotaExhausted,
    ),
    (
        "bad key",
        400,
        r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#,
        AuthDenied,
    ),
    (
        "bad key without details",
        400,
        r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
        AuthDenied,
    ),
    (
        "context",
        400,
        r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
        ContextLengthExceeded,
    ),
    (
        "location",
        400,
        r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#,
        AuthDenied,
    ),
    (
        "argument",
        400,
        r#"{"error":{"code":400,"message":"Invalid value at 'contents'","status":"INVALID_ARGUMENT"}}"#,
        InvalidRequest,
    ),
    (
        "unavailable",
        503,
        r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
        RetryableUpstream,
    ),
    (
        "deadline",
        504,
        r#"{"error":{"code":504,"message":"m","status":"DEADLINE_EXCEEDED"}}"#,
        RetryableTimeout,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
