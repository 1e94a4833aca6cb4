//! How names, numbers, words and the status of an answer are weighed against each other.

use sluice_sdk::FailureKind::*;
use sluice_sdk::{FailureFacts, testing};

use super::{answer, assert_all, assert_kind};
use crate::providers;

#[test]
fn a_5xx_is_of_the_row_that_its_type_or_code_names() {
    assert_all(&[
        ("rate limit", 500, r#"{"error":{"message":"m","type":"rate_limit_error"}}"#, RetryableRateLimit),
        ("quota", 503, r#"{"error":{"message":"m","code":"insufficient_quota"}}"#, QuotaExhausted),
        ("auth", 502, r#"{"error":{"message":"m","code":"invalid_api_key"}}"#, AuthDenied),
        ("request", 500, r#"{"error":{"message":"m","type":"invalid_request_error"}}"#, InvalidRequest),
        (
            "context",
            500,
            r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#,
            ContextLengthExceeded,
        ),
        ("numeric", 500, r#"{"error":{"message":"m","code":429}}"#, RetryableRateLimit),
        ("of its own", 504, r#"{"error":{"message":"m","type":"server_error"}}"#, RetryableTimeout),
        (
            "words alone do not turn it",
            500,
            r#"{"error":{"message":"maximum context length"}}"#,
            RetryableUpstream,
        ),
    ]);
}

#[test]
fn an_error_in_a_200_is_read_by_names_then_by_number_then_is_the_upstreams() {
    assert_all(&[
        ("name", 200, r#"{"error":{"message":"m","type":"invalid_request_error"}}"#, InvalidRequest),
        ("spelled otherwise", 200, r#"{"error":{"message":"m","type":"invalid-request"}}"#, InvalidRequest),
        (
            "name before number",
            200,
            r#"{"error":{"message":"m","type":"invalid_request_error","code":503}}"#,
            InvalidRequest,
        ),
        (
            "exact name before general",
            200,
            r#"{"error":{"message":"m","type":"invalid_request_error","code":"model_not_found"}}"#,
            ModelUnavailable,
        ),
        ("number", 200, r#"{"error":{"message":"m","type":"t","code":503}}"#, RetryableUpstream),
        ("number 400", 200, r#"{"error":{"message":"m","type":"t","code":400}}"#, InvalidRequest),
        ("number as text", 200, r#"{"error":{"message":"m","code":"401"}}"#, AuthDenied),
        ("status", 200, r#"{"error":{"message":"m","status":504}}"#, RetryableTimeout),
        ("status as text", 200, r#"{"error":{"message":"m","status":"404"}}"#, ModelUnavailable),
        ("status beside the error", 200, r#"{"status":429,"error":{"message":"m"}}"#, RetryableRateLimit),
        ("number that is no status", 200, r#"{"error":{"message":"m","code":1500}}"#, RetryableUpstream),
        ("unknown name", 200, r#"{"error":{"message":"m","code":"upstream_failed"}}"#, RetryableUpstream),
        ("text only", 200, r#"{"error":"insufficient credits"}"#, RetryableUpstream),
        ("page", 200, "<html><body>Sorry</body></html>", RetryableUpstream),
        ("prose", 200, "The service is busy.", RetryableUpstream),
    ]);
}

#[test]
fn a_4xx_is_taken_at_its_word() {
    assert_all(&[
        ("number inside", 400, r#"{"error":{"message":"m","code":503}}"#, InvalidRequest),
        ("general name", 401, r#"{"error":{"message":"m","type":"invalid_request_error"}}"#, AuthDenied),
        (
            "general name",
            404,
            r#"{"error":{"message":"m","type":"invalid_request_error"}}"#,
            ModelUnavailable,
        ),
        (
            "general name",
            429,
            r#"{"error":{"message":"m","type":"invalid_request_error"}}"#,
            RetryableRateLimit,
        ),
    ]);
}

#[test]
fn a_request_that_is_quoted_does_not_speak_for_the_provider() {
    assert_all(&[
        (
            "in the message",
            400,
            r#"{"error":{"message":"Invalid input: 'your credit balance is too low'","type":"invalid_request_error"}}"#,
            InvalidRequest,
        ),
        (
            "json in the message",
            400,
            r#"{"error":{"message":"cannot parse {\"code\":\"insufficient_quota\"}","type":"invalid_request_error"}}"#,
            InvalidRequest,
        ),
        (
            "beside the error",
            422,
            r#"{"detail":[{"type":"missing","input":{"error":{"code":"insufficient_quota"}}}]}"#,
            InvalidRequest,
        ),
        (
            "deep",
            400,
            r#"{"error":{"message":"m","param":{"code":"insufficient_quota"},"input":[{"code":"model_not_found"}]}}"#,
            InvalidRequest,
        ),
        (
            "model in the middle",
            400,
            r#"{"error":{"message":"unexpected text 'the model x does not exist'"}}"#,
            InvalidRequest,
        ),
    ]);
}

#[test]
fn who_says_when_to_come_back_does_not_mean_an_empty_account() {
    let body = r#"{"error":{"message":"You exceeded your current quota, please check your plan."}}"#;
    assert_kind("no hint", &answer(429, body), QuotaExhausted);
    let hinted = FailureFacts { retry_after_ms: Some(2_000), ..answer(429, body) };
    assert_kind("hint", &hinted, RetryableRateLimit);
}

#[test]
fn a_body_that_is_cut_gives_what_came_before_the_cut() {
    let whole = r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}],"message":"a long story"#;
    let facts = |body: &str| FailureFacts { body: body.to_owned(), ..testing::failure(400) };
    assert_kind("cut in the message", &facts(whole), AuthDenied);
    for end in 0..whole.len() {
        let kind = if whole[..end].contains(r#"INVALID""#) { AuthDenied } else { InvalidRequest };
        assert_kind("cut anywhere", &facts(&whole[..end]), kind);
    }
    let long = format!(r#"{{"error":{{"message":"Prompt is too long: {}"#, "é".repeat(4_000));
    assert_kind("only a message, and cut", &facts(&long), InvalidRequest);
}

#[test]
fn no_body_makes_it_trap() {
    let nested = format!("{}{}", r#"{"error":"#.repeat(2_000), "1");
    let lists = "[".repeat(5_000);
    let names = format!(r#"{{"error":[{}1]}}"#, r#"{"code":"x","status":700},"#.repeat(500));
    for body in
        [nested.as_str(), &lists, &names, "\u{0}", "\"", r#"{"error":{"code":1e400}}"#, r#"{"a":"\ud800"}"#]
    {
        let failure = FailureFacts { body: body.to_owned(), ..testing::failure(400) };
        assert_kind("odd", &failure, InvalidRequest);
    }
}

#[test]
fn providers_agree_on_the_names_they_share() {
    let names: Vec<_> = providers::ALL.iter().flat_map(|provider| provider.names).collect();
    for (at, (name, says)) in names.iter().enumerate() {
        let other = names[..at].iter().find(|(other, _)| providers::same_name(other, name));
        assert_eq!(other, None, "{name} ({says:?}) is there twice");
        assert!(name.parse::<u16>().is_err(), "{name} is a number");
    }
}

#[test]
fn words_are_in_lower_case_or_would_never_be_found() {
    use crate::providers::Words::{Begins, Contains, Ends, Frames};
    for (words, _) in providers::ALL.iter().flat_map(|provider| provider.words) {
        let (Contains(a) | Begins(a) | Ends(a) | Frames(a, _)) = words;
        let b = if let Frames(_, b) = words { b } else { a };
        assert!(!a.is_empty() && *a == a.to_lowercase() && *b == b.to_lowercase(), "{words:?}");
    }
}

#[test]
fn words_that_harm_others_are_not_looked_for_in_the_middle() {
    use crate::providers::Words::Contains;
    for (words, kind) in providers::ALL.iter().flat_map(|provider| provider.words) {
        let harms = matches!(kind, QuotaExhausted | AuthDenied | ModelUnavailable);
        assert!(!(harms && matches!(words, Contains(_))), "{words:?}");
    }
}
