//! What a drill found, as a table for people and as one document for machines.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::expect::Expect;
use super::judge::Broken;
use super::order::{Form, Order, Scenario};
use super::times::Times;

#[cfg(test)]
mod tests;

/// What one scenario came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What the first choice did.
    pub scenario: Scenario,
    /// The target that did it.
    pub first_choice: Arc<str>,
    /// What calls were to end as.
    pub expect: Expect,
    /// Calls.
    pub requests: usize,
    /// Calls without a whole answer.
    pub errors: usize,
    /// Of these, streams that broke off after their first content and said so.
    pub interrupted: usize,
    /// Calls that another target served.
    pub fallbacks: usize,
    /// Errors by code.
    pub codes: BTreeMap<String, usize>,
    /// Retries and switches that the retry budget forbade.
    pub budget_denied: u64,
    /// From the begin of a call to its end; none: no call had an answer.
    pub times: Option<Times>,
    /// To first content, of streams.
    pub first: Option<Times>,
    /// How many times as long as in the healthy scenario the P99 is.
    pub p99_ratio: Option<f64>,
    /// Breakers that changed: target, new state, how often.
    pub breakers: Vec<(Arc<str>, &'static str, u64)>,
    /// Promises that were not kept.
    pub broken: Vec<Broken>,
}

/// What one route came to, in one form.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The route.
    pub route: Arc<str>,
    /// The form.
    pub form: Form,
    /// The same calls straight at the first choice's stand-in.
    pub direct: Option<Times>,
    /// To first content there, of streams.
    pub direct_first: Option<Times>,
    /// A row for each scenario.
    pub rows: Vec<Row>,
}

const HEADS: [&str; 9] =
    ["scenario", "errors", "fallbacks", "P50", "P95", "P99", "first P50", "first P95", "breaker"];

/// One section, its cells aligned, and below what there is to say about its rows.
///
/// # Errors
/// What writing gives.
pub fn section(section: &Section, order: &Order, out: &mut dyn Write) -> io::Result<()> {
    let form = match section.form {
        Form::Stream => "streaming",
        Form::Plain => "not streaming",
    };
    writeln!(
        out,
        "route {}, {form}: {} calls, {} at a time",
        shown(&section.route),
        order.requests,
        order.concurrency
    )?;
    let mut table: Vec<[String; 9]> = vec![HEADS.map(str::to_owned)];
    let dash = || "-".to_owned();
    let mut direct = HEADS.map(|_| dash());
    direct[0] = "direct".to_owned();
    fill(&mut direct, section.direct.as_ref(), section.direct_first.as_ref());
    table.push(direct);
    for row in &section.rows {
        let mut cells = HEADS.map(|_| dash());
        cells[0] = row.scenario.to_string();
        cells[1] = row.errors.to_string();
        cells[2] = row.fallbacks.to_string();
        fill(&mut cells, row.times.as_ref(), row.first.as_ref());
        let changes: Vec<String> =
            row.breakers.iter().map(|(target, to, n)| format!("{} {to} ×{n}", shown(target))).collect();
        if !changes.is_empty() {
            cells[8] = changes.join(", ");
        }
        table.push(cells);
    }
    aligned(&table, out)?;
    for row in &section.rows {
        if row.requests < order.requests {
            let n = row.requests;
            writeln!(
                out,
                "  {}: {n} calls only: each waits, and no breaker spares the later ones",
                row.scenario
            )?;
        }
        notes(row, out)?;
    }
    writeln!(out)?;
    out.flush()
}

fn fill(cells: &mut [String; 9], times: Option<&Times>, first: Option<&Times>) {
    if let Some(times) = times {
        cells[3] = time(times.p50);
        cells[4] = time(times.p95);
        cells[5] = time(times.p99);
    }
    if let Some(first) = first {
        cells[6] = time(first.p50);
        cells[7] = time(first.p95);
    }
}

fn aligned(table: &[[String; 9]], out: &mut dyn Write) -> io::Result<()> {
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    for row in table {
        let cell = |(at, (text, width)): (usize, (&String, &usize))| match at {
            0 | 8 => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        };
        let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
        writeln!(out, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// Why errors were to be expected, and every promise that was not kept.
fn notes(row: &Row, out: &mut dyn Write) -> io::Result<()> {
    let scenario = row.scenario;
    let codes: Vec<String> = row.codes.iter().map(|(code, n)| format!("{} ×{n}", shown(code))).collect();
    match &row.expect {
        Expect::Clean(why) if row.errors > 0 => {
            writeln!(out, "  {scenario}: {} clean errors ({}): {why}", row.errors, codes.join(", "))?;
        }
        Expect::Clean(why) => writeln!(out, "  {scenario}: errors could be expected: {why}")?,
        Expect::Served if row.budget_denied > 0 => {
            let n = row.budget_denied;
            writeln!(out, "  {scenario}: the retry budget (`retry_budget`) forbade {n} retries or switches")?;
        }
        Expect::Served => {}
    }
    for Broken { promise, text, request_id } in &row.broken {
        let id = request_id.as_ref().map(|id| format!(" (request {id})")).unwrap_or_default();
        writeln!(out, "  BROKEN {scenario} {promise}: {}{id}", shown(text))?;
    }
    Ok(())
}

/// The last line: what it all comes to.
///
/// # Errors
/// What writing gives.
pub fn summary(sections: &[Section], took: Duration, out: &mut dyn Write) -> io::Result<()> {
    let rows = sections.iter().map(|section| section.rows.len()).sum::<usize>();
    let broken = broken(sections);
    let took = time(took);
    match broken {
        0 => writeln!(out, "every promise was kept in {rows} scenarios; {took}"),
        1 => writeln!(out, "1 promise was broken in {rows} scenarios; {took}"),
        n => writeln!(out, "{n} promises were broken in {rows} scenarios; {took}"),
    }
}

/// How many promises were broken.
pub fn broken(sections: &[Section]) -> usize {
    sections.iter().flat_map(|section| &section.rows).map(|row| row.broken.len()).sum()
}

/// The document.
pub fn document(sections: &[Section], order: &Order, took: Duration) -> Value {
    let rows: Vec<Value> =
        sections.iter().flat_map(|section| section.rows.iter().map(|row| entry(section, row))).collect();
    json!({
        "config": order.config.to_string_lossy(),
        "requests": order.requests,
        "concurrency": order.concurrency,
        "max_p99_ratio": order.max_p99_ratio,
        "duration_ms": ms(took),
        "kept": broken(sections) == 0,
        "scenarios": rows,
    })
}

fn entry(section: &Section, row: &Row) -> Value {
    let breakers =
        row.breakers.iter().map(|(target, to, n)| json!({"target": &**target, "to": to, "count": n}));
    let broken = row.broken.iter().map(
        |broken| json!({"promise": broken.promise, "text": broken.text, "request_id": broken.request_id}),
    );
    let (served, why) = match &row.expect {
        Expect::Served => (true, None),
        Expect::Clean(why) => (false, Some(why)),
    };
    json!({
        "route": &*section.route,
        "form": section.form.as_str(),
        "scenario": row.scenario.as_str(),
        "first_choice": &*row.first_choice,
        "requests": row.requests,
        "errors": row.errors,
        "interrupted": row.interrupted,
        "fallbacks": row.fallbacks,
        "codes": row.codes,
        "retry_budget_denied": row.budget_denied,
        "served_expected": served,
        "errors_because": why,
        "ms": times(row.times.as_ref()),
        "first_content_ms": times(row.first.as_ref()),
        "direct_ms": times(section.direct.as_ref()),
        "direct_first_content_ms": times(section.direct_first.as_ref()),
        "p99_ratio": row.p99_ratio.map(|ratio| (ratio * 100.0).round() / 100.0),
        "breaker": breakers.collect::<Vec<_>>(),
        "broken": broken.collect::<Vec<_>>(),
    })
}

fn times(times: Option<&Times>) -> Value {
    times.map_or(
        Value::Null,
        |times| json!({"p50": ms(times.p50), "p95": ms(times.p95), "p99": ms(times.p99)}),
    )
}

/// Milliseconds with two places.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

/// A time as people read it.
pub fn time(time: Duration) -> String {
    match time.as_millis() {
        0..100 => format!("{:.1} ms", ms(time)),
        100..10_000 => format!("{} ms", time.as_millis()),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// A text that may come from outside, on one line and without anything that steers a terminal.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
