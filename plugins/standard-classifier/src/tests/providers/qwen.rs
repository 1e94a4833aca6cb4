//! Qwen.

use sluice_sdk::FailureKind::{ContentFiltered, QuotaExhausted};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "arrears",
        400,
        r#"{"error":{"code":"Arrearage","type":"Arrearage","message":"Access denied, please make sure your account is in good standing."}}"#,
        QuotaExhausted,
    ),
    (
        "inspection",
        400,
        r#"{"error":{"code":"data_inspection_failed","message":"Output data may contain inappropriate content."}}"#,
        ContentFiltered,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
