//! One record on its way: a JSON object on one line, the same in the spool and towards both databases. Beside
//! the record it has what makes it one of a kind, so that writing it twice writes it once.

use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::telemetry::record::Record;

/// `{"time_us", "tie", "record"}`, without a line feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line(String);

#[derive(Serialize)]
struct Written<'a> {
    /// Arrival, microseconds since 1970.
    time_us: i64,
    /// Random: a client may use its id twice in one microsecond.
    tie: u32,
    record: &'a Record,
}

#[derive(Deserialize)]
struct Read<'a> {
    #[expect(dead_code, reason = "only that it is there and of its type matters")]
    time_us: i64,
    #[expect(dead_code, reason = "only that it is there and of its type matters")]
    tie: u32,
    #[serde(borrow)]
    record: &'a RawValue,
}

#[derive(Deserialize)]
struct Identity {
    #[expect(dead_code, reason = "only that it is there and of its type matters")]
    request_id: String,
}

impl Line {
    /// The line of a record. None only for one that cannot be serialised, which does not happen: its maps have
    /// text keys.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let time_us = match record.time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
        };
        let written = Written { time_us, tie: fastrand::u32(..), record };
        let text = serde_json::to_string(&written).ok()?;
        Some(Self(if text.contains("\\u0000") { without_nul(&text)? } else { text }))
    }

    /// A line of the spool; none if it is not whole.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let read: Read<'_> = serde_json::from_str(text).ok()?;
        serde_json::from_str::<Identity>(read.record.get()).ok()?;
        Some(Self(text.to_owned()))
    }

    /// The object.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// The lines as one JSON array.
pub(super) fn array(lines: &[Line]) -> String {
    let mut text = String::with_capacity(lines.iter().map(|line| line.0.len() + 1).sum::<usize>() + 2);
    text.push('[');
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&line.0);
    }
    text.push(']');
    text
}

/// PostgreSQL has no text with a NUL in it, and a client may well put one into `model`.
fn without_nul(text: &str) -> Option<String> {
    fn clean(value: &mut Value) {
        match value {
            Value::String(text) => *text = text.replace('\0', "\u{fffd}"),
            Value::Array(items) => items.iter_mut().for_each(clean),
            Value::Object(members) => {
                *members = std::mem::take(members)
                    .into_iter()
                    .map(|(name, mut value)| {
                        clean(&mut value);
                        (name.replace('\0', "\u{fffd}"), value)
                    })
                    .collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut value = serde_json::from_str(text).ok()?;
    clean(&mut value);
    Some(value.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop where it fails")]
mod tests {
    use super::*;
    use crate::telemetry::record::tests::sample;

    #[test]
    fn a_line_is_read_as_it_was_written_and_nothing_else_is() {
        let line = Line::of(&sample()).unwrap();
        assert_eq!(Line::read(line.text().as_bytes()), Some(line.clone()));
        assert!(!line.text().contains('\n'));
        let value: Value = serde_json::from_str(line.text()).unwrap();
        assert_eq!(value["time_us"], 1_700_000_000_123_000_i64);
        assert_eq!(value["record"], serde_json::to_value(sample()).unwrap());
        for end in 0..line.text().len() {
            assert_eq!(Line::read(&line.text().as_bytes()[..end]), None, "cut at {end}");
        }
        for bad in [
            r#"{"time_us":1,"tie":1,"record":{}}"#,
            r#"{"time_us":1,"tie":1,"record":{"request_id":5}}"#,
            r#"{"time_us":1,"tie":1,"record":7}"#,
            r#"{"time_us":"1","tie":1,"record":{"request_id":"r"}}"#,
            r#"{"tie":1,"record":{"request_id":"r"}}"#,
            "{}",
            "[]",
            "\0\0\0",
        ] {
            assert_eq!(Line::read(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn records_of_one_id_and_one_moment_are_still_two() {
        assert_ne!(Line::of(&sample()), Line::of(&sample()));
    }

    #[test]
    fn a_nul_that_a_client_sent_keeps_no_record_out_of_the_store() {
        let mut record = sample();
        record.model = Some("a\0b \\u0000".into());
        record.tags.insert("n\0".into(), "\0".into());
        let line = Line::of(&record).unwrap();
        let value: Value = serde_json::from_str(line.text()).unwrap();
        assert_eq!(value["record"]["model"], "a\u{fffd}b \\u0000");
        assert_eq!(value["record"]["tags"]["n\u{fffd}"], "\u{fffd}");
        assert!(Line::read(line.text().as_bytes()).is_some());
    }

    #[test]
    fn many_lines_are_one_array() {
        let lines = [Line::of(&sample()).unwrap(), Line::of(&sample()).unwrap()];
        let value: Value = serde_json::from_str(&array(&lines)).unwrap();
        assert_eq!(value.as_array().unwrap().len(), 2);
        assert_eq!(array(&[]), "[]");
    }
}
