#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn every_word_means_what_the_table_says() {
    let table = [
        ("healthy", 0, Act::Healthy),
        ("status-503", 0, Act::Status(503)),
        ("status-599", 0, Act::Status(599)),
        ("429", 0, Act::RateLimit(None)),
        ("429-2s", 0, Act::RateLimit(Some(ms(2000)))),
        ("quota", 0, Act::Quota),
        ("context", 0, Act::Context),
        ("filter", 0, Act::Filter),
        ("slow-1500ms", 1500, Act::Healthy),
        ("slow-1m+status-503", 60_000, Act::Status(503)),
        ("slow-5ms+cut-0", 5, Act::Cut(0)),
        ("silent", 0, Act::Silent),
        ("reset", 0, Act::Reset),
        ("empty", 0, Act::Empty),
        ("role-cut", 0, Act::RoleCut),
        ("cut-3", 0, Act::Cut(3)),
        ("stall-2", 0, Act::Stall(2)),
        ("error", 0, Act::Error(0)),
        ("error-2", 0, Act::Error(2)),
        ("malformed", 0, Act::Malformed(0)),
        ("malformed-7", 0, Act::Malformed(7)),
        ("no-done", 0, Act::NoDone),
        ("fail-10s", 0, Act::FailFor(ms(10_000))),
    ];
    for (text, slow, act) in table {
        assert_eq!(text.parse(), Ok(Behaviour { slow: ms(slow), act }), "{text}");
        assert_eq!(of_model(&format!("mock-{text}")), Ok(Some(Behaviour { slow: ms(slow), act })), "{text}");
    }
}

#[test]
fn a_name_without_the_prefix_asks_for_nothing() {
    for model in ["gpt-4o", "cut-3", "", "MOCK-cut-3", "amock-cut-3"] {
        assert_eq!(of_model(model), Ok(None), "{model}");
    }
}

#[test]
fn a_slip_is_an_error_that_helps() {
    let table = [
        ("", "unknown behaviour ``"),
        ("cutt-3", "did you mean `cut-3`"),
        ("healty", "did you mean `healthy`"),
        ("slow", "`slow-DURATION` needs a duration"),
        ("slow-", "needs a duration"),
        ("slowly", "unknown behaviour `slowly`"),
        ("slow-5", "takes a duration"),
        ("slow-2h", "at most one hour"),
        ("slow-5ms+nope", "unknown behaviour `nope`"),
        ("slow-5ms+slow-5ms", "unknown behaviour `slow-5ms`"),
        ("cut", "`cut-N` needs a number of chunks"),
        ("cut-x", "not `x`, as in `cut-3`"),
        ("cut-+3", "not `+3`"),
        ("cut-1000001", "up to 1000000"),
        ("status", "needs a status from 300 to 599"),
        ("status-200", "not `200`"),
        ("status-600", "not `600`"),
        ("429-2", "takes a duration"),
        ("fail", "`fail-DURATION` needs"),
        ("fail-1d", "not `1d`"),
        ("stall--1", "not `-1`"),
        ("healthy-3", "unknown behaviour `healthy-3`"),
    ];
    for (text, want) in table {
        let got = text.parse::<Behaviour>().unwrap_err().to_string();
        assert!(got.contains(want), "{text}: {got}");
    }
}

#[test]
fn the_examples_of_the_help_text_parse() {
    for (word, example, _) in GRAMMAR {
        assert!(example.parse::<Behaviour>().is_ok(), "{word}: {example}");
    }
}

#[test]
fn an_endless_word_is_not_echoed_whole() {
    let got = "x".repeat(1 << 20).parse::<Behaviour>().unwrap_err().to_string();
    assert!(got.len() < 1000, "{}", got.len());
}
