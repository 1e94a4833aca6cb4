//! The configuration once it is known to be right: every name resolved, every range held, every secret read.
//!
//! A wrong state cannot be written down here, so nothing behind this module checks again. How a file
//! becomes this, and every message about one that does not, is in the sibling modules.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use super::caller::Caller;
use super::cors::Cors;
use super::shown::Shown;

pub use super::records::{RecordPlace, Records, Spool};

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
    /// By name.
    pub upstreams: BTreeMap<Arc<str>, Arc<Upstream>>,
    /// Every distinct `upstream/model` that a route names; a plugin knows it by its position here.
    pub targets: Vec<Arc<Target>>,
    /// By name.
    pub routes: BTreeMap<Arc<str>, Arc<Route>>,
    /// The plugins folder and the limits of a call.
    pub plugins: Plugins,
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
    pub plugins: super::RoutePlugins,
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

/// One upstream and one of its models.
#[derive(Debug, Clone)]
pub struct Target {
    /// `upstream/model`: metric label and page key.
    pub key: Arc<str>,
    /// The upstream.
    pub upstream: Arc<Upstream>,
    /// Name of the model there.
    pub model: Arc<str>,
    /// What the configuration says about the model.
    pub facts: Model,
    /// Its own gate beside the upstream's.
    pub max_in_flight: Option<u32>,
}

/// `models.NAME` of an upstream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Model {
    /// Context window, tokens.
    pub context: Option<u32>,
    /// Capabilities; none: not known.
    pub supports: Option<Vec<Capability>>,
    /// Price per million tokens.
    pub price: Option<Price>,
    /// Region.
    pub region: Option<String>,
    /// Free attributes, those of the upstream included.
    pub attributes: BTreeMap<String, String>,
}

/// `supports`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Tool calls.
    Tools,
    /// Images in messages.
    Images,
    /// JSON output.
    Json,
}

impl Capability {
    /// Spelling in the configuration and towards plugins.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Images => "images",
            Self::Json => "json",
        }
    }
}

/// `price`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Per million input tokens.
    pub input: f64,
    /// Per million output tokens.
    pub output: f64,
}

/// One provider account.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Name.
    pub name: Arc<str>,
    /// Scheme, authority, path without a trailing slash; a query is apart.
    pub base: BaseUrl,
    /// Keys, in order; may be empty.
    pub credentials: Vec<Credential>,
    /// Header that carries the key; `authorization` carries `Bearer KEY`.
    pub auth_header: http::HeaderName,
    /// Its gate.
    pub gate: Gate,
    /// Fixed headers.
    pub headers: Vec<(http::HeaderName, SecretString)>,
    /// Idle connections are closed after this.
    pub pool_idle: Duration,
    /// Roots to trust instead of the system's, PEM.
    pub ca_file: Option<PathBuf>,
    /// Background checks.
    pub probe: Probe,
    /// Region.
    pub region: Option<String>,
}

/// A base URL, taken apart once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// `https`.
    pub tls: bool,
    /// Host and port as they go into `host`.
    pub authority: http::uri::Authority,
    /// Path in front of `/chat/completions`, without a trailing slash; may be empty.
    pub path: String,
    /// Query that stays on each call, without `?`.
    pub query: Option<String>,
}

/// A key and where it came from.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The key itself; blank in every `Debug`.
    pub key: SecretString,
    /// `env:NAME` or `file:PATH`, as written.
    pub reference: String,
}

impl PartialEq for Credential {
    fn eq(&self, other: &Self) -> bool {
        self.reference == other.reference && self.key.expose_secret() == other.key.expose_secret()
    }
}

/// `probe` of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// The next call is the probe.
    Passive,
    /// A background check is.
    Active {
        /// Path behind the base.
        path: String,
        /// Between checks.
        interval: Duration,
        /// Of one check.
        timeout: Duration,
    },
}
