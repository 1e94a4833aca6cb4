//! `sluice plugins`: what a running gateway says of its plugins, as a table.

use std::io::{self, Write};

use serde::Deserialize;
use serde_json::Value;

use super::Exit;
use super::admin::{self, AdminArgs};

/// One entry of `/debug/plugins`, as far as the table shows it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    name: String,
    file: Option<String>,
    kinds: Vec<String>,
    state: String,
    digest: Option<String>,
    version: Option<String>,
    contract: Option<String>,
    since: Option<String>,
    calls: u64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    failures: std::collections::BTreeMap<String, u64>,
    rejection: Option<Rejection>,
    /// Bundled, and no route asks it.
    replaced: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Rejection {
    reason: String,
    message: String,
    digest: Option<String>,
    at: String,
}

#[derive(Debug, Deserialize)]
struct Page {
    generation: Value,
    plugins: Vec<Entry>,
}

/// Asks an admin listener and writes a table, or the page itself with `json`.
///
/// # Errors
/// Only what writing to `out` and `err` gives; a gateway that does not answer is [`Exit::No`].
pub async fn plugins(
    of: &AdminArgs,
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let page = match admin::page(of, "/debug/plugins").await {
        Ok(page) => page,
        Err(error) => {
            writeln!(err, "sluice: {error}")?;
            return Ok(Exit::No);
        }
    };
    let parsed = match serde_json::from_slice::<Page>(&page) {
        Ok(parsed) => parsed,
        Err(error) => {
            writeln!(err, "sluice: {}: the page is not as expected: {error}", of.admin)?;
            return Ok(Exit::No);
        }
    };
    if json {
        out.write_all(page.trim_ascii_end())?;
        writeln!(out)?;
    } else {
        table(&parsed, out)?;
    }
    Ok(Exit::Done)
}

const HEAD: [&str; 11] = [
    "NAME",
    "KINDS",
    "STATE",
    "DIGEST",
    "VERSION",
    "CONTRACT",
    "FILE",
    "SINCE",
    "CALLS",
    "P50/P99 µs",
    "FAILURES",
];

fn table(page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<[String; HEAD.len()]> =
        std::iter::once(HEAD.map(str::to_owned)).chain(page.plugins.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    writeln!(out, "generation {}", page.generation)?;
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    for (entry, rejection) in page.plugins.iter().filter_map(|entry| Some((entry, entry.rejection.as_ref()?)))
    {
        let digest = short(rejection.digest.as_deref());
        writeln!(
            out,
            "\n{}: rejected at {} ({}, {digest}): {}",
            plain(&entry.name),
            plain(&rejection.at),
            plain(&rejection.reason),
            plain(&rejection.message)
        )?;
    }
    Ok(())
}

fn row(entry: &Entry) -> [String; HEAD.len()] {
    let or_dash = |text: Option<&String>| text.map_or_else(|| "-".to_owned(), |text| plain(text));
    let time = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| us.to_string());
    let failures: Vec<String> =
        entry.failures.iter().map(|(result, count)| format!("{}={count}", plain(result))).collect();
    // The date and time to the second.
    let since = entry.since.as_ref().map(|since| since.chars().take(19).collect::<String>());
    [
        plain(&entry.name),
        if entry.kinds.is_empty() { "-".to_owned() } else { plain(&entry.kinds.join(",")) },
        plain(if entry.replaced && entry.state == "active" { "replaced" } else { &entry.state }),
        short(entry.digest.as_deref()),
        or_dash(entry.version.as_ref()),
        or_dash(entry.contract.as_ref()),
        entry.file.as_deref().map_or_else(|| "(bundled)".to_owned(), plain),
        or_dash(since.as_ref()),
        entry.calls.to_string(),
        format!("{}/{}", time(entry.p50_us), time(entry.p99_us)),
        if failures.is_empty() { "-".to_owned() } else { failures.join(" ") },
    ]
}

fn short(digest: Option<&str>) -> String {
    digest.map_or_else(|| "-".to_owned(), |digest| digest.chars().take(8).collect())
}

/// Much of it was written by plugins: nothing in it may reach a terminal as a command.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_shows_every_entry_with_its_last_rejection_and_no_control_characters() {
        let page = json!({"generation": 4, "plugins": [
            {"name": "near", "file": "near.wasm", "kinds": ["router"], "state": "last_good",
             "digest": "0123456789abcdef", "version": "1\u{1b}[31m", "contract": "0.1.0",
             "since": "2026-01-02T03:04:05.678Z", "calls": 12, "p50_us": 3, "p99_us": 70,
             "failures": {"trap": 2, "timeout": 1},
             "rejection": {"reason": "parse", "message": "expected a\nvalid one", "digest": "fedcba9876", "at": "then"}},
            {"name": "standard-tagger", "file": null, "kinds": ["tagger"], "state": "active", "rejection": null},
            {"name": "weighted-router", "file": null, "kinds": ["router"], "state": "active", "replaced": true},
        ]});
        let mut out = Vec::new();
        table(&serde_json::from_value(page).unwrap(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "generation 4");
        let cells = |line: &str| {
            line.split("  ").filter(|c| !c.is_empty()).map(|c| c.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(cells(lines[1]), HEAD);
        assert_eq!(
            cells(lines[2]),
            [
                "near",
                "router",
                "last_good",
                "01234567",
                "1 [31m",
                "0.1.0",
                "near.wasm",
                "2026-01-02T03:04:05",
                "12",
                "3/70",
                "timeout=1 trap=2"
            ]
        );
        assert_eq!(cells(lines[3])[6], "(bundled)");
        assert_eq!(cells(lines[4])[2], "replaced");
        assert_eq!(lines[6], "near: rejected at then (parse, fedcba98): expected a valid one");
        assert!(!text.contains('\u{1b}'));
    }
}
