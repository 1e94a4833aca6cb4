//! Mistakes of the caller: refused by the gateway itself, in OpenAI's shape, before any upstream hears of them.

use super::super::row::Row;
use super::super::stage::{DemoError, Setup, Stage};
use super::failover::is;
use crate::rig::client::Ask;

/// More than any request body may have.
const TOO_LARGE: usize = 64 << 20;

/// Five mistakes, no call.
pub async fn refused(row: &mut Row) -> Result<(), DemoError> {
    let stage = Stage::start(Setup::default()).await?;
    let large =
        format!(r#"{{"model":"chat","messages":[{{"role":"user","content":"{}"}}]}}"#, "x".repeat(TOO_LARGE));
    let twice = r#"{"model":"chat","model":"other","messages":[]}"#;
    let cases = [
        ("a body of 64 MB", Ask::post(large), 413, "body_too_large"),
        ("bad JSON", Ask::post(r#"{"model":"chat","#), 400, "invalid_json"),
        ("model twice", Ask::post(twice), 400, "invalid_request"),
        ("unknown model", Ask::chat("no-such-model", false), 404, "model_not_found"),
        ("unknown path", Ask::chat("chat", false).to("/v1/no/such/path"), 404, "not_found"),
    ];
    let count = cases.len();
    for (name, ask, status, code) in cases {
        let answer = stage.call(&ask).await?;
        row.refused_with(&answer, status, code);
        row.asked.push(name.into());
        row.client.push(format!("{} {}", answer.status, answer.code()));
    }
    row.client.push("each with its request id".into());
    row.calls(&stage, 0, 0);
    row.equal("records", stage.sink.records(count).await.len(), count);
    row.check("all are counted", is(stage.metrics().await?.outcome("invalid_request"), 5));
    row.served = vec!["nobody".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}
