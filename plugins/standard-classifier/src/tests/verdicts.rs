//! What follows from a failure: statuses, transport, action, breaker, cool-down, settings.

use sluice_sdk::BreakerEffect::{Count, Ignore, Open};
use sluice_sdk::FailureKind::*;
use sluice_sdk::{Action, FailureFacts, Stage, Verdict, testing};

use super::{StandardClassifier, answer, assert_kind, broken, classify, classify_with};

#[test]
fn every_status_has_its_row() {
    let rows = [
        (RetryableTimeout, &[408, 504, 524][..]),
        (RetryableRateLimit, &[425, 429]),
        (QuotaExhausted, &[402]),
        (ModelUnavailable, &[404]),
        (AuthDenied, &[401, 403]),
        (InvalidRequest, &[400, 405, 406, 407, 410, 411, 412, 413, 414, 415, 422, 423, 431, 451, 498, 499]),
        (
            RetryableUpstream,
            &[101, 103, 300, 301, 302, 304, 307, 308, 409, 500, 501, 502, 503, 505, 511, 520, 521, 522, 523]
                [..],
        ),
        (RetryableUpstream, &[525, 526, 527, 529, 530, 598, 599]),
        // A 2xx that is no completion and holds no error.
        (RetryableUpstream, &[200, 201, 204, 206]),
    ];
    for (kind, statuses) in rows {
        for &status in statuses {
            for body in
                ["", "m", "<html><body>Bad gateway</body></html>", "{}", "null", "[]", r#"{"error":null}"#]
            {
                assert_kind("status", &answer(status, body), kind);
            }
            assert_kind(
                "status",
                &answer(status, r#"{"error":{"message":"m","type":"t","code":"c"}}"#),
                kind,
            );
        }
    }
}

#[test]
fn trouble_below_http_is_the_upstreams_or_a_timeout() {
    for error in ["refused", "reset", "closed", "dns", "tls", "unreachable", "protocol", "something new"] {
        for stage in [Stage::Connect, Stage::Head] {
            assert_kind(error, &broken(stage, error), RetryableUpstream);
        }
        let in_body = FailureFacts { status: Some(200), ..broken(Stage::Body, error) };
        assert_kind(error, &in_body, RetryableUpstream);
    }
    for stage in [Stage::Connect, Stage::Head] {
        assert_kind("timeout", &broken(stage, "timeout"), RetryableTimeout);
    }
    for stage in [Stage::FirstEvent, Stage::Body] {
        assert_kind(
            "timeout",
            &FailureFacts { status: Some(200), ..broken(stage, "timeout") },
            RetryableTimeout,
        );
    }
}

#[test]
fn a_head_that_came_outranks_the_loss_of_its_body() {
    let cases =
        [(429, RetryableRateLimit), (401, AuthDenied), (400, InvalidRequest), (503, RetryableUpstream)];
    for (status, kind) in cases {
        for error in ["closed", "reset", "timeout"] {
            let failure = FailureFacts { status: Some(status), ..broken(Stage::Body, error) };
            assert_kind(error, &failure, kind);
        }
    }
}

fn verdict(failure: &FailureFacts) -> (Action, sluice_sdk::BreakerEffect, Option<u32>) {
    let Verdict { action, breaker, cool_down_ms, .. } = classify(failure);
    (action, breaker, cool_down_ms)
}

#[test]
fn each_kind_has_its_consequences() {
    let quota =
        answer(429, r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#);
    let context = answer(400, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#);
    let filtered = answer(400, r#"{"error":{"message":"m","code":"content_filter"}}"#);
    let cases = [
        ("timeout", testing::failure(504), (Action::Switch, Count, None)),
        ("rate limit", testing::failure(429), (Action::Switch, Count, None)),
        ("upstream", testing::failure(503), (Action::RetrySame(None), Count, None)),
        ("no completion", testing::failure(200), (Action::RetrySame(None), Count, None)),
        ("quota", quota.clone(), (Action::Switch, Open, Some(600_000))),
        ("model", testing::failure(404), (Action::Switch, Ignore, Some(30_000))),
        ("context", context.clone(), (Action::Switch, Ignore, None)),
        ("filtered", filtered.clone(), (Action::GiveUp, Ignore, None)),
        ("auth", testing::failure(401), (Action::GiveUp, Ignore, Some(60_000))),
        ("request", testing::failure(422), (Action::GiveUp, Ignore, None)),
    ];
    for (what, failure, expected) in cases {
        assert_eq!(verdict(&failure), expected, "{what}");
    }
    let other = |failure: FailureFacts| FailureFacts { other_credential: true, ..failure };
    let with_another = [
        ("timeout", testing::failure(504), (Action::Switch, Count, None)),
        ("rate limit", testing::failure(429), (Action::RetrySame(Some(0)), Count, Some(5_000))),
        ("upstream", testing::failure(503), (Action::RetrySame(None), Count, None)),
        ("quota", quota, (Action::RetrySame(Some(0)), Open, Some(600_000))),
        ("model", testing::failure(404), (Action::Switch, Ignore, Some(30_000))),
        ("context", context, (Action::Switch, Ignore, None)),
        ("filtered", filtered, (Action::GiveUp, Ignore, None)),
        ("auth", testing::failure(403), (Action::RetrySame(Some(0)), Ignore, Some(60_000))),
        ("request", testing::failure(400), (Action::GiveUp, Ignore, None)),
    ];
    for (what, failure, expected) in with_another {
        assert_eq!(verdict(&other(failure)), expected, "{what}, with another credential");
    }
}

#[test]
fn a_hint_cools_the_target_and_leaves_its_breaker_alone() {
    let hinted = |ms| FailureFacts { retry_after_ms: Some(ms), ..testing::failure(429) };
    assert_eq!(verdict(&hinted(1_500)), (Action::RetrySame(Some(1_500)), Ignore, Some(1_500)));
    assert_eq!(verdict(&hinted(0)), (Action::RetrySame(Some(0)), Ignore, None));
    let short = classify_with(r#"{"cooldown_ms":{"max":1000}}"#, &hinted(90_000));
    assert_eq!((short.action, short.cool_down_ms), (Action::RetrySame(Some(90_000)), Some(1_000)));
}

#[test]
fn a_hint_on_anything_but_a_rate_limit_changes_nothing() {
    for status in [400, 401, 404, 408, 500, 503] {
        let plain = testing::failure(status);
        let hinted = FailureFacts { retry_after_ms: Some(9_000), ..plain.clone() };
        assert_eq!(verdict(&hinted), verdict(&plain), "{status}");
    }
}

#[test]
fn after_commit_only_the_breaker_learns() {
    let at_stream = |failure| FailureFacts { stage: Stage::Stream, status: Some(200), ..failure };
    let cases = [
        ("cut", broken(Stage::Stream, "closed"), RetryableUpstream, Count),
        ("reset", broken(Stage::Stream, "reset"), RetryableUpstream, Count),
        ("stall", broken(Stage::Stream, "timeout"), RetryableTimeout, Count),
        (
            "error event",
            answer(200, r#"{"error":{"message":"m","code":"server_error"}}"#),
            RetryableUpstream,
            Count,
        ),
        (
            "filter",
            answer(200, r#"{"error":{"message":"m","code":"content_filter"}}"#),
            ContentFiltered,
            Ignore,
        ),
    ];
    for (what, failure, kind, breaker) in cases {
        let verdict = classify(&at_stream(failure));
        assert_eq!(
            (verdict.kind, verdict.breaker, verdict.action),
            (kind, breaker, Action::GiveUp),
            "{what}"
        );
    }
}

#[test]
fn cool_downs_can_be_set_one_by_one() {
    let settings = r#"{"cooldown_ms":{"model":1,"quota":2,"auth":3,"rate_limit":4}}"#;
    let cases = [(404, Some(1)), (402, Some(2)), (401, Some(3)), (429, Some(4)), (500, None)];
    for (status, expected) in cases {
        let failure = FailureFacts { other_credential: true, ..testing::failure(status) };
        assert_eq!(classify_with(settings, &failure).cool_down_ms, expected, "{status}");
    }
    let one = classify_with(r#"{"cooldown_ms":{"auth":9}}"#, &testing::failure(404));
    assert_eq!(one.cool_down_ms, Some(30_000), "the others keep their defaults");
    let none = classify_with(r#"{"cooldown_ms":{"model":0}}"#, &testing::failure(404));
    assert_eq!(none.cool_down_ms, None);
}

#[test]
fn bad_settings_are_refused_with_what_was_expected() {
    let cases = [
        (r#"{"cooldown":{}}"#, "settings.cooldown: unknown field `cooldown`, expected `cooldown_ms`"),
        (
            r#"{"cooldown_ms":{"quoat":1}}"#,
            "settings.cooldown_ms.quoat: unknown field `quoat`, expected one of",
        ),
        (
            r#"{"cooldown_ms":{"quota":"10m"}}"#,
            "settings.cooldown_ms.quota: invalid type: string \"10m\", expected u32",
        ),
        (
            r#"{"cooldown_ms":{"auth":-1}}"#,
            "settings.cooldown_ms.auth: invalid value: integer `-1`, expected u32",
        ),
    ];
    for (settings, expected) in cases {
        let error = testing::configure::<StandardClassifier>(settings, Vec::new()).unwrap_err();
        assert!(error.starts_with(expected), "{settings}: {error}");
    }
}
