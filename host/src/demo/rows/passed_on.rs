//! Failures that another upstream would not heal: the truth at once, and nobody is blamed for it.

use std::time::Duration;

use super::super::row::Row;
use super::super::stage::{DemoError, PRIMARY, Setup, Stage};
use super::failover::is;
use crate::rig::client::Ask;

/// What the upstream says, and what becomes of it.
struct Case {
    word: &'static str,
    status: u16,
    code: &'static str,
    /// The upstream's own words reach the client.
    own_words: Option<&'static str>,
}

const CASES: [Case; 4] = [
    Case {
        word: "status-400",
        status: 400,
        code: "invalid_request",
        own_words: Some("The request was refused."),
    },
    Case { word: "status-401", status: 502, code: "auth_denied", own_words: None },
    Case { word: "status-403", status: 502, code: "auth_denied", own_words: None },
    Case {
        word: "filter",
        status: 400,
        code: "content_filter",
        own_words: Some("content management policy"),
    },
];

/// Each on a gateway of its own, since a denied key keeps its upstream aside for a while.
pub async fn passed_on(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["plain and streaming; 400, 401, 403, content filter".into()];
    for case in CASES {
        for stream in [false, true] {
            let stage = Stage::start(Setup { primary: case.word, ..Setup::default() }).await?;
            let answer = stage.call(&Ask::chat("chat", stream)).await?;
            row.refused_with(&answer, case.status, case.code);
            row.equal("x-should-retry", answer.header("x-should-retry"), "false");
            let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
            if let Some(words) = case.own_words {
                row.check(format!("{}: its own words: {message}", case.word), message.contains(words));
            }
            row.check(format!("{}: at once", case.word), answer.took < Duration::from_secs(1));
            row.calls(&stage, 1, 0);
            let record = stage.sink.record(answer.header("x-request-id")).await;
            row.equal("outcome in the record", record["outcome"].as_str(), Some("rejected_upstream"));
            let breaker = stage.breaker().await?;
            row.check(
                format!("{}: breaker untouched: {breaker}", case.word),
                breaker["state"] == "closed" && breaker["failures"] == 0,
            );
            let changes =
                stage.metrics().await?.sum("sluice_breaker_transitions_total", &[("target", PRIMARY)]);
            row.check("no breaker changed", is(changes, 0));
            row.told(&stage, "provider_request_failed", PRIMARY, 1);
            if stream {
                row.upstreams.push(format!("primary: {}", case.word));
                row.client.push(format!("{} {}", answer.status, answer.code()));
            }
            stage.close().await;
        }
    }
    row.upstreams.push("backup: not called".into());
    row.client.push("x-should-retry: false".into());
    row.events = vec![format!("provider_request_failed {PRIMARY}, once in each; breaker closed, 0 failures")];
    row.served = vec!["nobody".into()];
    Ok(())
}
