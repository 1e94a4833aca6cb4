//! A client that goes away: whatever is happening stops, and nobody is blamed.

use std::time::Duration;

use serde_json::Value;

use super::super::row::Row;
use super::super::stage::{DemoError, PRIMARY, Setup, Stage};
use super::super::table::time;
use super::failover::is;
use crate::clock;
use crate::rig::client::Ask;

/// What is promised.
const SOON: Duration = Duration::from_millis(500);
/// What must happen at some time, whoever is slow.
const PATIENCE: Duration = Duration::from_secs(5);

/// Leaves in each of four places, on one gateway with room for one call at the primary.
pub async fn leaves(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["left while queued, in the middle, before any header, in a pause before a retry".into()];
    let (upstream, route) = ("max_in_flight: 1", "retry: { upstream: 1, backoff: 400ms }");
    let stage = Stage::start(Setup { primary: "stall-2", upstream, route, ..Setup::default() }).await?;
    queued_and_mid_stream(row, &stage).await?;
    before_headers(row, &stage).await?;
    let breaker = stage.breaker().await?;
    row.equal("failures counted of clients that left", breaker["failures"].as_u64(), Some(0));
    in_a_pause(row, &stage).await?;
    let records = stage.sink.records(4).await;
    let cancelled = |record: &&Value| record["outcome"] == "client_cancelled" && record["status_code"] == 499;
    row.equal("records of clients that left", records.iter().filter(cancelled).count(), 4);
    row.equal(
        "the primary saw and the backup saw",
        (stage.primary.stats().requests, stage.backup.stats().requests),
        (3, 0),
    );
    let metrics = stage.metrics().await?;
    row.check("four are counted", is(metrics.outcome("client_cancelled"), 4));
    let held = metrics.sum("sluice_gate_in_flight", &[]) + metrics.sum("sluice_gate_queue_depth", &[]);
    row.check("all permits are back", is(held, 0));
    row.told(&stage, "provider_request_failed", PRIMARY, 1);
    stage.primary.set_behaviour("healthy".parse()?);
    row.served_by(&stage.call(&Ask::chat("chat", false)).await?, PRIMARY, "primary");
    row.client.push("no further attempt, permits back, 4× client_cancelled".into());
    row.served = vec!["nobody, then primary".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

async fn queued_and_mid_stream(row: &mut Row, stage: &Stage) -> Result<(), DemoError> {
    let mut first = stage.begin(Ask::chat("chat", true));
    row.check("the first stream begins", first.hears().await);
    row.equal("left so far", stage.primary.stats().aborted, 0);
    let second = stage.begin(Ask::chat("chat", true));
    row.check("the second queues", queue_is(stage, 1, PATIENCE).await?.is_some());
    second.leave();
    let gone = queue_is(stage, 0, SOON).await?;
    left(row, "queued", gone);
    first.leave();
    let gone = stage.until(SOON, |s| s.primary.stats().aborted == 1).await;
    left(row, "in the middle", gone);
    Ok(())
}

async fn before_headers(row: &mut Row, stage: &Stage) -> Result<(), DemoError> {
    stage.primary.set_behaviour("silent".parse()?);
    let caller = stage.begin(Ask::chat("chat", false));
    let asked = stage.until(PATIENCE, |s| s.primary.stats().requests == 2).await;
    row.check("the primary is asked", asked.is_some());
    row.equal("left so far", stage.primary.stats().aborted, 1);
    caller.leave();
    let gone = stage.until(SOON, |s| s.primary.stats().aborted == 2).await;
    left(row, "before headers", gone);
    Ok(())
}

async fn in_a_pause(row: &mut Row, stage: &Stage) -> Result<(), DemoError> {
    stage.primary.set_behaviour("status-503".parse()?);
    let caller = stage.begin(Ask::chat("chat", false));
    let failed = stage.until(PATIENCE, |s| s.sink.count("provider_request_failed", PRIMARY) == 1).await;
    row.check("the first attempt fails", failed.is_some());
    let begun = clock::now();
    caller.leave();
    let ended = stage.sink.records(4).await.len() == 4;
    let took = clock::now().saturating_duration_since(begun);
    left(row, "in the pause", (ended && took <= SOON).then_some(took));
    // The longest the pause can have been: a further attempt would have come by now.
    tokio::time::sleep(SOON).await;
    Ok(())
}

fn left(row: &mut Row, place: &str, after: Option<Duration>) {
    row.check(format!("{place}: everything stops within {SOON:?}"), after.is_some());
    row.client.push(format!(
        "left {place}: {}",
        after.map_or("not noticed".to_owned(), |after| format!("all closed in {}", time(after)))
    ));
}

/// Waits until so many calls queue at the primary: how long that took.
async fn queue_is(stage: &Stage, count: u64, within: Duration) -> Result<Option<Duration>, DemoError> {
    let begun = clock::now();
    loop {
        let page = stage.page("/debug/upstreams").await?.json();
        let rows = page["upstreams"].as_array().cloned().unwrap_or_default();
        let gate =
            rows.iter().find(|row| row["upstream"] == "primary").map(|row| row["gate"]["queue"].clone());
        let took = clock::now().saturating_duration_since(begun);
        if gate == Some(count.into()) {
            return Ok(Some(took));
        }
        if took > within {
            return Ok(None);
        }
    }
}
