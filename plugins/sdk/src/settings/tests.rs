#![allow(clippy::unwrap_used, reason = "a failed expectation ends the test")]

use std::collections::BTreeMap;

use super::{NoSettings, read};

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(default)]
struct Sample {
    mode: Mode,
    limits: Limits,
    names: BTreeMap<String, Option<String>>,
}

impl Default for Sample {
    fn default() -> Self {
        Self { mode: Mode::Soft, limits: Limits { low: 1, high: None }, names: BTreeMap::new() }
    }
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Soft,
    Hard,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Limits {
    low: u32,
    high: Option<f64>,
}

#[test]
fn good_settings_are_read_and_absent_ones_keep_their_defaults() {
    assert_eq!(read::<Sample>("{}"), Ok(Sample::default()));
    let full = r#"{"mode":"hard","limits":{"low":3,"high":0.5},"names":{"a":null,"b":"x"}}"#;
    let names = BTreeMap::from([("a".to_owned(), None), ("b".to_owned(), Some("x".to_owned()))]);
    let expected = Sample { mode: Mode::Hard, limits: Limits { low: 3, high: Some(0.5) }, names };
    assert_eq!(read::<Sample>(full), Ok(expected));
    assert_eq!(read::<NoSettings>("{}"), Ok(NoSettings {}));
}

#[test]
fn a_mistake_names_the_setting_what_was_expected_and_what_came() {
    let cases = [
        (r#"{"mode":"medium"}"#, "settings.mode: unknown variant `medium`, expected `soft` or `hard`"),
        (r#"{"mode":7}"#, "settings.mode: "),
        (r#"{"limits":{"low":"3"}}"#, "settings.limits.low: invalid type: string \"3\", expected u32"),
        (r#"{"limits":{"low":-1}}"#, "settings.limits.low: invalid value: integer `-1`, expected u32"),
        (r#"{"limits":{}}"#, "settings.limits: missing field `low`"),
        (r#"{"names":{"b":1}}"#, "settings.names.b: invalid type: integer `1`, expected a string"),
        (r#"{"mod":"hard"}"#, "settings.mod: this plugin has no such setting"),
        (r#"{"limits":{"low":1,"hihg":2}}"#, "settings.limits.hihg: this plugin has no such setting"),
        ("[]", "settings: expected an object, got `[]`"),
        ("null", "settings: expected an object, got `null`"),
        ("", "settings: expected an object, got ``"),
        (r#"{"mode":"hard""#, "settings: EOF while parsing an object"),
        ("{} {}", "settings: expected one object, got trailing characters"),
    ];
    for (json, expected) in cases {
        let error = read::<Sample>(json).unwrap_err();
        assert!(error.starts_with(expected), "{json}: {error}");
    }
}

#[test]
fn a_plugin_without_settings_refuses_any() {
    let error = read::<NoSettings>(r#"{"mode":"hard"}"#).unwrap_err();
    assert!(error.contains("mode"), "{error}");
}
