use super::*;

fn fault(kind: FailureKind, status: Option<u16>) -> Failure {
    let error = ProviderError {
        code: Some("own".to_owned()),
        message: Some("m".to_owned()),
        ..ProviderError::default()
    };
    Failure::Upstream(Box::new(LastFault {
        kind,
        status,
        transport: None,
        error: Some(error),
        client_status: None,
        retry_after: None,
    }))
}

#[test]
fn statuses_codes_and_outcomes_of_the_last_fault() {
    use FailureKind as K;
    let cases = [
        (K::RetryableTimeout, Some(408), 504, "retryable_timeout", "api_error", Outcome::Exhausted, false),
        (
            K::RetryableRateLimit,
            Some(429),
            429,
            "retryable_rate_limit",
            "rate_limit_error",
            Outcome::Exhausted,
            false,
        ),
        (K::QuotaExhausted, Some(429), 429, "quota_exhausted", "rate_limit_error", Outcome::Exhausted, true),
        (K::RetryableUpstream, Some(503), 503, "retryable_upstream", "api_error", Outcome::Exhausted, false),
        (K::RetryableUpstream, Some(529), 503, "retryable_upstream", "api_error", Outcome::Exhausted, false),
        (K::RetryableUpstream, Some(500), 502, "retryable_upstream", "api_error", Outcome::Exhausted, false),
        (K::RetryableUpstream, None, 502, "retryable_upstream", "api_error", Outcome::Exhausted, false),
        (K::ModelUnavailable, Some(404), 502, "model_unavailable", "api_error", Outcome::Exhausted, false),
        (K::AuthDenied, Some(401), 502, "auth_denied", "api_error", Outcome::RejectedUpstream, true),
        (
            K::ContextLengthExceeded,
            Some(400),
            400,
            "own",
            "invalid_request_error",
            Outcome::RejectedUpstream,
            true,
        ),
        (K::ContentFiltered, Some(200), 400, "own", "invalid_request_error", Outcome::RejectedUpstream, true),
        (K::InvalidRequest, Some(422), 422, "own", "invalid_request_error", Outcome::RejectedUpstream, true),
    ];
    for (kind, status, expected, code, r#type, outcome, is_final) in cases {
        let failure = fault(kind, status);
        assert_eq!(failure.status().as_u16(), expected, "{kind}");
        assert_eq!(failure.code(), code, "{kind}");
        assert_eq!(failure.kind(), r#type, "{kind}");
        assert_eq!(failure.outcome(), outcome, "{kind}");
        assert_eq!(failure.is_final(), is_final, "{kind}");
        assert_eq!(failure.retry_after().is_some(), matches!(expected, 429 | 503), "{kind}");
    }
}

#[test]
fn an_error_inside_an_answer_counts_by_its_own_status() {
    for (outer, inner, expected) in [
        (200, Some(503), 503),
        (200, Some(529), 503),
        (200, Some(500), 502),
        (200, None, 502),
        (500, Some(503), 502),
    ] {
        let Failure::Upstream(mut last) = fault(FailureKind::RetryableUpstream, Some(outer)) else { return };
        last.error = Some(ProviderError { status: inner, ..ProviderError::default() });
        let failure = Failure::Upstream(last);
        assert_eq!(failure.status().as_u16(), expected, "{outer} {inner:?}");
        assert_eq!(failure.retry_after().is_some(), expected == 503, "{outer} {inner:?}");
    }
}

#[test]
fn an_upstreams_text_is_shown_only_where_the_caller_can_act_on_it() {
    assert_eq!(fault(FailureKind::InvalidRequest, Some(400)).message(), "m");
    assert_eq!(fault(FailureKind::RetryableUpstream, Some(500)).message(), "the upstream failed: status 500");
}
