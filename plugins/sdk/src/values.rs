//! Small conveniences on the records of the contract.

use crate::{Candidate, FailureFacts, FailureKind, Place, RequestFacts, Sink, Stage, Tag, TargetFacts, Vote};

impl Vote {
    /// A score from 0 (worst) to 1 (best).
    pub const fn score(score: f64) -> Self {
        Self { score: Some(score), reason: None }
    }

    /// Not this one, whatever other routers say.
    pub const fn exclude() -> Self {
        Self { score: None, reason: None }
    }

    /// One vote for each candidate, in their order, which is what a router returns.
    pub fn each(candidates: &[Candidate], vote: impl FnMut(&Candidate) -> Self) -> Vec<Self> {
        candidates.iter().map(vote).collect()
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

impl RequestFacts {
    /// The first request header of this name, in lower case. Only those on `plugins.headers` can be seen.
    pub fn header(&self, name: &str) -> Option<&str> {
        first(&self.headers, name)
    }
}

impl FailureFacts {
    /// The first response header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        first(&self.headers, name)
    }
}

impl TargetFacts {
    /// A free attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        first(&self.attributes, name)
    }

    /// Where a route names the target. None: it does not.
    pub fn place(&self, route: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.route == route)
    }

    /// Price of so many tokens, in the operator's currency. None: a price that is needed is not configured.
    pub fn price(&self, input_tokens: u64, output_tokens: u64) -> Option<f64> {
        let part = |tokens: u64, per_million: Option<f64>| match tokens {
            0 => Some(0.0),
            _ => per_million.map(|price| tokens as f64 * price / 1e6),
        };
        Some(part(input_tokens, self.price_input)? + part(output_tokens, self.price_output)?)
    }
}

impl Candidate {
    /// Median time in milliseconds until this request shows something: to the first content for a stream, else to
    /// the whole answer; where only the other is measured, that. None: not measured yet.
    pub fn typical_ms(&self, streaming: bool) -> Option<f64> {
        either(streaming, self.first_content_p50_ms, self.latency_p50_ms)
    }

    /// The 95th percentile of the same.
    pub fn slow_ms(&self, streaming: bool) -> Option<f64> {
        either(streaming, self.first_content_p95_ms, self.latency_p95_ms)
    }
}

fn either(streaming: bool, first_content: Option<f64>, commit: Option<f64>) -> Option<f64> {
    if streaming { first_content.or(commit) } else { commit.or(first_content) }
}

fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

impl FailureKind {
    /// The kind of this spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::RetryableTimeout,
        Self::RetryableRateLimit,
        Self::RetryableUpstream,
        Self::QuotaExhausted,
        Self::ModelUnavailable,
        Self::ContextLengthExceeded,
        Self::ContentFiltered,
        Self::AuthDenied,
        Self::InvalidRequest,
        Self::GatewaySaturated,
    ];

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

#[cfg(test)]
mod tests;
