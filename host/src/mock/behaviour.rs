//! What a scripted upstream can do to a call, and the one grammar that names it.
//!
//! The same words are the `--behave` flag and, behind `mock-`, the model names that choose a behaviour
//! for a single call: `mock-cut-3`, `mock-slow-300ms+status-503`. A word that is none is an error with
//! the nearest known one; nothing falls back to healthy because of a typing slip.

use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use super::word::{A_DURATION, Word, hint, words};

/// A model name that starts so is a behaviour.
pub const MODEL_PREFIX: &str = "mock-";

/// Every word with an example and what it does, in the order of the help text.
pub const GRAMMAR: &[(&str, &str, &str)] = &[
    ("healthy", "healthy", "a complete answer"),
    ("status-CODE", "status-503", "that HTTP status (300 to 599) with an OpenAI error body"),
    ("429[-DURATION]", "429-2s", "rate limited; with a duration, a Retry-After hint of so long"),
    ("quota", "quota", "429 insufficient_quota"),
    ("context", "context", "400 context_length_exceeded"),
    ("filter", "filter", "400 content_filter"),
    (
        "slow-DURATION[+WORD]",
        "slow-1500ms",
        "the head at once, the first token so late; with WORD, that, so late",
    ),
    ("silent", "silent", "reads the request and never answers"),
    ("reset", "reset", "TCP reset before the head"),
    ("empty", "empty", "200 and a body of no bytes"),
    ("role-cut", "role-cut", "the role delta, then the connection ends"),
    ("cut-N", "cut-3", "N chunks of text, then the connection ends without a proper end of body"),
    ("stall-N", "stall-2", "N chunks of text, then nothing more"),
    ("error[-N]", "error-2", "an error object in the stream: first of all, or after N chunks"),
    ("malformed[-N]", "malformed-1", "an event that is no JSON after N chunks (0), the rest healthy"),
    ("no-done", "no-done", "healthy, but without the [DONE] event"),
    ("fail-DURATION", "fail-10s", "503 for so long after the start (or the last reset), then healthy"),
];

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behaviour {
    /// Waited before the first token, or before anything when there is none.
    pub slow: Duration,
    /// What comes then.
    pub act: Act,
}

/// The closed set of acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Act {
    /// A complete answer.
    #[default]
    Healthy,
    /// An HTTP error.
    Status(u16),
    /// 429, with a hint when there is one.
    RateLimit(Option<Duration>),
    /// 429 `insufficient_quota`.
    Quota,
    /// 400 `context_length_exceeded`.
    Context,
    /// 400 `content_filter`.
    Filter,
    /// No answer at all.
    Silent,
    /// TCP reset before the head.
    Reset,
    /// 200 without a byte of body.
    Empty,
    /// The role delta, then a cut.
    RoleCut,
    /// A cut after so many chunks.
    Cut(u32),
    /// Silence after so many chunks.
    Stall(u32),
    /// An error object after so many chunks.
    Error(u32),
    /// An event that is no JSON after so many chunks.
    Malformed(u32),
    /// No `[DONE]`.
    NoDone,
    /// 503 until so long after the start, then healthy.
    FailFor(Duration),
}

impl Act {
    /// A bounded name for counters: the word without its number.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Status(_) => "status",
            Self::RateLimit(_) => "429",
            Self::Quota => "quota",
            Self::Context => "context",
            Self::Filter => "filter",
            Self::Silent => "silent",
            Self::Reset => "reset",
            Self::Empty => "empty",
            Self::RoleCut => "role-cut",
            Self::Cut(_) => "cut",
            Self::Stall(_) => "stall",
            Self::Error(_) => "error",
            Self::Malformed(_) => "malformed",
            Self::NoDone => "no-done",
            Self::FailFor(_) => "fail",
        }
    }
}

/// Why a word names no behaviour.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BehaviourError {
    /// No word starts like this.
    #[error("unknown behaviour `{got}`{}; the words are {}", hint(.got), words())]
    Unknown {
        /// As given.
        got: String,
    },
    /// The word needs a number or duration that is not there.
    #[error("`{word}` needs {wants}, as in `{example}`")]
    Missing {
        /// As given.
        word: &'static str,
        /// What is missing.
        wants: &'static str,
        /// A right one.
        example: &'static str,
    },
    /// What follows the word is not what it takes.
    #[error("`{word}` takes {wants}, not `{got}`, as in `{example}`")]
    Argument {
        /// The word.
        word: &'static str,
        /// What it takes.
        wants: &'static str,
        /// What came.
        got: String,
        /// A right one.
        example: &'static str,
    },
}

/// The behaviour a model name asks for.
///
/// # Errors
/// None for a name without the prefix is `Ok(None)`; a name with it must be a word of the grammar.
pub fn of_model(model: &str) -> Result<Option<Behaviour>, BehaviourError> {
    model.strip_prefix(MODEL_PREFIX).map(str::parse).transpose()
}

impl FromStr for Behaviour {
    type Err = BehaviourError;

    fn from_str(text: &str) -> Result<Self, BehaviourError> {
        let Some(rest) = text.strip_prefix("slow") else {
            return Ok(Self { slow: Duration::ZERO, act: act(text)? });
        };
        let (pause, then) = match rest.split_once('+') {
            Some((pause, then)) => (pause, Some(then)),
            None => (rest, None),
        };
        let word = Word { name: "slow-DURATION", example: "slow-1500ms" };
        let slow = match argument(pause).ok_or_else(|| unknown(text))? {
            None => return Err(word.missing(A_DURATION)),
            Some(value) => word.duration(value)?,
        };
        Ok(Self { slow, act: then.map(act).transpose()?.unwrap_or_default() })
    }
}

/// Words that take nothing.
const PLAIN: &[(&str, Act)] = &[
    ("healthy", Act::Healthy),
    ("quota", Act::Quota),
    ("context", Act::Context),
    ("filter", Act::Filter),
    ("silent", Act::Silent),
    ("reset", Act::Reset),
    ("empty", Act::Empty),
    ("role-cut", Act::RoleCut),
    ("no-done", Act::NoDone),
];

fn act(text: &str) -> Result<Act, BehaviourError> {
    if let Some((_, act)) = PLAIN.iter().find(|(word, _)| *word == text) {
        return Ok(*act);
    }
    let (word, value) = match text.split_once('-') {
        Some((word, value)) => (word, Some(value)),
        None => (text, None),
    };
    match (word, value) {
        ("status", value) => {
            Word { name: "status-CODE", example: "status-503" }.status(value).map(Act::Status)
        }
        ("429", None) => Ok(Act::RateLimit(None)),
        ("429", Some(value)) => {
            let hint = Word { name: "429-DURATION", example: "429-2s" }.duration(value)?;
            Ok(Act::RateLimit(Some(hint)))
        }
        ("cut", value) => Word { name: "cut-N", example: "cut-3" }.needed_count(value).map(Act::Cut),
        ("stall", value) => Word { name: "stall-N", example: "stall-2" }.needed_count(value).map(Act::Stall),
        ("error", value) => {
            Word { name: "error-N", example: "error-2" }.count(value.unwrap_or("0")).map(Act::Error)
        }
        ("malformed", value) => Word { name: "malformed-N", example: "malformed-1" }
            .count(value.unwrap_or("0"))
            .map(Act::Malformed),
        ("fail", value) => {
            let word = Word { name: "fail-DURATION", example: "fail-10s" };
            let value = value.ok_or_else(|| word.missing(A_DURATION))?;
            word.duration(value).map(Act::FailFor)
        }
        _ => Err(unknown(text)),
    }
}

/// What follows a word: none when the word is glued to more letters, `Some(None)` when nothing follows.
fn argument(rest: &str) -> Option<Option<&str>> {
    match rest {
        "" | "-" => Some(None),
        _ => rest.strip_prefix('-').map(Some),
    }
}

fn unknown(text: &str) -> BehaviourError {
    BehaviourError::Unknown { got: text.chars().take(64).collect() }
}

#[cfg(test)]
mod tests;
