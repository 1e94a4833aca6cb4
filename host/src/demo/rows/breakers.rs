//! Breakers: who is spared while an upstream is down, and how it comes back.

use std::time::Duration;

use serde_json::Value;

use super::super::client::fetch;
use super::super::row::Row;
use super::super::stage::{BACKUP, BACKUP_SAYS, DemoError, PRIMARY, PRIMARY_SAYS, Setup, Stage};
use super::failover::is;
use crate::clock;
use crate::rig::client::{Answer, Ask};

/// Calls of the storm, and how many of them at a time.
const CALLS: usize = 100;
const AT_ONCE: usize = 10;
/// How long a breaker of the storm stays open.
const OPEN: Duration = Duration::from_millis(300);

/// While an upstream is down, it is asked no more often than is needed to know it.
pub async fn storm(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["100 calls, 10 at a time".into(), "breaker: 3 in a row, open 300 ms".into()];
    let top = "breaker: { consecutive: 3, open: 300ms, open_max: 300ms }";
    let setup =
        Setup { primary: "slow-20ms+status-503", delay: Duration::from_millis(10), top, ..Setup::default() };
    let stage = Stage::start(setup).await?;
    let begun = clock::now();
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let address = stage.address();
            stage.tracker.spawn(async move {
                let mut answers = Vec::new();
                for _ in 0..CALLS / AT_ONCE {
                    answers.push(fetch(address, &Ask::chat("chat", false)).await);
                }
                answers
            })
        })
        .collect();
    let mut good = 0;
    for worker in workers {
        for answer in worker.await? {
            good += usize::from(by_backup(&answer?));
        }
    }
    let took = clock::now().saturating_duration_since(begun);
    row.equal("good answers of the backup", good, CALLS);
    let seen = stage.primary.stats().requests;
    // The cool-downs that can have ended meanwhile, one probe each.
    let probes = took.as_millis() / OPEN.as_millis();
    let most = 3 + (AT_ONCE as u128 - 1) + probes;
    row.check(
        format!("the primary saw {seen} calls, at most {most} expected"),
        (3..=most).contains(&u128::from(seen)),
    );
    row.equal("calls at the backup", stage.backup.stats().requests, CALLS as u64);
    stage.sink.records(CALLS).await;
    row.check("the breaker opened", stage.sink.count("breaker_opened", PRIMARY) >= 1);
    row.told(&stage, "provider_fallback_succeeded", BACKUP, CALLS);
    row.check("100 fallback successes", is(stage.metrics().await?.outcome("fallback_success"), 100));
    row.client = vec![
        format!("{good}× 200, the backup’s words"),
        format!("the primary saw {seen} of them; {most} were allowed: 3 + 9 in flight + {probes} cool-downs"),
    ];
    row.served = vec!["backup".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

/// Of many calls after the cool-down, one alone finds out whether the upstream is back.
pub async fn one_probe(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["3 calls open the breaker; it cools down; then 50 at once; then one more".into()];
    let top = "breaker: { consecutive: 3, open: 500ms }";
    let setup = Setup { primary: "status-503", top, ..Setup::default() };
    let stage = Stage::start(setup).await?;
    for _ in 0..3 {
        row.check(
            "served while the breaker learns",
            by_backup(&stage.call(&Ask::chat("chat", false)).await?),
        );
    }
    let breaker = stage.breaker().await?;
    row.equal("breaker", breaker["state"].as_str(), Some("open"));
    stage.primary.set_behaviour("slow-700ms".parse()?);
    tokio::time::sleep(Duration::from_millis(breaker["until_ms"].as_u64().unwrap_or(500) + 20)).await;
    let answers = stage.at_once(50, &Ask::chat("chat", false)).await?;
    let probes = stage.primary.stats().requests - 3;
    row.equal("calls of the 50 at the primary", probes, 1);
    let backup = answers.iter().filter(|answer| by_backup(answer)).count();
    let primary =
        answers.iter().filter(|answer| answer.status == 200 && answer.text() == PRIMARY_SAYS).count();
    row.equal("served by backup and primary", (backup, primary), (49, 1));
    let breaker = stage.breaker().await?;
    row.equal("breaker", breaker["state"].as_str(), Some("closed"));
    let next = stage.call(&Ask::chat("chat", false)).await?;
    row.served_by(&next, PRIMARY, "primary");
    stage.sink.records(54).await;
    for event in [
        "breaker_opened",
        "breaker_half_open",
        "breaker_closed",
        "provider_probe_succeeded",
        "provider_recovered",
    ] {
        row.told(&stage, event, PRIMARY, 1);
    }
    row.client = vec![
        format!("50× 200: {primary} from the primary, {backup} from the backup, none waited"),
        "then the primary again, degraded false".into(),
    ];
    row.served = vec!["backup, then primary".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

/// With nobody left to ask, the client is told when to come back, and so is whoever watches.
pub async fn all_down(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["3 calls open both breakers; then 10 calls; then both are back".into()];
    let top = "breaker: { consecutive: 3, open: 1500ms }";
    let setup = Setup { primary: "status-503", backup: "status-503", top, ..Setup::default() };
    let stage = Stage::start(setup).await?;
    row.equal("/readyz before", stage.page("/readyz").await?.status, 200);
    for _ in 0..3 {
        row.refused_with(&stage.call(&Ask::chat("chat", false)).await?, 503, "retryable_upstream");
    }
    row.calls(&stage, 3, 3);
    let mut hint = String::new();
    for stream in [false, true].into_iter().cycle().take(10) {
        let answer = stage.call(&Ask::chat("chat", stream)).await?;
        row.refused_with(&answer, 503, "no_healthy_target");
        answer.header("retry-after").clone_into(&mut hint);
        let seconds: u64 = hint.parse().unwrap_or_default();
        row.check(format!("Retry-After of one or two seconds: {hint}"), (1..=2).contains(&seconds));
    }
    row.calls(&stage, 3, 3);
    let down = stage.page("/readyz").await?;
    row.equal(
        "/readyz while nobody can serve",
        (down.status, down.json()["reason"].as_str()),
        (503, Some("no_target")),
    );
    for server in [&stage.primary, &stage.backup] {
        server.set_behaviour("healthy".parse()?);
    }
    let back = ready_again(&stage).await?;
    row.check("/readyz is 200 again", back);
    let answer = stage.call(&Ask::chat("chat", false)).await?;
    row.served_by(&answer, PRIMARY, "primary");
    row.equal("/readyz after", stage.page("/readyz").await?.status, 200);
    stage.sink.records(14).await;
    for (target, closed) in [(PRIMARY, 1), (BACKUP, 0)] {
        row.told(&stage, "breaker_opened", target, 1);
        row.told(&stage, "breaker_closed", target, closed);
    }
    row.client = vec![
        format!("10× 503 no_healthy_target, Retry-After {hint}, no upstream call"),
        format!("/readyz {} no_target", down.status),
        format!("then /readyz 200 and a {} of the primary", answer.status),
    ];
    row.served = vec!["nobody, then primary".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}

/// Waits until the first cool-down is over, as readiness tells it.
async fn ready_again(stage: &Stage) -> Result<bool, DemoError> {
    let begun = clock::now();
    while clock::now().saturating_duration_since(begun) < Duration::from_secs(4) {
        let page = stage.page("/readyz").await?;
        if page.status == 200 {
            return Ok(true);
        }
        let blocked = page.json()["blocked"].as_array().cloned().unwrap_or_default();
        let wait = blocked.iter().filter_map(|b: &Value| b["until_ms"].as_u64()).min().unwrap_or(100);
        tokio::time::sleep(Duration::from_millis(wait + 10)).await;
    }
    Ok(false)
}

fn by_backup(answer: &Answer) -> bool {
    answer.status == 200 && answer.text() == BACKUP_SAYS && answer.header("x-sluice-degraded") == "true"
}
