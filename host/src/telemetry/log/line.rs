//! One line of the log, as JSON or for people. The same calls make both forms, so that no field can be in one
//! and missing in the other.
//!
//! Nothing that is put in can end the line or start another: JSON escapes control characters anyway, and the
//! text form does it here. Each value is bounded, because some of them come from far away.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use tracing::Level;

use crate::config::LogFormat;

/// Longest value of one field, bytes.
pub(super) const MAX_VALUE: usize = 4096;

/// A line in the making.
#[derive(Debug)]
pub struct Line {
    format: LogFormat,
    out: String,
    names: Vec<String>,
}

impl Line {
    /// Begins with `time` (RFC 3339, milliseconds, UTC) and `level` (lower case in JSON).
    pub fn new(format: LogFormat, time: SystemTime, level: Level) -> Self {
        let mut line = Self { format, out: String::with_capacity(256), names: Vec::new() };
        match format {
            LogFormat::Json => {
                line.out.push('{');
                line.text("time", &rfc3339(time));
                line.text("level", level_name(level));
            }
            LogFormat::Text => {
                line.put(format_args!("{} {level:>5}", rfc3339(time)));
                line.names.extend(["time".into(), "level".into()]);
            }
        }
        line
    }

    /// A field of text. In the text form `event` and `message` stand alone, without a name.
    pub fn text(&mut self, name: &str, value: &str) {
        let value = clip(value, MAX_VALUE);
        match self.format {
            LogFormat::Json => {
                self.name(name);
                // A string always serialises; the error type is that of writers.
                let quoted = serde_json::to_string(value).unwrap_or_default();
                self.out.push_str(&quoted);
            }
            LogFormat::Text if matches!(name, "event" | "message") => {
                self.names.push(name.into());
                self.out.push(' ');
                plain(&mut self.out, value);
            }
            LogFormat::Text => {
                self.name(name);
                if value.is_empty()
                    || value
                        .chars()
                        .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '=' | '\\'))
                {
                    self.put(format_args!("{value:?}"));
                } else {
                    self.out.push_str(value);
                }
            }
        }
    }

    /// A field of text that may be absent, and is left out then.
    pub fn maybe(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// A whole number.
    pub fn number(&mut self, name: &str, value: impl Into<i128>) {
        self.name(name);
        self.put(format_args!("{}", value.into()));
    }

    /// A number; null when it is none (JSON knows no infinity).
    pub fn float(&mut self, name: &str, value: f64) {
        self.name(name);
        if value.is_finite() {
            self.put(format_args!("{value}"));
        } else {
            self.out.push_str("null");
        }
    }

    /// True or false.
    pub fn flag(&mut self, name: &str, value: bool) {
        self.name(name);
        self.out.push_str(if value { "true" } else { "false" });
    }

    /// The line, without its line feed.
    pub fn finish(mut self) -> Vec<u8> {
        if self.format == LogFormat::Json {
            self.out.push('}');
        }
        self.out.into_bytes()
    }

    /// Writes the name in front of a value. A name that the line has already gets a `_` behind it: two equal
    /// names in one object are read differently by every reader.
    fn name(&mut self, name: &str) {
        let mut name = name.to_owned();
        while self.names.contains(&name) {
            name.push('_');
        }
        match self.format {
            LogFormat::Json => {
                if !self.names.is_empty() {
                    self.out.push(',');
                }
                let quoted = serde_json::to_string(&name).unwrap_or_default();
                self.put(format_args!("{quoted}:"));
            }
            LogFormat::Text => {
                self.out.push(' ');
                plain(&mut self.out, &name);
                self.out.push('=');
            }
        }
        self.names.push(name);
    }

    fn put(&mut self, args: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(args);
    }
}

/// `text` with every character that could end a line or steer a terminal written as an escape.
fn plain(out: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
}

/// The longest beginning of `text` that has at most `max` bytes and ends between characters.
pub fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// RFC 3339 in UTC with milliseconds. Times that it cannot write are shown as the epoch.
pub fn rfc3339(time: SystemTime) -> String {
    let mut text = String::with_capacity(24);
    if write!(text, "{}", humantime::format_rfc3339_millis(time)).is_err() {
        text.clear();
        text.push_str("1970-01-01T00:00:00.000Z");
    }
    text
}

/// Spelling of a level in JSON and configuration.
const fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// A `fmt::Write` that keeps at most [`MAX_VALUE`] bytes and stops the formatting there, so that a huge
/// `Debug` costs no more than what is shown of it.
#[derive(Debug, Default)]
pub struct Clipped(String);

impl Clipped {
    /// What `args` formats to, cut.
    pub fn of(args: fmt::Arguments<'_>) -> String {
        let mut clipped = Self::default();
        // An error means that it was cut, which is what is wanted.
        let _ = clipped.write_fmt(args);
        clipped.0
    }
}

impl fmt::Write for Clipped {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let kept = clip(s, MAX_VALUE - self.0.len());
        self.0.push_str(kept);
        if kept.len() < s.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
