//! A mistake and its place, and the form in which people and metrics see it.

use std::fmt;
use std::path::{Path, PathBuf};

/// Path of what concerns the file as a whole.
pub(super) const WHOLE_FILE: &str = "(file)";

/// A place in the file. Both count from 1; columns count characters, not bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pos {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Pos {
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

/// One mistake or warning. `text` says what was expected, never what the file holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Dotted keys down to the value, or `(file)`.
    pub path: String,
    /// One line.
    pub text: String,
}

impl Finding {
    pub(super) fn new(at: Pos, path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { line: at.line, column: at.column, path: path.into(), text: text.into() }
    }

    pub(super) fn of_file(text: impl Into<String>) -> Self {
        Self::new(Pos::START, WHOLE_FILE, text)
    }

    /// The line that people read: `FILE:LINE:COL: key.path: text`.
    #[must_use]
    pub fn line_for(&self, file: &Path) -> String {
        format!("{}:{}:{}: {}: {}", file.display(), self.line, self.column, self.path, self.text)
    }

    /// The same for one that stops nothing: `FILE:LINE:COL: key.path: warning: text`.
    #[must_use]
    pub fn line_for_warning(&self, file: &Path) -> String {
        format!("{}:{}:{}: {}: warning: {}", file.display(), self.line, self.column, self.path, self.text)
    }
}

/// How far a refused file came; label `reason` of `sluice_config_reloads_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// There was no text to look at.
    Read,
    /// The text is not YAML, or YAML beyond the bounds.
    Syntax,
    /// It is YAML, but not a configuration.
    Invalid,
}

impl ErrorClass {
    /// Spelling as a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Syntax => "syntax",
            Self::Invalid => "invalid",
        }
    }
}

/// Everything that is wrong with a file, sorted by place; at least one. Prints one line for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    /// As it was named to [`load`](super::load).
    pub file: PathBuf,
    /// How far it came.
    pub kind: ErrorClass,
    /// Sorted, without duplicates.
    pub findings: Vec<Finding>,
}

impl ConfigErrors {
    pub(super) fn new(file: &Path, kind: ErrorClass, findings: Vec<Finding>) -> Self {
        Self { file: file.to_owned(), kind, findings }
    }

    pub(super) fn one(file: &Path, kind: ErrorClass, finding: Finding) -> Self {
        Self::new(file, kind, vec![finding])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, finding) in self.findings.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&finding.line_for(&self.file))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
