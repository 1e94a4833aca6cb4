//! Cases: what a component is asked, and what it should say, as JSON.
//!
//! A file has the settings and targets of one configured plugin and any number of cases. The records are those of the
//! contract, field by field, with `_` for `-`; what a case does not say has a plain default. What it does say has to
//! be right: an unknown field is an error at its line and column.

mod expect;
mod shape;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sluice_core::facts::TargetFacts;

pub use expect::{Expect, said};
pub use shape::Question;

/// Largest file of cases, bytes.
const FILE_MAX: u64 = 4 << 20;

/// One file of cases.
#[derive(Debug)]
pub struct Cases {
    /// JSON object for `configure`; none: what the sidecar says.
    pub settings_json: Option<String>,
    /// The targets it is configured with.
    pub targets: Vec<TargetFacts>,
    /// A part of the words it refuses its settings with; then there are no cases.
    pub refused: Option<String>,
    /// The cases.
    pub cases: Vec<Case>,
}

/// One question and what is expected.
#[derive(Debug)]
pub struct Case {
    /// For people.
    pub name: String,
    /// What is asked.
    pub question: Question,
    /// What should come.
    pub expect: Expect,
}

/// Why there are no cases.
#[derive(Debug, thiserror::Error)]
pub enum CasesError {
    /// It cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// The file or folder.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is larger than any sensible one.
    #[error("{file}: expected at most {FILE_MAX} bytes, it has {size}")]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Its size.
        size: u64,
    },
    /// There is no file of cases.
    #[error("{dir}: expected at least one file that ends in .json, there is none")]
    None {
        /// The folder.
        dir: PathBuf,
    },
    /// It is not what a file of cases looks like.
    #[error("{file}:{line}:{column}: {what}")]
    Shape {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What was expected and what came.
        what: String,
    },
}

/// The files of a folder, in name order.
///
/// # Errors
/// It cannot be listed, or has none.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>, CasesError> {
    let unread = |source| CasesError::Read { file: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(CasesError::None { dir: dir.to_owned() }) } else { Ok(files) }
}

/// Reads one file.
///
/// # Errors
/// The first mistake in it, with its place.
pub fn read(file: &Path) -> Result<Cases, CasesError> {
    let unread = |source| CasesError::Read { file: file.to_owned(), source };
    let size = fs::metadata(file).map_err(unread)?.len();
    if size > FILE_MAX {
        return Err(CasesError::TooLarge { file: file.to_owned(), size });
    }
    parse(file, &fs::read_to_string(file).map_err(unread)?)
}

fn parse(file: &Path, text: &str) -> Result<Cases, CasesError> {
    let whole: Whole = serde_json::from_str(text).map_err(|error| {
        let what = error.to_string();
        // The place is said in front, in the form editors jump to.
        let end = what.rfind(" at line ").unwrap_or(what.len());
        // A mistake of the whole has no place of its own.
        let (line, column) = (error.line().max(1), error.column().max(1));
        CasesError::Shape { file: file.to_owned(), line, column, what: what[..end].to_owned() }
    })?;
    Ok(whole.cases())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    settings: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default)]
    targets: Vec<shape::Target>,
    refused: Option<String>,
    #[serde(default)]
    cases: Vec<OneCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneCaseFields {
    name: String,
    #[serde(default)]
    request: shape::Request,
    candidates: Option<Vec<shape::Candidate>>,
    failure: Option<shape::Failure>,
    answer: Option<shape::Answer>,
    expect: expect::Fields,
}

/// A case whose parts belong together. Checked while it is read, so that a mistake has its place.
#[derive(Deserialize)]
#[serde(try_from = "OneCaseFields")]
struct OneCase(Case);

impl TryFrom<OneCaseFields> for OneCase {
    type Error = String;

    fn try_from(fields: OneCaseFields) -> Result<Self, String> {
        let OneCaseFields { name, request, candidates, failure, answer, expect } = fields;
        let in_case = |text: String| format!("case `{name}`: {text}");
        let question = Question::new(request, candidates, failure, answer).map_err(in_case)?;
        let expect = expect.of(&question).map_err(in_case)?;
        Ok(Self(Case { name, question, expect }))
    }
}

#[derive(Deserialize)]
#[serde(try_from = "File")]
struct Whole(File);

impl TryFrom<File> for Whole {
    type Error = String;

    fn try_from(file: File) -> Result<Self, String> {
        match (&file.refused, file.cases.is_empty()) {
            (None, true) => {
                Err("expected `cases`, or `refused` where the settings are to be refused".to_owned())
            }
            (Some(_), false) => {
                Err("expected either `refused` or `cases`: a plugin that is refused is not asked".to_owned())
            }
            _ => Ok(Self(file)),
        }
    }
}

impl Whole {
    fn cases(self) -> Cases {
        let File { settings, targets, refused, cases } = self.0;
        let cases: Vec<Case> = cases.into_iter().map(|case| case.0).collect();
        // Without targets, plain ones for every index that a case names.
        let named = cases.iter().filter_map(|case| case.question.highest_target()).max();
        let count = if targets.is_empty() { named.map_or(1, |highest| highest + 1) } else { 0 };
        let plain = (0..count).map(|_| shape::Target::default());
        let targets =
            targets.into_iter().chain(plain).zip(0..).map(|(target, index)| target.facts(index)).collect();
        let settings_json = settings.map(|settings| serde_json::Value::Object(settings).to_string());
        Cases { settings_json, targets, refused, cases }
    }
}

#[cfg(test)]
mod tests;
