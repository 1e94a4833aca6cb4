//! Reading the words of the grammar: arguments, durations, and the nearest known word for a slip.

use std::fmt;
use std::time::Duration;

use super::behaviour::{BehaviourError, GRAMMAR};

/// Longest pause a word may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(3600);
/// Most chunks a word may count.
const MAX_CHUNKS: u32 = 1_000_000;

pub(super) const A_DURATION: &str =
    "a duration of at most one hour (a whole number and `ms`, `s`, `m` or `h`)";
const A_STATUS: &str = "a status from 300 to 599";
const A_COUNT: &str = "a number of chunks up to 1000000";

/// A word of the grammar while its argument is read.
pub(super) struct Word {
    pub(super) name: &'static str,
    pub(super) example: &'static str,
}

impl Word {
    pub(super) fn missing(&self, wants: &'static str) -> BehaviourError {
        BehaviourError::Missing { word: self.name, wants, example: self.example }
    }

    fn wrong(&self, wants: &'static str, got: &str) -> BehaviourError {
        let got = got.chars().take(64).collect();
        BehaviourError::Argument { word: self.name, wants, got, example: self.example }
    }

    pub(super) fn duration(&self, text: &str) -> Result<Duration, BehaviourError> {
        let pause = duration(text).filter(|pause| *pause <= MAX_PAUSE);
        pause.ok_or_else(|| self.wrong(A_DURATION, text))
    }

    pub(super) fn count(&self, text: &str) -> Result<u32, BehaviourError> {
        let count = digits(text).and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= MAX_CHUNKS);
        count.ok_or_else(|| self.wrong(A_COUNT, text))
    }

    pub(super) fn needed_count(&self, text: Option<&str>) -> Result<u32, BehaviourError> {
        self.count(text.ok_or_else(|| self.missing(A_COUNT))?)
    }

    pub(super) fn status(&self, text: Option<&str>) -> Result<u16, BehaviourError> {
        let text = text.ok_or_else(|| self.missing(A_STATUS))?;
        let status = digits(text).and_then(|n| u16::try_from(n).ok()).filter(|n| (300..600).contains(n));
        status.ok_or_else(|| self.wrong(A_STATUS, text))
    }
}

/// A whole number of `ms`, `s`, `m` or `h`; none for anything else.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number = digits(number)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

/// Digits and nothing else: the parser of the standard library also takes a sign.
fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

pub(super) fn words() -> impl fmt::Display {
    GRAMMAR.iter().map(|(word, _, _)| *word).collect::<Vec<_>>().join(", ")
}

/// The known word whose letters are nearest to what came.
pub(super) fn hint(got: &str) -> String {
    let word = got.split(['-', '+']).next().unwrap_or(got);
    let near = GRAMMAR
        .iter()
        .map(|(_, example, _)| (distance(word, example.split('-').next().unwrap_or(example)), example))
        .min_by_key(|(far, _)| *far);
    match near {
        Some((far, example)) if far <= 2 => format!(" (did you mean `{example}`?)"),
        _ => String::new(),
    }
}

/// Insertions, deletions and replacements between two short words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut left_above = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (left_above + usize::from(x != *y)).min(above + 1).min(row[j] + 1);
            left_above = above;
        }
    }
    row.last().copied().unwrap_or_default()
}
