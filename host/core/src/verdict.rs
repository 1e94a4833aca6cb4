//! What a failure means: the advice of a classifier, in the host's own types. Whether the advice can be
//! followed is decided in [`crate::decide`].

use std::time::Duration;

use crate::kind::FailureKind;

/// What a classifier would do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// End the request with this failure.
    GiveUp,
    /// Try the same target again, after this wait or the host's own pause.
    RetrySame(Option<Duration>),
    /// Go on to the next target.
    Switch,
}

impl Action {
    /// Spelling for `/debug/decisions`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GiveUp => "give_up",
            Self::RetrySame(_) => "retry_same",
            Self::Switch => "switch",
        }
    }
}

/// What the breaker learns from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerEffect {
    /// One failure.
    Count,
    /// Nothing.
    Ignore,
    /// Open at once.
    Open,
}

impl BreakerEffect {
    /// Spelling for `/debug/decisions`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Ignore => "ignore",
            Self::Open => "open",
        }
    }
}

/// The meaning of one failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What it was.
    pub kind: FailureKind,
    /// What to do next.
    pub action: Action,
    /// What the breaker learns.
    pub breaker: BreakerEffect,
    /// Leave the target alone for so long, without touching its breaker.
    pub cool_down: Option<Duration>,
    /// Status for the caller if this failure ends the request; 400 to 599.
    pub client_status: Option<u16>,
}
