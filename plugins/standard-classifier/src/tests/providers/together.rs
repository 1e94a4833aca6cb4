//! Together and Fireworks.

use sluice_sdk::FailureKind::{ContextLengthExceeded, ModelUnavailable, QuotaExhausted};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "context",
        422,
        r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000","type":"invalid_request_error","param":null,"code":null}}"#,
        ContextLengthExceeded,
    ),
    (
        "credit",
        402,
        r#"{"error":{"message":"Credit limit exceeded","type":"credit_limit","param":null,"code":null}}"#,
        QuotaExhausted,
    ),
    (
        "model",
        404,
        r#"{"error":{"message":"Unable to access model m","type":"invalid_request_error","param":null,"code":"model_not_available"}}"#,
        ModelUnavailable,
    ),
    (
        "fireworks suspended",
        412,
        r#"{"error":{"object":"error","type":"invalid_request_error","message":"Account a is suspended, possibly due to reaching the monthly spending limit"}}"#,
        QuotaExhausted,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
