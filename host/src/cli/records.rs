//! `sluice records`: what happened to which request, from the store. Reads, and changes nothing.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use secrecy::SecretString;
use serde_json::Value;
use sluice_core::kind::Outcome;

use super::Exit;
use crate::clock;
use crate::config::{self, Credential, RecordPlace};
use crate::store::{self, Filter};

/// Which records of which store.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("store").required(true).args(["config", "sqlite", "postgres"])))]
pub struct RecordsArgs {
    /// Look into the store of this configuration
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Look into this SQLite file
    #[arg(long, value_name = "PATH")]
    sqlite: Option<PathBuf>,
    /// Look into this PostgreSQL database: env:NAME or file:PATH of its URL, or a URL without a password
    #[arg(long, value_name = "SECRET")]
    postgres: Option<String>,
    /// Only what arrived then or later: a UTC time such as 2026-01-31T08:00:00Z, or how long ago, such as 90m or 2d
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<SystemTime>,
    /// Only what arrived before then
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<SystemTime>,
    /// Only what asked for this model, that is, route
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Only what ended so: success, fallback_success, interrupted, exhausted, budget_exhausted, rejected_upstream,
    /// invalid_request, denied, refused or client_cancelled
    #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
    outcome: Option<Outcome>,
    /// Only this request
    #[arg(long, value_name = "REQUEST_ID")]
    id: Option<String>,
    /// At most so many, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Whole records, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Writes the records to `out`, newest first; what is wrong with the configuration or the store goes to `err`. A
/// store that cannot be read is [`Exit::No`]; one without such records is [`Exit::Done`].
///
/// # Errors
/// Only what writing gives.
pub async fn records(args: RecordsArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    let place = match place(&args) {
        Ok(place) => place,
        Err(text) => {
            writeln!(err, "{text}")?;
            return Ok(Exit::Usage);
        }
    };
    let filter = Filter {
        since: args.since,
        until: args.until,
        model: args.model,
        outcome: args.outcome,
        request_id: args.id,
        limit: args.limit,
    };
    let found = match store::find(&place, &filter).await {
        Ok(found) => found,
        Err(error) => {
            writeln!(err, "sluice: the store of records cannot be read: {error}")?;
            return Ok(Exit::No);
        }
    };
    let written = if args.json { lines(&found, out) } else { table(&found, out) };
    match written {
        // `| head` has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        written => written.map(|()| Exit::Done),
    }
}

fn place(args: &RecordsArgs) -> Result<RecordPlace, String> {
    if let Some(path) = &args.config {
        let loaded = config::load_for_records(path).map_err(|errors| errors.to_string())?;
        let records = loaded.config.records;
        return records
            .map(|records| records.place)
            .ok_or_else(|| format!("sluice: {} has no store of records (`records`)", path.display()));
    }
    if let Some(path) = &args.sqlite {
        return Ok(RecordPlace::Sqlite(path.clone()));
    }
    let reference = args.postgres.clone().unwrap_or_default();
    let key = SecretString::from(url(&reference).map_err(|text| format!("sluice: --postgres: {text}"))?);
    Ok(RecordPlace::Postgres(Credential { key, reference }))
}

/// The URL behind a reference. One with a password in it is refused: command lines are there for all to see.
fn url(reference: &str) -> Result<String, String> {
    let read = match reference.split_once(':') {
        Some(("env", name)) => {
            std::env::var(name).map_err(|_| format!("environment variable {name} is not set"))
        }
        Some(("file", path)) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}")),
        _ => {
            let authority = reference.split_once("://").map_or("", |(_, rest)| rest);
            let user = authority.split(['/', '?']).next().and_then(|host| host.rsplit_once('@'));
            if user.is_some_and(|(user, _)| user.contains(':')) || reference.contains("password=") {
                return Err(
                    "a URL with a password goes into env:NAME or file:PATH, where nobody sees it".to_owned()
                );
            }
            Ok(reference.to_owned())
        }
    };
    read.map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
}

fn time(text: &str) -> Result<SystemTime, String> {
    if let Ok(time) = humantime::parse_rfc3339_weak(text) {
        return Ok(time);
    }
    let ago: Duration = humantime::parse_duration(text).map_err(|_| {
        "expected a UTC time such as 2026-01-31T08:00:00Z, or how long ago, such as 90m or 2d".to_owned()
    })?;
    Ok(clock::wall().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH).max(SystemTime::UNIX_EPOCH))
}

fn outcome(text: &str) -> Result<Outcome, String> {
    let known = Outcome::ALL.iter().copied().find(|outcome| outcome.as_str() == text);
    known.ok_or_else(|| {
        let all: Vec<_> = Outcome::ALL.iter().map(|outcome| outcome.as_str()).collect();
        format!("expected one of {}", all.join(", "))
    })
}

fn lines(found: &[String], out: &mut dyn Write) -> io::Result<()> {
    found.iter().try_for_each(|record| writeln!(out, "{record}"))?;
    out.flush()
}

const HEAD: [&str; 11] = [
    "TIME",
    "REQUEST",
    "MODEL",
    "SERVED BY",
    "STATUS",
    "OUTCOME",
    "FAILURE",
    "TRIES",
    "COMMIT",
    "TOTAL",
    "TOKENS",
];

fn table(found: &[String], out: &mut dyn Write) -> io::Result<()> {
    if found.is_empty() {
        writeln!(out, "no such records")?;
        return out.flush();
    }
    let rows: Vec<_> = std::iter::once(HEAD.map(str::to_owned))
        .chain(found.iter().map(|record| row(&serde_json::from_str(record).unwrap_or_default())))
        .collect();
    let mut widths = [0; HEAD.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    out.flush()
}

fn row(record: &Value) -> [String; HEAD.len()] {
    let text = |name: &str| record[name].as_str().map_or_else(|| "-".to_owned(), shown);
    let ms = |name: &str| record[name].as_u64().map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
    let served = match (record["upstream"].as_str(), record["served_model"].as_str()) {
        (Some(upstream), Some(model)) => shown(&format!("{upstream}/{model}")),
        _ => "-".to_owned(),
    };
    let tokens = match (record["tokens"]["input"].as_u64(), record["tokens"]["output"].as_u64()) {
        (Some(input), Some(output)) => format!("{input}+{output}"),
        _ => "-".to_owned(),
    };
    let attempts = record["attempts"].as_array().map_or(0, Vec::len);
    [
        text("time"),
        text("request_id"),
        text("model"),
        served,
        record["status_code"].to_string(),
        text("outcome"),
        text("failure_kind"),
        attempts.to_string(),
        ms("latency_ms"),
        ms("duration_ms"),
        tokens,
    ]
}

/// A text as one cell: what a caller put into it steers no terminal, and is not longer than a cell.
fn shown(text: &str) -> String {
    const WIDTH: usize = 40;
    let mut cell = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == WIDTH {
            cell.push('…');
            break;
        }
        if c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            cell.push('\u{fffd}');
        } else {
            cell.push(c);
        }
    }
    cell
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_time_is_a_moment_or_so_long_ago_and_nothing_else() {
        let at = |secs| SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
        assert_eq!(time("2026-01-31T08:00:00Z"), Ok(at(1_769_846_400)));
        assert_eq!(time("2026-01-31 08:00:00"), Ok(at(1_769_846_400)));
        let (before, ago, after) = (clock::wall(), time("2d").unwrap(), clock::wall());
        let two_days = Duration::from_secs(172_800);
        assert!((before - two_days..=after - two_days).contains(&ago), "{ago:?}");
        assert_eq!(time("1000y"), Ok(SystemTime::UNIX_EPOCH));
        for bad in ["", "yesterday", "2026-01-31", "2026-01-31T08:00:00+02:00", "5", "-5m"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_is_not_taken_from_the_command_line() {
        for bad in ["postgres://u:p@h/d", "postgres://u:p@", "postgres:///d?host=/s&password=x"] {
            assert!(url(bad).is_err(), "{bad}");
        }
        for good in ["postgres://u@h:5432/d", "postgres:///d?host=/tmp"] {
            assert_eq!(url(good).as_deref(), Ok(good));
        }
        assert!(url("env:SLUICE_NO_SUCH_VARIABLE").unwrap_err().contains("is not set"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "postgres://u:p@h/d\n").unwrap();
        assert_eq!(url(&format!("file:{}", file.path().display())).as_deref(), Ok("postgres://u:p@h/d"));
    }

    #[test]
    fn a_table_has_a_line_for_each_record_whatever_is_in_it() {
        let record = json!({
            "time": "2026-01-31T08:00:00.000Z", "request_id": "r\n\u{1b}[31m", "model": "x".repeat(300),
            "upstream": "a", "served_model": "m", "status_code": 200, "outcome": "success", "failure_kind": null,
            "attempts": [{}], "latency_ms": 12, "duration_ms": 345, "tokens": {"input": 1, "output": 2},
        });
        let mut out = Vec::new();
        table(&[record.to_string(), "{}".to_owned()], &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines.len(), 3, "{out}");
        assert!(!out.contains('\u{1b}') && lines[1].chars().count() < 260, "{out}");
        for cell in ["r\u{fffd}\u{fffd}[31m", "a/m", "200", "success", "12 ms", "345 ms", "1+2"] {
            assert!(lines[1].contains(cell), "{cell}: {out}");
        }
        let mut none = Vec::new();
        table(&[], &mut none).unwrap();
        assert_eq!(none, b"no such records\n");
    }
}
