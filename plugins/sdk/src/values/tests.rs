#![allow(clippy::unwrap_used, reason = "a failed expectation ends the test")]

use crate::{Candidate, FailureKind, RequestFacts, TargetFacts, Vote, testing};

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn the_first_header_of_a_name_is_taken_and_others_are_not_there() {
    let headers = vec![pair("x-a", "1"), pair("x-b", "2"), pair("x-a", "3")];
    let request = RequestFacts { headers, ..testing::request() };
    assert_eq!((request.header("x-a"), request.header("x-b")), (Some("1"), Some("2")));
    assert_eq!((request.header("x-c"), request.header("x-")), (None, None));
}

#[test]
fn an_attribute_is_found_by_its_whole_name() {
    let attributes = vec![pair("tier", "gold"), pair("team", "search")];
    let target = TargetFacts { attributes, ..testing::target(0, "up", "m") };
    assert_eq!((target.attribute("tier"), target.attribute("team")), (Some("gold"), Some("search")));
    assert_eq!((target.attribute("tie"), target.attribute("region")), (None, None));
}

#[test]
fn a_price_needs_only_the_prices_it_uses() {
    let priced = |input, output| TargetFacts {
        price_input: input,
        price_output: output,
        ..testing::target(0, "up", "m")
    };
    for (what, target, tokens, expected) in [
        ("both", priced(Some(2.0), Some(10.0)), (1_000_000, 500_000), Some(7.0)),
        ("output unknown", priced(Some(2.0), None), (1, 1), None),
        ("output unknown and unused", priced(Some(2.0), None), (500_000, 0), Some(1.0)),
        ("nothing known, nothing used", priced(None, None), (0, 0), Some(0.0)),
    ] {
        assert_eq!(target.price(tokens.0, tokens.1), expected, "{what}");
    }
}

#[test]
fn a_stream_is_measured_by_its_first_content_where_that_is_known() {
    let candidate = Candidate {
        latency_p50_ms: Some(900.0),
        first_content_p50_ms: Some(80.0),
        latency_p95_ms: Some(2000.0),
        ..testing::candidate(0)
    };
    assert_eq!((candidate.typical_ms(true), candidate.typical_ms(false)), (Some(80.0), Some(900.0)));
    assert_eq!((candidate.slow_ms(true), candidate.slow_ms(false)), (Some(2000.0), Some(2000.0)));
    assert_eq!(testing::candidate(0).typical_ms(true), None);
}

#[test]
fn every_kind_is_found_by_its_name() {
    for kind in FailureKind::ALL {
        assert_eq!(FailureKind::from_name(kind.as_str()), Some(kind));
    }
    assert_eq!(FailureKind::from_name("retryable"), None);
}

#[test]
fn each_gives_one_vote_for_each_candidate_in_their_order() {
    let candidates = [testing::candidate(4), testing::candidate(1)];
    let votes = Vote::each(&candidates, |c| Vote::score(f64::from(c.target) / 10.0));
    assert_eq!(votes.iter().map(|vote| vote.score.unwrap()).collect::<Vec<_>>(), [0.4, 0.1]);
}
