//! One budget for everything: what a slow upstream may use of it, and what it leaves to the next.

use std::time::Duration;

use super::super::row::Row;
use super::super::stage::{BACKUP, BACKUP_SAYS, DemoError, PRIMARY, Setup, Stage};
use super::super::table::time;
use super::between;
use super::failover::is;
use crate::rig::Sse;
use crate::rig::client::Ask;

const HALF_A_SECOND: Duration = Duration::from_millis(500);

/// A silent first choice is left at its own limit, with time for the other.
pub async fn silent(row: &mut Row) -> Result<(), DemoError> {
    row.asked =
        vec!["plain and streaming".into(), "budget 3 s, reserve 300 ms, the primary’s limit 1.8 s".into()];
    let (target, route) = ("attempt: 1800ms", "budget: 3s, reserve: 300ms");
    let stage = Stage::start(Setup { primary: "silent", target, route, ..Setup::default() }).await?;
    let (plain, stream) = (Ask::chat("chat", false), Ask::chat("chat", true));
    let (plain, stream) = tokio::join!(stage.call(&plain), stage.call(&stream));
    let (plain, stream) = (plain?, stream?);
    row.equal("text", plain.text().as_str(), BACKUP_SAYS);
    row.check("a whole stream", Sse::read(&stream.body).is_whole("small", BACKUP_SAYS));
    let mut left = Vec::new();
    for answer in [&plain, &stream] {
        row.served_by(answer, BACKUP, "fallback");
        row.equal("x-sluice-failure-kind", answer.header("x-sluice-failure-kind"), "retryable_timeout");
        between(row, "time to the answer", answer.took, 1800, 2400);
        let record = stage.sink.record(answer.header("x-request-id")).await;
        let left_ms = record["budget_left_ms"].as_u64().unwrap_or_default();
        between(row, "budget left in the record", Duration::from_millis(left_ms), 300, 900);
        left.push(format!("{left_ms} ms"));
    }
    row.calls(&stage, 2, 2);
    row.told(&stage, "provider_request_failed", PRIMARY, 2);
    row.told(&stage, "provider_fallback_succeeded", BACKUP, 2);
    let metrics = stage.metrics().await?;
    let of_route = [("model", "chat")];
    row.check("two switches are measured", is(metrics.sum("sluice_budget_left_seconds_count", &of_route), 2));
    let sum =
        Duration::from_secs_f64(metrics.sum("sluice_budget_left_seconds_sum", &of_route).clamp(0.0, 60.0));
    between(row, "budget left in the metric", sum, 1000, 1800);
    let gone = stage.until(HALF_A_SECOND, |s| s.primary.stats().aborted == 2).await;
    row.check("the primary’s connections are closed", gone.is_some());
    row.client = vec![
        format!("200 after {} and {}", time(plain.took), time(stream.took)),
        "route fallback, degraded true, retryable_timeout".into(),
        format!("budget left: {}", left.join(", ")),
    ];
    row.served = vec!["backup".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

/// With less left than a switch needs, the error comes at once.
pub async fn late(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["plain".into(), "budget 1.5 s, reserve 300 ms, min_budget 450 ms".into()];
    let route = "budget: 1500ms, reserve: 300ms, min_budget: 450ms";
    let stage = Stage::start(Setup { primary: "slow-900ms+status-503", route, ..Setup::default() }).await?;
    let answer = stage.call(&Ask::chat("chat", false)).await?;
    row.refused_with(&answer, 503, "retryable_upstream");
    between(row, "time to the error", answer.took, 900, 1190);
    row.equal("x-sluice-attempts", answer.header("x-sluice-attempts"), "1");
    row.calls(&stage, 1, 0);
    let record = stage.sink.record(answer.header("x-request-id")).await;
    row.equal("outcome in the record", record["outcome"].as_str(), Some("exhausted"));
    row.told(&stage, "provider_request_failed", PRIMARY, 1);
    row.equal("events", stage.sink.events().len(), 1);
    row.client = vec![
        format!("{} {} after {}", answer.status, answer.code(), time(answer.took)),
        format!("{} ms left, no second attempt", record["budget_left_ms"]),
    ];
    row.served = vec!["nobody".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

/// When the budget is spent the client knows it before its own patience ends.
pub async fn both_silent(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["plain".into(), "budget 3 s, reserve 300 ms, the primary’s limit 1.8 s".into()];
    let (target, route) = ("attempt: 1800ms", "budget: 3s, reserve: 300ms");
    let setup = Setup { primary: "silent", backup: "silent", target, route, ..Setup::default() };
    let stage = Stage::start(setup).await?;
    let answer = stage.call(&Ask::chat("chat", false)).await?;
    row.refused_with(&answer, 504, "budget_exhausted");
    between(row, "time to the error", answer.took, 2700, 3000);
    row.equal("x-sluice-attempts", answer.header("x-sluice-attempts"), "2");
    row.calls(&stage, 1, 1);
    let closed = |s: &Stage| s.primary.stats().aborted == 1 && s.backup.stats().aborted == 1;
    row.check("both connections are closed", stage.until(HALF_A_SECOND, closed).await.is_some());
    stage.sink.record(answer.header("x-request-id")).await;
    row.told(&stage, "provider_request_failed", PRIMARY, 1);
    row.told(&stage, "provider_request_failed", BACKUP, 1);
    row.check("it is counted", is(stage.metrics().await?.outcome("budget_exhausted"), 1));
    row.client = vec![
        format!("{} {} after {}", answer.status, answer.code(), time(answer.took)),
        "both attempts listed, both connections closed".into(),
    ];
    row.served = vec!["nobody".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}
