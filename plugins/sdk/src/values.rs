//! Small conveniences on the records of the contract.

use crate::{FailureKind, Sink, Stage, Tag, Vote};

impl Vote {
    /// A score from 0 (worst) to 1 (best).
    pub const fn score(score: f64) -> Self {
        Self { score: Some(score), reason: None }
    }

    /// Not this one, whatever other routers say.
    pub const fn exclude() -> Self {
        Self { score: None, reason: None }
    }

    /// Adds the reason, for people who look at the decision.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }
}

impl Tag {
    /// A response header.
    pub fn header(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), sink: Sink::Header }
    }

    /// A field of the request's record.
    pub fn record(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), sink: Sink::Record }
    }
}

impl FailureKind {
    /// The spelling used in metrics, headers and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetryableTimeout => "retryable_timeout",
            Self::RetryableRateLimit => "retryable_rate_limit",
            Self::RetryableUpstream => "retryable_upstream",
            Self::QuotaExhausted => "quota_exhausted",
            Self::ModelUnavailable => "model_unavailable",
            Self::ContextLengthExceeded => "context_length_exceeded",
            Self::ContentFiltered => "content_filtered",
            Self::AuthDenied => "auth_denied",
            Self::InvalidRequest => "invalid_request",
            Self::GatewaySaturated => "gateway_saturated",
        }
    }
}

impl Stage {
    /// The answer had been committed: the caller has content, and nothing can replace it any more.
    pub const fn is_after_commit(self) -> bool {
        matches!(self, Self::Stream)
    }
}
