//! The configuration once it is known to be right: every name resolved, every range held, every secret read.
//!
//! A wrong state cannot be written down here, so nothing behind this module checks again. How a file
//! becomes this, and every message about one that does not, is in the sibling modules.

mod route;
mod upstream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::caller::Caller;
use super::cors::Cors;
use super::shown::Shown;
use super::tls::Tls;
use super::traces::Traces;

pub use super::records::{RecordPlace, Records, Spool};
pub use route::{CommitRule, MinBudget, OnMalformed, Retry, Route, RouteTarget};
pub use upstream::{BaseUrl, Capability, Credential, Model, Price, Probe, Target, Upstream};

/// One whole configuration. Immutable; a reload makes a new one.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file it came from, as given; none for one built in memory (`sluice demo`).
    pub file: Option<PathBuf>,
    /// What the file says, for people, without any secret.
    pub shown: Shown,
    /// Main listener.
    pub listen: SocketAddr,
    /// Admin listener.
    pub admin: SocketAddr,
    /// How the main listener speaks TLS; none: plain text.
    pub tls: Option<Tls>,
    /// The same of the admin listener.
    pub admin_tls: Option<Tls>,
    /// By name.
    pub upstreams: BTreeMap<Arc<str>, Arc<Upstream>>,
    /// Every distinct `upstream/model` that a route names; a plugin knows it by its position here.
    pub targets: Vec<Arc<Target>>,
    /// By name.
    pub routes: BTreeMap<Arc<str>, Arc<Route>>,
    /// The plugins folder and the limits of a call.
    pub plugins: Plugins,
    /// Somebody named that folder: it is not the one by default.
    pub plugins_dir_named: bool,
    /// Last good plugin bytes and record spool.
    pub state_dir: PathBuf,
    /// Breakers and cool-downs.
    pub breaker: Breaker,
    /// The global gate.
    pub gates: Gate,
    /// Retries and switches against calls.
    pub retry_budget: RetryBudget,
    /// Who may call, in configured order; none: whoever reaches the listener.
    pub callers: Vec<Arc<Caller>>,
    /// Who may call from a browser; none: nobody.
    pub cors: Option<Arc<Cors>>,
    /// Bounds in bytes and events.
    pub limits: Limits,
    /// `drain`.
    pub drain: Drain,
    /// `readiness`.
    pub readiness: Readiness,
    /// Ask streams for usage and hide the event from callers who did not.
    pub account_usage: bool,
    /// Request headers sent upstream beside the fixed ones, lower case.
    pub forward_headers: Vec<http::HeaderName>,
    /// Response headers passed back, lower case.
    pub return_headers: Vec<http::HeaderName>,
    /// `tags`.
    pub tags: Tags,
    /// `log`.
    pub log: Log,
    /// Where records are kept; none: nowhere.
    pub records: Option<Records>,
    /// Where spans go; none: there are none.
    pub traces: Option<Traces>,
    /// Kept for `/debug/decisions`.
    pub decisions: usize,
}

/// The most linear memory that the engine has for one instance of a plugin, bytes.
pub const PLUGIN_MEMORY_MAX: u64 = 64 << 20;

/// `plugins`.
#[derive(Debug, Clone, PartialEq)]
pub struct Plugins {
    /// The watched folder.
    pub dir: PathBuf,
    /// Request headers plugins may see, lower case.
    pub headers: Vec<http::HeaderName>,
    /// Running time of one call.
    pub deadline: Duration,
    /// Linear memory of one instance, bytes; at most [`PLUGIN_MEMORY_MAX`].
    pub memory: u64,
    /// Calls of one plugin at a time.
    pub concurrency: u32,
    /// Quiet time before a changed folder is read.
    pub settle: Duration,
    /// Between scans without events.
    pub rescan: Duration,
    /// First minutes in which a failing version is rolled back.
    pub probation: Duration,
    /// Largest plugin file, bytes.
    pub max_file: u64,
}

/// `breaker`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Breaker {
    /// Counted failures in a row that open it.
    pub consecutive: u32,
    /// The rate rule; none: off.
    pub rate: Option<BreakerRate>,
    /// First open period.
    pub open: Duration,
    /// Longest open period.
    pub open_max: Duration,
    /// Cool-downs without a hint.
    pub cooldown: Cooldown,
}

/// `breaker.rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerRate {
    /// Calls looked at.
    pub window: u32,
    /// Calls needed.
    pub min: u32,
    /// Share of failures that opens.
    pub ratio: f64,
}

/// `breaker.cooldown`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cooldown {
    /// A credential after 429 without hint.
    pub rate_limit: Duration,
    /// A target after 404.
    pub model: Duration,
    /// A credential after quota.
    pub quota: Duration,
    /// A credential after 401 or 403.
    pub auth: Duration,
    /// Ceiling of any hint.
    pub max: Duration,
}

/// A gate: how many run, how many wait, how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Permits.
    pub max_in_flight: u32,
    /// Waiters; 0: nobody waits.
    pub queue: u32,
    /// Longest wait.
    pub queue_wait: Duration,
}

/// `retry_budget`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryBudget {
    /// Retries and switches per call.
    pub ratio: f64,
    /// Always allowed, per second.
    pub min_per_second: u32,
    /// Time looked at.
    pub window: Duration,
}

/// `limits`, in bytes but for `held_events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Request body.
    pub body: u64,
    /// Non-streaming answer, or a stream held by `commit: complete`.
    pub answer: u64,
    /// One event.
    pub event: u64,
    /// Error body that is read.
    pub error_body: u64,
    /// Events held before commit.
    pub held_events: u32,
    /// Bytes held before commit.
    pub held_bytes: u64,
}

/// `drain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// Calls are still served for this long.
    pub window: Duration,
    /// Streams may run for this long.
    pub limit: Duration,
}

/// `readiness`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Some target of some route can take a call.
    Targets,
    /// The process serves.
    Process,
}

/// `tags`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tags {
    /// Add a `sluice` object to non-streaming answers.
    pub in_body: bool,
    /// Callers may see upstream and served model.
    pub expose_upstream: bool,
    /// Header name by short name (`route`, `model`, …); none: off. Only what differs from the default.
    pub names: BTreeMap<String, Option<String>>,
}

/// `log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Filter as `RUST_LOG` has it; already overridden by the environment.
    pub level: String,
    /// Form of lines.
    pub format: LogFormat,
    /// One line for each request.
    pub records: bool,
}

/// `log.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}
