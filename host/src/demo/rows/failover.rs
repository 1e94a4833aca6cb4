//! The first choice serves; or fails before anything was shown; or after.

use std::time::Duration;

use super::super::row::Row;
use super::super::stage::{BACKUP, BACKUP_SAYS, DemoError, PRIMARY, PRIMARY_SAYS, Setup, Stage};
use crate::rig::Sse;
use crate::rig::client::{Answer, Ask};

/// A healthy first choice serves, plain and streaming, and nobody else is asked.
pub async fn healthy(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["plain and streaming".into()];
    let stage = Stage::start(Setup::default()).await?;
    let plain = stage.call(&Ask::chat("chat", false)).await?;
    row.served_by(&plain, PRIMARY, "primary");
    row.equal("text", plain.text().as_str(), PRIMARY_SAYS);
    let stream = stage.call(&Ask::chat("chat", true)).await?;
    row.served_by(&stream, PRIMARY, "primary");
    row.check("a whole stream of the primary", whole_stream(&stream, "large", PRIMARY_SAYS));
    row.calls(&stage, 2, 0);
    stage.sink.records(2).await;
    row.equal("events", stage.sink.events().len(), 0);
    row.check("two successes are counted", is(stage.metrics().await?.outcome("success"), 2));
    row.client = vec![
        format!("{} “{}”", plain.status, plain.text()),
        format!("{} the same as a stream with [DONE]", stream.status),
        "route primary, degraded false".into(),
    ];
    row.served = vec!["primary".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

/// A first choice that is down is not seen by the client of a plain call.
pub async fn unavailable(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["plain".into()];
    let stage = Stage::start(Setup { primary: "status-503", ..Setup::default() }).await?;
    let answer = stage.call(&Ask::chat("chat", false)).await?;
    row.served_by(&answer, BACKUP, "fallback");
    row.equal("text", answer.text().as_str(), BACKUP_SAYS);
    row.equal("x-sluice-failure-kind", answer.header("x-sluice-failure-kind"), "retryable_upstream");
    row.equal("x-sluice-attempts", answer.header("x-sluice-attempts"), "2");
    row.calls(&stage, 1, 1);
    stage.sink.record(answer.header("x-request-id")).await;
    row.told(&stage, "provider_request_failed", PRIMARY, 1);
    row.told(&stage, "provider_fallback_succeeded", BACKUP, 1);
    row.equal("events", stage.sink.events().len(), 2);
    row.check("one fallback success", is(stage.metrics().await?.outcome("fallback_success"), 1));
    row.client = vec![
        format!("{} “{}”", answer.status, answer.text()),
        "route fallback, degraded true".into(),
        answer.header("x-sluice-failure-kind").into(),
    ];
    row.served = vec!["backup".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

/// Before its first word a stream can still be replaced, whatever went wrong, and nothing of it is seen.
pub async fn before_content(row: &mut Row) -> Result<(), DemoError> {
    // The reset comes first, on a fresh connection: one on a reused connection is redialled before it counts.
    const WAYS: [(&str, &str); 4] = [
        ("reset", "reset"),
        ("status-503", "503"),
        ("error", "error object first"),
        ("role-cut", "role delta, then a cut"),
    ];
    row.asked = vec![format!("streaming; {}", WAYS.map(|(_, name)| name).join("; "))];
    let top = "breaker: { consecutive: 100, rate: { enabled: false } }";
    let stage = Stage::start(Setup { top, ..Setup::default() }).await?;
    for (at, (word, name)) in WAYS.into_iter().enumerate() {
        stage.primary.set_behaviour(word.parse()?);
        let answer = stage.call(&Ask::chat("chat", true)).await?;
        row.served_by(&answer, BACKUP, "fallback");
        row.check(
            format!("{name}: one whole stream of the backup"),
            whole_stream(&answer, "small", BACKUP_SAYS),
        );
        row.check(
            format!("{name}: nothing of the primary"),
            !mentions(&answer, "primary") && !mentions(&answer, "large"),
        );
        stage.sink.record(answer.header("x-request-id")).await;
        row.told(&stage, "provider_request_failed", PRIMARY, at + 1);
        row.told(&stage, "provider_fallback_succeeded", BACKUP, at + 1);
    }
    row.calls(&stage, 4, 4);
    row.check("four fallback successes", is(stage.metrics().await?.outcome("fallback_success"), 4));
    row.client = vec![
        "4× 200, one whole stream with [DONE], each word the backup’s".into(),
        "route fallback, degraded true".into(),
    ];
    row.served = vec!["backup".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

/// After its first word nothing can replace it, so the client is told.
pub async fn cut(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["streaming; three words, then the connection ends".into()];
    let delay = Duration::from_millis(20);
    let stage = Stage::start(Setup { primary: "cut-3", delay, ..Setup::default() }).await?;
    let answer = stage.call(&Ask::chat("chat", true)).await?;
    row.served_by(&answer, PRIMARY, "primary");
    let sse = Sse::read(&answer.body);
    row.check("the body has a proper end", answer.whole);
    row.equal("text", sse.text.as_str(), "You hear the ");
    row.equal("error events", sse.errors.clone(), vec!["upstream_interrupted".to_owned()]);
    row.equal("[DONE], finish reasons, odd pieces", (sse.dones, sse.finishes, sse.odd), (0, 0, 0));
    row.calls(&stage, 1, 0);
    let record = stage.sink.record(answer.header("x-request-id")).await;
    row.equal("outcome in the record", record["outcome"].as_str(), Some("interrupted"));
    row.told(&stage, "provider_stream_interrupted", PRIMARY, 1);
    row.equal("events", stage.sink.events().len(), 1);
    let metrics = stage.metrics().await?;
    let reason = [("target", PRIMARY), ("reason", "upstream_interrupted")];
    row.check("it is counted as interrupted", is(metrics.outcome("interrupted"), 1));
    row.check("its target is counted", is(metrics.sum("sluice_streams_interrupted_total", &reason), 1));
    let successes = metrics.outcome("success") + metrics.outcome("fallback_success");
    let served = metrics.sum("sluice_attempts_total", &[("result", "ok")]);
    row.check("it is a success in no metric", is(successes + served, 0));
    row.client = vec![
        format!("{} “{}…”", answer.status, sse.text),
        format!("one error event ({})", sse.errors.join(", ")),
        "proper end, no [DONE]".into(),
    ];
    row.served = vec!["primary, in part".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

fn whole_stream(answer: &Answer, model: &str, text: &str) -> bool {
    answer.whole
        && answer.header("content-type") == "text/event-stream"
        && Sse::read(&answer.body).is_whole(model, text)
}

fn mentions(answer: &Answer, text: &str) -> bool {
    String::from_utf8_lossy(&answer.body).contains(text)
}

/// Whether a metric counts so many.
pub fn is(value: f64, count: u32) -> bool {
    (value - f64::from(count)).abs() < f64::EPSILON
}
