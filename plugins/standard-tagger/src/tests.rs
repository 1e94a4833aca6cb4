#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation ends the test")]

use sluice_sdk::{AnswerFacts, AttemptFacts, FailureKind, Phase, Sink, Tagger, testing};

use super::StandardTagger;

fn tagger(settings: &str) -> StandardTagger {
    let targets = vec![testing::target(0, "openai", "gpt-4o"), testing::target(1, "backup", "gpt-4o-mini")];
    testing::configure(settings, targets).unwrap()
}

fn headers(tagger: &StandardTagger, answer: &AnswerFacts) -> Vec<(String, String)> {
    let tags = tagger.tag(&testing::request(), answer);
    assert!(tags.iter().all(|tag| tag.sink == Sink::Header), "{tags:?}");
    tags.into_iter().map(|tag| (tag.name, tag.value)).collect()
}

fn assert_headers(what: &str, got: &[(String, String)], expected: &[(&str, &str)]) {
    let got: Vec<_> = got.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(got, expected, "{what}");
}

fn fallback() -> AnswerFacts {
    let kind = Some(FailureKind::RetryableTimeout);
    AnswerFacts {
        served: Some(1),
        degraded: true,
        failure_kind: kind,
        attempts: vec![
            AttemptFacts { target: 0, kind, status: None, ms: 1_800 },
            AttemptFacts { target: 1, kind: None, status: Some(200), ms: 210 },
        ],
        latency_ms: 2_015,
        ..testing::answer()
    }
}

#[test]
fn an_answer_of_the_first_choice_says_so() {
    let expected = [
        ("x-sluice-model", "chat"),
        ("x-sluice-route", "primary"),
        ("x-sluice-degraded", "false"),
        ("x-sluice-upstream", "openai"),
        ("x-sluice-served-model", "gpt-4o"),
        ("x-sluice-attempts", "1"),
        ("x-sluice-latency-ms", "26"),
        ("x-sluice-policy", "g1 router=weighted-router@00000000"),
    ];
    assert_headers("primary", &headers(&tagger("{}"), &testing::answer()), &expected);
}

#[test]
fn a_fallback_names_who_served_and_why_the_first_was_left() {
    let expected = [
        ("x-sluice-model", "chat"),
        ("x-sluice-route", "fallback"),
        ("x-sluice-degraded", "true"),
        ("x-sluice-upstream", "backup"),
        ("x-sluice-served-model", "gpt-4o-mini"),
        ("x-sluice-failure-kind", "retryable_timeout"),
        ("x-sluice-attempts", "2"),
        ("x-sluice-latency-ms", "2015"),
        ("x-sluice-policy", "g1 router=weighted-router@00000000"),
    ];
    assert_headers("fallback", &headers(&tagger("{}"), &fallback()), &expected);
}

#[test]
fn an_error_names_no_upstream() {
    let error = AnswerFacts {
        served: None,
        degraded: false,
        failure_kind: Some(FailureKind::GatewaySaturated),
        attempts: Vec::new(),
        latency_ms: 0,
        status: 503,
        error_code: Some("no_healthy_target".to_owned()),
        policy: String::new(),
        ..testing::answer()
    };
    let expected = [
        ("x-sluice-model", "chat"),
        ("x-sluice-route", "primary"),
        ("x-sluice-degraded", "false"),
        ("x-sluice-failure-kind", "gateway_saturated"),
        ("x-sluice-attempts", "0"),
        ("x-sluice-latency-ms", "0"),
    ];
    assert_headers("error", &headers(&tagger("{}"), &error), &expected);
}

#[test]
fn a_hidden_upstream_is_not_named() {
    let names: Vec<_> = headers(&tagger(r#"{"expose_upstream":false}"#), &fallback())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names.len(), 7, "{names:?}");
    assert!(!names.iter().any(|name| name.contains("upstream") || name.contains("served")), "{names:?}");
}

#[test]
fn headers_can_be_renamed_and_turned_off() {
    let settings = r#"{"names":{"route":"x-other","attempts":null,"latency-ms":"off","served_model":"x_m"}}"#;
    let expected = [
        ("x-sluice-model", "chat"),
        ("x-other", "fallback"),
        ("x-sluice-degraded", "true"),
        ("x-sluice-upstream", "backup"),
        ("x_m", "gpt-4o-mini"),
        ("x-sluice-failure-kind", "retryable_timeout"),
        ("x-sluice-policy", "g1 router=weighted-router@00000000"),
    ];
    assert_headers("names", &headers(&tagger(settings), &fallback()), &expected);
}

#[test]
fn the_record_gets_nothing_that_it_has_already() {
    let record = AnswerFacts { phase: Phase::Record, duration_ms: Some(30), ..testing::answer() };
    assert_eq!(headers(&tagger("{}"), &record), []);
    const { assert!(<StandardTagger as Tagger>::HEAD && !<StandardTagger as Tagger>::RECORD) };
}

#[test]
fn a_target_out_of_range_is_no_reason_to_trap() {
    let answer = AnswerFacts { served: Some(7), ..testing::answer() };
    assert_eq!(headers(&tagger("{}"), &answer).len(), 6);
}

#[test]
fn bad_settings_are_refused_with_what_was_expected() {
    let cases = [
        (r#"{"names":{"rout":"x"}}"#, "settings.names.rout: no such fact, expected one of model, route"),
        (r#"{"names":{"route":"X-Other"}}"#, "settings.names.route: expected 1 to 64 of a-z 0-9 - _, or off"),
        (
            r#"{"names":{"route":""}}"#,
            "settings.names.route: expected 1 to 64 of a-z 0-9 - _, or off, got ``",
        ),
        (r#"{"names":{"route":"x\r\ny"}}"#, "settings.names.route: expected 1 to 64"),
        (
            r#"{"names":{"route":"x-sluice-model"}}"#,
            "settings.names.route: expected a name of its own, got `x-sluice-model` again",
        ),
        (r#"{"names":{"route":5}}"#, "settings.names.route: invalid type: integer `5`"),
        (
            r#"{"expose_upstream":"no"}"#,
            "settings.expose_upstream: invalid type: string \"no\", expected a boolean",
        ),
        (r#"{"expose":true}"#, "settings.expose: unknown field `expose`, expected"),
    ];
    for (settings, expected) in cases {
        let error = testing::configure::<StandardTagger>(settings, Vec::new()).unwrap_err();
        assert!(error.starts_with(expected), "{settings}: {error}");
    }
    let long = format!(r#"{{"names":{{"route":"{}"}}}}"#, "x".repeat(65));
    assert!(testing::configure::<StandardTagger>(&long, Vec::new()).is_err(), "65 letters");
}
