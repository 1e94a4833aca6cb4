//! Fireworks, which has no words of its own beside the common ones.

use sluice_sdk::FailureKind::QuotaExhausted;

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[(
    "suspended",
    412,
    r#"{"error":{"object":"error","type":"invalid_request_error","message":"Account a is suspended, possibly due to reaching the monthly spending limit"}}"#,
    QuotaExhausted,
)];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
