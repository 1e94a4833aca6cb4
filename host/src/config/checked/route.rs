//! A route once it is known to be right: its targets, its clocks, what follows a failure.

use std::sync::Arc;
use std::time::Duration;

use super::Target;
use crate::config::RoutePlugins;

/// A route.
#[derive(Debug, Clone)]
pub struct Route {
    /// The name callers put into `model`.
    pub name: Arc<str>,
    /// In configured order; at least one.
    pub targets: Vec<RouteTarget>,
    /// Arrival to commit.
    pub budget: Duration,
    /// Kept for the gateway's own work.
    pub reserve: Duration,
    /// Resolution, TCP, TLS.
    pub connect: Duration,
    /// Left that a switch needs.
    pub min_budget: MinBudget,
    /// Gap between content events; none: off.
    pub idle: Option<Duration>,
    /// Longest stream.
    pub stream_max: Option<Duration>,
    /// Client that reads nothing.
    pub client_write: Option<Duration>,
    /// Comments of our own after commit.
    pub keep_alive: Option<Duration>,
    /// When a stream is shown.
    pub commit: CommitRule,
    /// Switches.
    pub max_switches: u32,
    /// Same-target retries.
    pub retry: Retry,
    /// What a malformed event after commit does.
    pub on_malformed: OnMalformed,
    /// The plugins it asks, where it has a list of its own.
    pub plugins: RoutePlugins,
}

/// A target as one route uses it.
#[derive(Debug, Clone)]
pub struct RouteTarget {
    /// Position in [`Config::targets`].
    pub index: usize,
    /// The target.
    pub target: Arc<Target>,
    /// From sending to commit.
    pub attempt: Duration,
    /// The same for streams: the smaller of the configured `first_content` and `attempt`.
    pub first_content: Duration,
    /// Its own `min_budget`, else the route's.
    pub min_budget: MinBudget,
    /// Tasks it is limited to; none: all.
    pub tasks: Option<Vec<String>>,
    /// Output limit when it serves as a fallback.
    pub fallback_max_tokens: Option<u32>,
    /// For routers.
    pub weight: f64,
}

/// `min_budget`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinBudget {
    /// So much.
    Fixed(Duration),
    /// The target's recent p95 to commit, at least `floor`.
    P95 {
        /// Never below.
        floor: Duration,
    },
}

/// `retry` of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// After an upstream failure, on the same target.
    pub upstream: u32,
    /// After a rate limit with a hint.
    pub rate_limit: u32,
    /// Longest hint waited out.
    pub max_wait: Duration,
    /// First pause.
    pub backoff: Duration,
    /// Longest pause.
    pub backoff_max: Duration,
}

/// `commit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitRule {
    /// At the first event that carries meaning.
    FirstContent,
    /// When the stream has ended well.
    Complete,
}

/// `on_malformed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMalformed {
    /// Dropped and counted.
    Drop,
    /// Ends the stream.
    Fail,
}
