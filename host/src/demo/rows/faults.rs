//! A plugin that breaks inside a call: the bundled policy answers in its place, and a counter says why.

use std::time::Duration;

use super::super::components::FAULT_ROUTER;
use super::super::row::Row;
use super::super::stage::{DemoError, PRIMARY, PRIMARY_SAYS, Setup, Stage};
use super::failover::is;
use crate::rig::client::Ask;

/// Compiling takes its time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time to eat all the memory there is, also on a busy machine.
const LIMITS: &str = "deadline: 100ms, memory: 16MiB";

/// What the plugin is asked to do, and what the counter calls it.
const FAULTS: [(&str, &str); 3] = [("trap", "trap"), ("loop", "timeout"), ("memory", "memory")];

/// Each fault in a call of its own.
pub async fn faults(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec!["plain, with a router that breaks when a header says so".into()];
    let stage = Stage::start(Setup { plugins: LIMITS, ..Setup::default() }).await?;
    let before = stage.generation();
    stage.folder.put("fault-router.wasm", FAULT_ROUTER)?;
    let taken = stage.until(PATIENCE, |s| s.generation() > before).await;
    row.check("the router is taken in", taken.is_some());
    let good = stage.call(&Ask::chat("chat", false)).await?;
    row.check(
        "it runs when nothing is asked of it",
        good.header("x-sluice-policy").contains("router=fault-router@"),
    );
    row.served_by(&good, PRIMARY, "primary");
    for (fault, result) in FAULTS {
        let answer = stage.call(&Ask::chat("chat", false).with("x-fault", fault)).await?;
        row.served_by(&answer, PRIMARY, "primary");
        row.equal("text", answer.text().as_str(), PRIMARY_SAYS);
        let policy = answer.header("x-sluice-policy").to_owned();
        row.check(
            format!("{fault}: the bundled router decides: {policy}"),
            policy.contains("router=weighted-router@"),
        );
        let labels = [("plugin", "fault-router"), ("kind", "router"), ("result", result)];
        let counted = stage.metrics().await?.sum("sluice_plugin_calls_total", &labels);
        row.check(format!("{fault}: one count of {result}, got {counted}"), is(counted, 1));
        row.client.push(format!("{fault}: {}, counted as {result}", answer.status));
    }
    row.client.push("by the bundled policy".into());
    row.calls(&stage, 4, 0);
    row.served = vec!["primary".into()];
    row.note(&stage, "503");
    stage.close().await;
    Ok(())
}
