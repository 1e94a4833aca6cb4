//! What is drilled: which routes, in which form, with which failures, how much at a time.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::mock::{Act, Behaviour};

/// One drill.
#[derive(Debug, Clone)]
pub struct Order {
    /// The configuration.
    pub config: PathBuf,
    /// Routes; none: all.
    pub routes: Vec<String>,
    /// Scenarios, each once, the healthy one first.
    pub scenarios: Vec<Scenario>,
    /// Forms of the calls.
    pub forms: Vec<Form>,
    /// Headers of every call, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Calls of each scenario.
    pub requests: usize,
    /// Calls at a time.
    pub concurrency: usize,
    /// How many times as long as in the healthy scenario the P99 may be.
    pub max_p99_ratio: Option<f64>,
    /// For all of it.
    pub timeout: Duration,
    /// One JSON document in the place of the table.
    pub json: bool,
}

/// How an answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As a stream.
    Stream,
    /// As one body.
    Plain,
}

impl Form {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stream, Self::Plain];

    /// As the command line and the JSON document spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Plain => "plain",
        }
    }
}

/// What the first choice does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// It answers.
    Healthy,
    /// 503 to every call.
    Unavailable,
    /// 429 without a hint to every call.
    RateLimited,
    /// It reads the call and says nothing, for longer than any limit.
    Slow,
    /// Three words, or half a body, and the connection ends.
    Cut,
}

impl Scenario {
    /// All, in the order in which they are played.
    pub const ALL: [Self; 5] = [Self::Healthy, Self::Unavailable, Self::RateLimited, Self::Slow, Self::Cut];

    /// As the command line and the JSON document spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unavailable => "503",
            Self::RateLimited => "429",
            Self::Slow => "slow",
            Self::Cut => "cut",
        }
    }

    /// What a stand-in does then.
    pub fn behaviour(self) -> Behaviour {
        let act = match self {
            Self::Healthy => Act::Healthy,
            Self::Unavailable => Act::Status(503),
            Self::RateLimited => Act::RateLimit(None),
            Self::Slow => Act::Silent,
            Self::Cut => Act::Cut(3),
        };
        Behaviour { slow: Duration::ZERO, act }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        one_of(&Self::ALL, Self::as_str, text)
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        one_of(&Self::ALL, Self::as_str, text)
    }
}

fn one_of<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, text: &str) -> Result<T, String> {
    all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| name(*one)).collect();
        format!("expected one of {}", names.join(", "))
    })
}
