use super::*;

fn configured(settings: &str) -> Result<ProviderQuirks, String> {
    let targets = vec![testing::target(0, "relay", "m"), testing::target(1, "local", "m")];
    testing::configure(settings, targets)
}

fn verdict(settings: &str, failure: &FailureFacts) -> Option<Verdict> {
    configured(settings).unwrap().classify(&testing::request(), failure)
}

const BUSY: &str = r#"{"rules":[
    {"upstream":"relay","status":400,"body_contains":"Model is BUSY","kind":"retryable_upstream"},
    {"status":400,"error_code":"1302","kind":"retryable_rate_limit","breaker":"ignore","cool_down_ms":2000}
]}"#;

#[test]
fn a_row_needs_all_of_its_conditions() {
    let busy = |target, status, body: &str| FailureFacts {
        target,
        body: body.to_owned(),
        ..testing::failure(status)
    };
    for (what, failure, expected) in [
        ("all hold", busy(0, 400, r#"{"msg":"the model is busy now"}"#), true),
        ("another upstream", busy(1, 400, "model is busy"), false),
        ("another status", busy(0, 500, "model is busy"), false),
        ("another body", busy(0, 400, "model is lazy"), false),
        ("no head at all", FailureFacts { status: None, ..busy(0, 400, "model is busy") }, false),
    ] {
        assert_eq!(verdict(BUSY, &failure).is_some(), expected, "{what}");
    }
}

#[test]
fn the_first_row_that_holds_gives_the_whole_verdict() {
    let coded = FailureFacts { error_code: Some("1302".to_owned()), ..testing::failure(400) };
    let expected = Verdict {
        kind: FailureKind::RetryableRateLimit,
        action: Action::Switch,
        breaker: BreakerEffect::Ignore,
        cool_down_ms: Some(2000),
        client_status: None,
    };
    assert_eq!(verdict(BUSY, &coded), Some(expected));
    let both = FailureFacts { body: "model is busy".to_owned(), ..coded };
    assert_eq!(verdict(BUSY, &both).map(|verdict| verdict.kind), Some(FailureKind::RetryableUpstream));
}

#[test]
fn defaults_are_to_switch_and_to_count() {
    let verdict =
        verdict(r#"{"rules":[{"status":418,"kind":"retryable_upstream"}]}"#, &testing::failure(418)).unwrap();
    assert_eq!((verdict.action, verdict.breaker), (Action::Switch, BreakerEffect::Count));
    let retry = r#"{"rules":[{"status":418,"kind":"retryable_upstream","action":"retry_same","retry_after_ms":50,"breaker":"open"}]}"#;
    let verdict = configured(retry).unwrap().classify(&testing::request(), &testing::failure(418)).unwrap();
    assert_eq!((verdict.action, verdict.breaker), (Action::RetrySame(Some(50)), BreakerEffect::Open));
}

#[test]
fn rows_that_cannot_be_meant_are_refused_with_their_place() {
    for (row, expected) in [
        (
            r#"{"kind":"quota_exhausted"}"#,
            "settings.rules[1]: expected at least one of upstream, status, error_type, error_code, body_contains",
        ),
        (
            r#"{"status":400,"kind":"gateway_saturated"}"#,
            "settings.rules[1].kind: expected one of retryable_timeout, retryable_rate_limit, retryable_upstream, \
             quota_exhausted, model_unavailable, context_length_exceeded, content_filtered, auth_denied, \
             invalid_request; got `gateway_saturated`",
        ),
        (
            r#"{"upstream":"rely","kind":"auth_denied"}"#,
            "settings.rules[1].upstream: expected an upstream of a route, got `rely`",
        ),
        (
            r#"{"status":400,"kind":"auth_denied","client_status":200}"#,
            "settings.rules[1].client_status: expected 400 to 599, got 200",
        ),
        (
            r#"{"status":400,"kind":"auth_denied","retry_after_ms":5}"#,
            "settings.rules[1].retry_after_ms: expected `action: retry_same` beside it",
        ),
        (
            r#"{"status":400,"kind":"auth_denied","action":"wait"}"#,
            "settings.rules[1].action: unknown variant `wait`, expected one of `give_up`, `retry_same`, `switch`",
        ),
    ] {
        let settings = format!(r#"{{"rules":[{{"status":1,"kind":"auth_denied"}},{row}]}}"#);
        assert_eq!(configured(&settings).err().as_deref(), Some(expected));
    }
}
