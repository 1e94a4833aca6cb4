#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_core::facts::{Sink, Tag, Vote};
use sluice_core::kind::FailureKind;
use sluice_core::verdict::{Action, BreakerEffect, Verdict};

use super::*;
use crate::plugin::{Ask, Said};

fn parsed(text: &str) -> Result<Cases, String> {
    parse(Path::new("c.json"), text).map_err(|error| error.to_string())
}

/// A file with one case of these fields.
fn one(fields: &str) -> Cases {
    parsed(&format!(r#"{{"cases":[{{"name":"n",{fields}}}]}}"#))
        .unwrap_or_else(|error| panic!("{fields}: {error}"))
}

fn differences(fields: &str, said: &Said) -> Vec<String> {
    let cases = one(fields);
    cases.cases[0].expect.differences(&cases.cases[0].question, said)
}

fn votes(scores: &[Option<f64>]) -> Said {
    Said::Votes(scores.iter().map(|score| Vote { score: *score, reason: Some("why".into()) }).collect())
}

#[test]
fn mistakes_are_at_their_place() {
    let case =
        |fields: &str| format!("{{\n  \"cases\": [\n    {{ \"name\": \"n\",\n      {fields} }}\n  ]\n}}");
    let asked = r#""candidates": [{ "target": 0 }], "expect": { "order": [0] }"#;
    for (text, expected) in [
        ("{".to_owned(), "c.json:1:1: EOF while parsing an object"),
        ("{}".to_owned(), "c.json:1:1: expected `cases`, or `refused` where the settings are to be refused"),
        (
            r#"{"case": []}"#.to_owned(),
            "c.json:1:7: unknown field `case`, expected one of `settings`, `targets`",
        ),
        (
            case(r#""candidates": [{ "target": 0, "latency_ms": 3 }], "expect": {}"#),
            "c.json:4:48: unknown field `latency_ms`, expected one of `target`, `health`",
        ),
        (
            case(&format!(r#""request": {{ "model": 3 }}, {asked}"#)),
            "c.json:4:29: invalid type: integer `3`, expected a string",
        ),
        (
            case(r#""failure": { "status": 500, "stage": "early" }, "expect": { "verdict": null }"#),
            "c.json:4:52: expected one of `connect`, `head`, `body`, `first_event`, `stream`; got `early`",
        ),
        (case(r#""expect": { "order": [] }"#), "c.json:5:3: case `n`: expected exactly one of `candidates`"),
        (
            case(r#""failure": {}, "answer": {}, "expect": { "verdict": null }"#),
            "c.json:5:3: case `n`: expected exactly one of `candidates`",
        ),
        (
            case(r#""failure": {}, "expect": { "order": [0] }"#),
            "c.json:5:3: case `n`: expect: expected `verdict` of a classifier",
        ),
        (
            case(r#""candidates": [{ "target": 0 }], "expect": { "verdict": null }"#),
            "c.json:5:3: case `n`: expect: expected `votes` or `order`",
        ),
        (
            case(r#""candidates": [{ "target": 0 }], "expect": { "votes": [{}, {}] }"#),
            "c.json:5:3: case `n`: expected 1 votes, one for each candidate; got 2",
        ),
        (
            case(r#""candidates": [{ "target": 5000 }], "expect": { "order": [] }"#),
            "c.json:5:3: case `n`: expected targets below 1024, got 5000",
        ),
        (
            format!(r#"{{"refused":"no","cases":[{{"name":"n",{asked}}}]}}"#),
            "expected either `refused` or `cases`",
        ),
    ] {
        let error = parsed(&text).expect_err(&text);
        assert!(error.contains(expected), "{text}\nexpected {expected}\ngot      {error}");
    }
}

#[test]
fn what_is_not_said_has_a_plain_default_and_what_is_said_arrives() {
    let cases = one(
        r#""candidates": [{ "target": 3, "breaker": "half_open", "latency_p95_ms": 7.5 }, { "target": 1 }],
        "request": { "headers": [["x-a", "1"], ["x-a", "2"]], "budget_left_ms": 40, "affinity": 18446744073709551615 },
        "expect": { "order": [] }"#,
    );
    assert_eq!(cases.targets.len(), 4, "targets up to the highest index that is named");
    assert_eq!((&*cases.targets[3].upstream, cases.targets[3].places[0].position), ("up3", 3));
    let Ask::Score(request, moment, candidates) = cases.cases[0].question.ask() else {
        panic!("a router is asked")
    };
    assert_eq!((request.affinity, request.headers.len(), &*request.model), (Some(u64::MAX), 2, "chat"));
    assert_eq!(moment.budget_left.as_millis(), 40);
    assert_eq!((candidates[0].breaker.as_str(), candidates[0].latency_p95_ms), ("half_open", Some(7.5)));
    assert_eq!((candidates[1].health, candidates[1].capacity), (1.0, 256));
}

#[test]
fn votes_are_compared_where_they_are_written() {
    let ask = |expect: &str| {
        format!(r#""candidates":[{{"target":0}},{{"target":1}},{{"target":2}}],"expect":{expect}"#)
    };
    let said = votes(&[Some(0.25), None, Some(0.5)]);
    for (expect, expected) in [
        (r#"{"order":[2,0]}"#, vec![]),
        (r#"{"order":[0,2]}"#, vec!["order: expected [0,2], got [2,0]"]),
        (r#"{"votes":[{"score":0.25},{"score":null},{}]}"#, vec![]),
        (r#"{"votes":[{"score":0.25000000001},{},{"reason":"why"}]}"#, vec![]),
        (
            r#"{"votes":[{"score":null},{"score":0.1},{"score":0.6,"reason":null}]}"#,
            vec![
                "votes[0].score: expected null, got 0.25",
                "votes[1].score: expected 0.1, got null",
                "votes[2].score: expected 0.6, got 0.5",
                "votes[2].reason: expected null, got \"why\"",
            ],
        ),
    ] {
        assert_eq!(differences(&ask(expect), &said), expected, "{expect}");
    }
    let tie = votes(&[Some(0.5), Some(0.5), Some(0.5)]);
    assert_eq!(differences(&ask(r#"{"order":[0,1,2]}"#), &tie), [""; 0], "ties keep the configured order");
}

#[test]
fn verdicts_are_compared_where_they_are_written() {
    let verdict = Verdict {
        kind: FailureKind::RetryableRateLimit,
        action: Action::RetrySame(Some(std::time::Duration::from_millis(250))),
        breaker: BreakerEffect::Ignore,
        cool_down: None,
        client_status: Some(429),
    };
    let said = Said::Verdict(Some(verdict));
    for (expect, expected) in [
        (
            r#"{"kind":"retryable_rate_limit","action":"retry_same","retry_after_ms":250,"cool_down_ms":null}"#,
            vec![],
        ),
        ("{}", vec![]),
        ("null", vec!["verdict: expected null, got an opinion"]),
        (
            r#"{"kind":"auth_denied","action":"switch","retry_after_ms":null,"breaker":"open","cool_down_ms":5,"client_status":null}"#,
            vec![
                "verdict.kind: expected \"auth_denied\", got \"retryable_rate_limit\"",
                "verdict.action: expected \"switch\", got \"retry_same\"",
                "verdict.retry_after_ms: expected null, got 250",
                "verdict.breaker: expected \"open\", got \"ignore\"",
                "verdict.cool_down_ms: expected 5, got null",
                "verdict.client_status: expected null, got 429",
            ],
        ),
    ] {
        let fields = format!(r#""failure":{{"status":429}},"expect":{{"verdict":{expect}}}"#);
        assert_eq!(differences(&fields, &said), expected, "{expect}");
    }
    let fields = r#""failure":{"status":429},"expect":{"verdict":{}}"#;
    assert_eq!(differences(fields, &Said::Verdict(None)), ["verdict: expected an opinion, got null"]);
}

#[test]
fn tags_are_compared_by_name_in_their_sink() {
    let tag = |name: &str, value: &str, sink| Tag { name: name.into(), value: value.into(), sink };
    let said = Said::Tags(vec![
        tag("x-a", "1", Sink::Header),
        tag("a", "2", Sink::Record),
        tag("b", "3", Sink::Both),
        tag("a", "4", Sink::Record),
    ]);
    for (expect, expected) in [
        (r#"{"headers":{"x-a":"1","b":"3","a":null},"record":{"a":"4"}}"#, vec![]),
        (r#"{"headers":{"x-a":"1","b":"3"},"record":{"a":"4","b":"3"},"only":true}"#, vec![]),
        (
            r#"{"headers":{"x-a":null,"x-b":"1"},"record":{"a":"2"}}"#,
            vec![
                "headers.x-a: expected null, got \"1\"",
                "headers.x-b: expected \"1\", got null",
                "record.a: expected \"2\", got \"4\"",
            ],
        ),
        (
            r#"{"headers":{"x-a":"1"},"record":{"a":"4"},"only":true}"#,
            vec![
                "headers.b: expected no further tag, got \"3\"",
                "record.b: expected no further tag, got \"3\"",
            ],
        ),
    ] {
        assert_eq!(differences(&format!(r#""answer":{{}},"expect":{expect}"#), &said), expected, "{expect}");
    }
}
