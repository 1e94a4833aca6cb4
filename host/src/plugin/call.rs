//! What a call asks, what it answers, and every way it can fail. Told apart by type, never by text.

use sluice_core::facts::{AnswerFacts, Candidate, FailureFacts, Moment, PluginKind, RequestFacts, Tag, Vote};
use sluice_core::verdict::Verdict;
use wasmtime::{PoolConcurrencyLimitError, Trap};

/// A question to one plugin.
#[derive(Debug, Clone, Copy)]
pub enum Ask<'a> {
    /// To a router.
    Score(&'a RequestFacts, Moment, &'a [Candidate]),
    /// To a classifier.
    Classify(&'a RequestFacts, Moment, &'a FailureFacts),
    /// To a tagger.
    Tag(&'a RequestFacts, Moment, &'a AnswerFacts),
}

impl Ask<'_> {
    /// The kind of plugin that is asked.
    pub const fn kind(&self) -> PluginKind {
        match self {
            Self::Score(..) => PluginKind::Router,
            Self::Classify(..) => PluginKind::Classifier,
            Self::Tag(..) => PluginKind::Tagger,
        }
    }
}

/// An answer, checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Of a router: one for each candidate.
    Votes(Vec<Vote>),
    /// Of a classifier; none: no opinion.
    Verdict(Option<Verdict>),
    /// Of a tagger.
    Tags(Vec<Tag>),
}

impl Said {
    /// What a router says.
    pub fn votes(self) -> Option<Vec<Vote>> {
        if let Self::Votes(votes) = self { Some(votes) } else { None }
    }

    /// What a classifier says.
    pub fn verdict(self) -> Option<Option<Verdict>> {
        if let Self::Verdict(verdict) = self { Some(verdict) } else { None }
    }

    /// What a tagger says.
    pub fn tags(self) -> Option<Vec<Tag>> {
        if let Self::Tags(tags) = self { Some(tags) } else { None }
    }
}

/// Why a call gave no answer.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum CallError {
    /// The guest trapped: a panic, an exit, an access out of bounds.
    #[error("trapped: {0}")]
    Trap(String),
    /// It ran for longer than its deadline.
    #[error("ran for longer than its deadline")]
    Timeout,
    /// It was refused memory and gave up.
    #[error("needed more memory than its limit of {limit} bytes")]
    Memory {
        /// The limit.
        limit: u64,
    },
    /// It used up its stack.
    #[error("used up its stack")]
    Stack,
    /// It answered something the contract does not allow.
    #[error("answered what the contract does not allow: {0}")]
    Invalid(String),
    /// No place to run was free within its deadline.
    #[error("no place to run was free in time")]
    Saturated,
    /// It is set aside after failures.
    #[error("is set aside after failures in a row")]
    SetAside,
    /// A new instance refused its settings, which the first one had taken.
    #[error("a new instance refused its settings: {0}")]
    Configure(String),
}

impl CallError {
    /// What wasmtime reports, sorted. `refused` is the memory limit if growth was refused during the call.
    pub(super) fn from_wasmtime(error: &wasmtime::Error, refused: Option<u64>) -> Self {
        match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => return Self::Timeout,
            Some(Trap::StackOverflow) => return Self::Stack,
            Some(_) | None => {}
        }
        if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
            return Self::Saturated;
        }
        match refused {
            Some(limit) => Self::Memory { limit },
            None => Self::Trap(brief(error)),
        }
    }

    /// As the metric has it.
    pub const fn result(&self) -> CallResult {
        match self {
            Self::Trap(_) | Self::Configure(_) => CallResult::Trap,
            Self::Timeout => CallResult::Timeout,
            Self::Memory { .. } => CallResult::Memory,
            Self::Stack => CallResult::Stack,
            Self::Invalid(_) => CallResult::Invalid,
            Self::Saturated => CallResult::Saturated,
            Self::SetAside => CallResult::SetAside,
        }
    }
}

/// An error chain in one line, bounded.
pub fn brief(error: &wasmtime::Error) -> String {
    let mut text: String = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
    truncate(&mut text, 1024);
    text
}

/// Cuts at a character boundary, to at most `max` bytes.
pub fn truncate(text: &mut String, max: usize) {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
    }
}

/// `result` of `sluice_plugin_calls_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallResult {
    /// Answered.
    Ok,
    /// A classifier had no opinion.
    None,
    /// See [`CallError::Trap`].
    Trap,
    /// See [`CallError::Timeout`].
    Timeout,
    /// See [`CallError::Memory`].
    Memory,
    /// See [`CallError::Stack`].
    Stack,
    /// See [`CallError::Invalid`].
    Invalid,
    /// See [`CallError::Saturated`].
    Saturated,
    /// See [`CallError::SetAside`].
    SetAside,
}

impl CallResult {
    /// Every value, in order of declaration.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::None,
        Self::Trap,
        Self::Timeout,
        Self::Memory,
        Self::Stack,
        Self::Invalid,
        Self::Saturated,
        Self::SetAside,
    ];

    /// Spelling of the metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::None => "none",
            Self::Trap => "trap",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::Stack => "stack",
            Self::Invalid => "invalid",
            Self::Saturated => "saturated",
            Self::SetAside => "set_aside",
        }
    }

    /// Whether it speaks against the plugin. A full house is not the plugin's fault.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Trap | Self::Timeout | Self::Memory | Self::Stack | Self::Invalid)
    }
}
