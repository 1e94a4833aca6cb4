//! The readers of single values: one for each type that the reference has.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::super::tree::Value;
use super::super::{suggest, units};
use super::Field;

/// The shortest duration where none at all would be senseless.
pub(in crate::config) const SOME: Duration = Duration::from_millis(1);

impl<'a> Field<'a> {
    /// Plain text of this field, or none with a word about its type.
    fn plain(&self, what: &str) -> Option<&'a str> {
        let node = self.node?;
        match &node.value {
            Value::Plain(text) if !node.is_null() => Some(text),
            _ => {
                self.expected(node, what);
                None
            }
        }
    }

    /// Text of any style that `read` understands; `what` says what that is.
    fn parsed<T>(&self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let node = self.node?;
        let value = match &node.value {
            Value::Plain(text) | Value::Quoted(text) => read(text),
            Value::List(_) | Value::Map(_) => None,
        };
        if value.is_none() {
            match node.kind() {
                "text" => self.error(format!("expected {what}")),
                _ => self.expected(node, what),
            }
        }
        value
    }

    /// Text that is not empty. A number or `true` must be quoted to be one.
    pub(in crate::config) fn text(&self, what: &str) -> Option<&'a str> {
        let node = self.node?;
        match &node.value {
            Value::Plain(text) | Value::Quoted(text) if node.kind() == "text" => {
                if text.is_empty() {
                    self.error(format!("expected {what}, found an empty text"));
                }
                (!text.is_empty()).then_some(text)
            }
            _ => {
                self.expected(node, what);
                None
            }
        }
    }

    /// The text if this field is one, without a word if not: for fields that may also be a map.
    pub(in crate::config) fn maybe_text(&self) -> Option<&'a str> {
        match &self.node?.value {
            Value::Plain(text) | Value::Quoted(text) => Some(text),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    pub(in crate::config) fn flag(&self) -> Option<bool> {
        match self.plain("true or false")? {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                self.error("expected true or false");
                None
            }
        }
    }

    pub(in crate::config) fn count(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let (low, high) = (*range.start(), *range.end());
        let text = self.plain("a whole number")?;
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            self.error(format!("expected a whole number from {low} to {high}"));
            return None;
        }
        let number = text.parse::<u32>().ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.error(format!("must be from {low} to {high}"));
        }
        number
    }

    pub(in crate::config) fn decimal(&self, range: RangeInclusive<f64>) -> Option<f64> {
        let text = self.plain("a number")?;
        // Rust reads more than YAML does ("inf", "nan"); the digit rules those out.
        let number =
            text.parse::<f64>().ok().filter(|n| n.is_finite() && text.contains(|c: char| c.is_ascii_digit()));
        let Some(number) = number else {
            self.error("expected a number");
            return None;
        };
        let fits = range.contains(&number);
        if !fits {
            self.error(format!("must be from {} to {}", range.start(), range.end()));
        }
        fits.then_some(number)
    }

    pub(in crate::config) fn duration(&self, least: Duration) -> Option<Duration> {
        let duration =
            self.parsed("a duration such as 30s (a whole number and ms, s, m or h)", units::duration)?;
        self.duration_in_range(duration, least)
    }

    fn duration_in_range(&self, duration: Duration, least: Duration) -> Option<Duration> {
        if duration < least {
            self.error(format!("must be at least {}", units::show_duration(least)));
        } else if duration > units::LONGEST {
            self.error(format!("must be at most {}", units::show_duration(units::LONGEST)));
        }
        (least..=units::LONGEST).contains(&duration).then_some(duration)
    }

    /// A duration, or the one word that may stand in its place, as what they mean.
    pub(in crate::config) fn duration_or<T>(
        &self,
        (word, of_word): (&str, T),
        of: impl FnOnce(Duration) -> T,
        what: &str,
        least: Duration,
    ) -> Option<T> {
        let read = |text: &str| if text == word { Some(None) } else { units::duration(text).map(Some) };
        match self.parsed(what, read)? {
            None => Some(of_word),
            Some(duration) => self.duration_in_range(duration, least).map(of),
        }
    }

    /// Bytes.
    pub(in crate::config) fn size(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let what = "a size such as 16MiB (a whole number and B, KB, MB, GB, KiB, MiB or GiB)";
        let size = self.parsed(what, units::size)?;
        if !range.contains(&size) {
            let (low, high) = (units::show_size(*range.start()), units::show_size(*range.end()));
            self.error(format!("must be from {low} to {high}"));
        }
        range.contains(&size).then_some(size)
    }

    /// One of a few words.
    pub(in crate::config) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let node = self.node?;
        let listed: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let listed = listed.join(" or ");
        let Some(text) = self.maybe_text() else {
            self.expected(node, &listed);
            return None;
        };
        let found = words.iter().find(|(word, _)| *word == text).map(|&(_, value)| value);
        if found.is_none() {
            let hint = if words.len() > 1 {
                suggest::hint(text, words.iter().map(|(word, _)| *word))
            } else {
                String::new()
            };
            self.error(format!("expected {listed}{hint}"));
        }
        found
    }

    /// A path; a relative one starts at the folder of the file.
    pub(in crate::config) fn path(&self) -> Option<PathBuf> {
        let path = self.text("a path")?;
        if path.contains('\0') {
            self.error("a path cannot hold a NUL character");
            return None;
        }
        Some(self.cx.at(path))
    }
}
