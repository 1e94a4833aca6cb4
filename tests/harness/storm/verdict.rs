//! What must be true when a storm is over.

use super::Report;
use super::process::Log;
use crate::metrics::Metrics;

const GAUGES: [&str; 2] = ["sluice_gate_in_flight", "sluice_gate_queue_depth"];

/// Nothing runs and nobody waits.
pub(super) fn is_at_rest(metrics: &Metrics) -> bool {
    GAUGES.iter().all(|gauge| metrics.has(gauge) && metrics.sum(gauge, &[]) == 0.0)
}

/// Gauges, outcomes, changes, memory.
pub(super) fn at_rest(metrics: &Metrics, report: &mut Report) {
    for gauge in GAUGES {
        let busy = metrics.all(gauge, &[]).filter(|sample| sample.value != 0.0);
        report.wrong.extend(busy.map(|sample| format!("not at zero: {sample:?}")));
    }
    let called = |what| report.calls.get(what).copied().unwrap_or(0) as f64;
    let (complete, broken, refused, left) =
        (called("complete"), called("broken"), called("refused"), called("left"));
    report.outcomes = metrics.by("sluice_requests_total", "outcome");
    let outcome = |name: &str| report.outcomes.get(name).copied().unwrap_or(0.0);
    let served = outcome("success") + outcome("fallback_success");
    let total: f64 = report.outcomes.values().sum();
    let ended = complete + broken + refused;
    // Whoever left may have left before its request was one, or after its answer was written.
    for (what, low, counted) in [
        ("answers", complete, served),
        ("broken streams", broken, outcome("interrupted")),
        ("requests", ended, total),
        ("refusals", refused, total - served - outcome("interrupted") - outcome("client_cancelled")),
    ] {
        if counted < low || counted > low + left {
            report.wrong.push(format!("{what}: {counted} counted, {low} seen by callers, {left} left"));
        }
    }
    if complete < 1.0 || outcome("fallback_success") < 1.0 || broken + refused < 1.0 {
        report.wrong.push("a storm in which nothing happens shows nothing".to_owned());
    }
    for (name, label) in
        [("sluice_plugin_reloads_total", "result"), ("sluice_config_reloads_total", "result")]
    {
        for (result, n) in metrics.by(name, label) {
            report.changes.insert(format!("{name} {result}"), n);
        }
    }
    configuration(metrics, report);
    memory(report);
}

/// A gateway that follows its file has taken good ones and refused bad ones. One that does not has seen neither.
fn configuration(metrics: &Metrics, report: &mut Report) {
    let reloads = |result| metrics.sum("sluice_config_reloads_total", &[("result", result)]);
    let (applied, rejected) = (reloads("applied"), reloads("rejected"));
    let changes = report.calls.get("configuration changes").copied().unwrap_or(0);
    if applied + rejected > 0.0 && changes > 20 && (applied == 0.0 || rejected == 0.0) {
        report.wrong.push(format!("{changes} changes of the file: {applied} applied, {rejected} rejected"));
    }
}

/// Later than a third of the way, when everything that is kept has been made, memory does not grow.
fn memory(report: &mut Report) {
    let samples = &report.memory;
    if samples.len() < 60 {
        return;
    }
    let mean = |part: &[u64]| part.iter().sum::<u64>() / part.len() as u64;
    let (early, late) = (&samples[samples.len() / 3..samples.len() / 2], &samples[samples.len() * 5 / 6..]);
    let (early, late) = (mean(early), mean(late));
    if late > early + early / 5 + 24 {
        report.wrong.push(format!("memory grew from {early} to {late} MiB: {samples:?}"));
    }
}

/// The log, and how the process ended.
pub(super) fn at_the_end(log: &Log, metrics: &Metrics, report: &mut Report) {
    report.wrong.extend(log.bad.iter().map(|line| format!("in the log: {line}")));
    if log.code != Some(0) {
        report.wrong.push(format!("it ended with {:?}", log.code));
    }
    let (total, dropped) =
        (metrics.sum("sluice_requests_total", &[]), metrics.sum("sluice_records_dropped_total", &[]));
    if log.records as f64 + dropped != total {
        report.wrong.push(format!("{total} requests, {} records and {dropped} dropped", log.records));
    }
}
