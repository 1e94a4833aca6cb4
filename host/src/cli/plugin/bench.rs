//! `sluice plugin bench`: what a call costs, in time on this machine and in instructions on every one.
//!
//! Time is that of the gateway's own call path, the crossing of the boundary included, one call at a time. The count
//! is that of the guest alone.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use sluice_core::facts::TargetFacts;

use super::cases;
use super::lines::Lines;
use super::setup::{Setup, seen, setup};
use super::{Exit, With};
use crate::clock;
use crate::plugin::{Author, Cost, Instances, NotAsked, Overrides, Plugin, Sample};

/// Candidates of the questions to a router.
const CANDIDATES: &[usize] = &[2, 8, 32, 128];
/// Calls before those that are timed.
const BEFORE: u32 = 20;
/// Longest time told apart, ns.
const LONGEST_NS: u64 = 60_000_000_000;

/// Time of many calls.
struct Times {
    p50: Duration,
    p99: Duration,
}

struct Row {
    kind: &'static str,
    sample: String,
    warm: Times,
    fresh: Times,
    cost: Cost,
}

/// Measures `file`; [`Exit::No`] when it is rejected or gives no answer.
///
/// # Errors
/// Only what writing to `out` and `err` gives.
pub async fn bench(
    file: &Path,
    with: &With,
    case: Option<&Path>,
    calls: u32,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    if !seen(file, err)? {
        return Ok(Exit::Usage);
    }
    let Setup { author, mut targets } = match setup(with.config.as_deref(), err).await? {
        Ok(setup) => setup,
        Err(exit) => return Ok(exit),
    };
    let mut settings_json = None;
    if let Some(case) = case {
        match cases::read(case) {
            Ok(cases) => (settings_json, targets) = (cases.settings_json, cases.targets.into()),
            Err(error) => {
                writeln!(err, "sluice: {error}")?;
                return Ok(Exit::Usage);
            }
        }
    }
    match measure(&author, file, &targets, settings_json, calls).await {
        Ok((plugin, rows)) if with.json => writeln!(out, "{}", as_json(file, &plugin, calls, &rows))?,
        Ok((plugin, rows)) => table(file, &plugin, calls, &rows, out)?,
        Err(NotAsked::Rejected(rejection)) => {
            writeln!(out, "rejected: {} ({}): {rejection}", file.display(), rejection.reason().as_str())?;
            return Ok(Exit::No);
        }
        Err(error) => {
            writeln!(out, "no answer: {}: {error}", file.display())?;
            return Ok(Exit::No);
        }
    }
    Ok(Exit::Done)
}

async fn measure(
    author: &Author,
    file: &Path,
    targets: &Arc<[TargetFacts]>,
    settings_json: Option<String>,
    calls: u32,
) -> Result<(Plugin, Vec<Row>), NotAsked> {
    let overrides =
        |instances| Overrides { settings_json: settings_json.clone(), instances: Some(instances) };
    let lines = || Arc::new(Lines::default());
    let warm = author.admit(file, targets, Some(&overrides(Instances::Warm)), lines()).await?;
    let fresh = author.admit(file, targets, Some(&overrides(Instances::Fresh)), lines()).await?;
    let mut rows = Vec::new();
    for kind in warm.kinds() {
        let samples = Sample::of(*kind, targets, CANDIDATES);
        let costs = author.costs(file, targets, &overrides(Instances::Warm), &samples).await?;
        for (sample, cost) in samples.into_iter().zip(costs) {
            rows.push(Row {
                kind: kind.as_str(),
                warm: times(&warm, &sample, calls).await?,
                fresh: times(&fresh, &sample, (calls / 10).max(1)).await?,
                sample: sample.label,
                cost,
            });
        }
    }
    Ok((warm, rows))
}

async fn times(plugin: &Plugin, sample: &Sample, calls: u32) -> Result<Times, NotAsked> {
    for _ in 0..BEFORE {
        plugin.ask(sample.ask()).await?;
    }
    let Ok(mut took) = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3) else {
        return Err(NotAsked::NotCounted);
    };
    for _ in 0..calls {
        let began = clock::now();
        plugin.ask(sample.ask()).await?;
        let ns = clock::now().duration_since(began).as_nanos();
        took.saturating_record(u64::try_from(ns).unwrap_or(LONGEST_NS).max(1));
    }
    let at = |quantile| Duration::from_nanos(took.value_at_quantile(quantile));
    Ok(Times { p50: at(0.5), p99: at(0.99) })
}

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e8).round() / 100.0
}

fn table(file: &Path, plugin: &Plugin, calls: u32, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let digest = plugin.digest().get(..8).unwrap_or_default();
    writeln!(
        out,
        "{}, sha256 {digest}…: {calls} warm calls for each row, {} fresh",
        file.display(),
        (calls / 10).max(1)
    )?;
    writeln!(
        out,
        "\n{:<11}{:<28}{:>17}{:>19}{:>15}{:>10}{:>10}",
        "", "", "warm µs p50/p99", "fresh µs p50/p99", "instructions", "1st call", "start"
    )?;
    for Row { kind, sample, warm, fresh, cost } in rows {
        let pair = |times: &Times| format!("{:.1} / {:.1}", micros(times.p50), micros(times.p99));
        writeln!(
            out,
            "{kind:<11}{sample:<28}{:>16}{:>19}{:>15}{:>10}{:>10}",
            pair(warm),
            pair(fresh),
            cost.warm,
            cost.first,
            cost.start
        )?;
    }
    writeln!(
        out,
        "\nwarm: an instance that has served calls; fresh: a new one for the call, its start included.\n\
         instructions: Wasm instructions of a warm call, of the first call of an instance, and of its start \
         (instantiate, describe, configure).\nThe count is the same on every machine; the time is of this one."
    )
}

fn as_json(file: &Path, plugin: &Plugin, calls: u32, rows: &[Row]) -> Value {
    let times = |times: &Times| json!({"p50_us": micros(times.p50), "p99_us": micros(times.p99)});
    let row = |row: &Row| {
        let Cost { start, first, warm } = row.cost;
        json!({"kind": row.kind, "sample": row.sample, "warm": times(&row.warm), "fresh": times(&row.fresh),
            "instructions": {"warm": warm, "first": first, "start": start}})
    };
    json!({"file": file.display().to_string(), "digest": &**plugin.digest(), "calls": calls,
        "rows": rows.iter().map(row).collect::<Vec<_>>()})
}
