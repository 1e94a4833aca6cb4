//! Azure OpenAI.

use sluice_sdk::FailureKind::{AuthDenied, ContentFiltered, ModelUnavailable, RetryableRateLimit};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "filter",
        400,
        r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true}}}}}"#,
        ContentFiltered,
    ),
    (
        "inner code alone",
        400,
        r#"{"error":{"code":"BadRequest","message":"m","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
        ContentFiltered,
    ),
    (
        "deployment",
        404,
        r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
        ModelUnavailable,
    ),
    (
        "operation",
        400,
        r#"{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model"}}"#,
        ModelUnavailable,
    ),
    (
        "rate limit",
        429,
        r#"{"error":{"code":"429","message":"Requests have exceeded call rate limit. Please retry after 6 seconds."}}"#,
        RetryableRateLimit,
    ),
    (
        "gateway",
        401,
        r#"{"statusCode":401,"message":"Access denied due to invalid subscription key or wrong API endpoint."}"#,
        AuthDenied,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
