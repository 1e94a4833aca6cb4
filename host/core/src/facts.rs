//! The facts that cross to plugins and the advice that comes back, in the host's own types. One adapter
//! for each contract version translates them (`host/src/plugin/contract`); see `wit/` for units and ranges.

use std::sync::Arc;
use std::time::Duration;

use crate::kind::{FailureKind, Outcome, Stage, TransportError};
use crate::verdict::Verdict;

/// A route that names a target.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Name of the route.
    pub route: String,
    /// Position in its configured order.
    pub position: u32,
    /// Configured weight.
    pub weight: f64,
}

/// What never changes about a target within a generation.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetFacts {
    /// Number by which plugins know it.
    pub index: u32,
    /// Name of the upstream.
    pub upstream: String,
    /// Name of the model there.
    pub model: String,
    /// Routes that name it.
    pub places: Vec<Place>,
    /// Price per million input tokens.
    pub price_input: Option<f64>,
    /// Price per million output tokens.
    pub price_output: Option<f64>,
    /// Context window in tokens.
    pub context: Option<u32>,
    /// Declared support; none: not known.
    pub capabilities: Option<Vec<String>>,
    /// Region of the model, else of its upstream.
    pub region: Option<String>,
    /// Free attributes.
    pub attributes: Vec<(String, String)>,
}

/// What is known about a request once its body was read. Immutable for its life.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestFacts {
    /// Request id.
    pub id: Arc<str>,
    /// The requested name.
    pub model: Arc<str>,
    /// `x-sluice-task`.
    pub task: Option<String>,
    /// Name of the caller's key.
    pub caller: Option<Arc<str>>,
    /// Estimated input tokens.
    pub input_tokens: u32,
    /// Output limit the caller set.
    pub max_output_tokens: Option<u32>,
    /// A stream was asked for.
    pub streaming: bool,
    /// Tools are offered.
    pub tools: bool,
    /// A message carries an image.
    pub images: bool,
    /// JSON output is asked for.
    pub json_output: bool,
    /// Number of messages.
    pub messages: u32,
    /// Hash of cache key, session or user.
    pub affinity: Option<u64>,
    /// Request headers on the plugins' allow-list.
    pub headers: Vec<(String, String)>,
    /// Random number of this request.
    pub seed: u64,
}

/// What changes about a request from call to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Number of the attempt that is decided on.
    pub attempt: u32,
    /// Left until the deadline.
    pub budget_left: Duration,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// State of a breaker, as plugins, pages and metrics see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Letting calls through.
    Closed,
    /// Letting one probe through.
    HalfOpen,
    /// Refusing.
    Open,
}

impl BreakerState {
    /// Spelling for pages and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

/// A target that can take the call, as a router sees it. Numbers only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Index of the target.
    pub target: u32,
    /// Share of answered attempts in the last minute; 1 without samples.
    pub health: f64,
    /// Attempts behind `health`.
    pub samples: u32,
    /// Median time to commit, ms.
    pub latency_p50_ms: Option<f64>,
    /// 95th percentile of it, ms.
    pub latency_p95_ms: Option<f64>,
    /// Median time to first content, ms.
    pub first_content_p50_ms: Option<f64>,
    /// 95th percentile of it, ms.
    pub first_content_p95_ms: Option<f64>,
    /// Attempts running.
    pub in_flight: u32,
    /// Attempts its gate lets run.
    pub capacity: u32,
    /// Share of the provider's quota left.
    pub quota_left: Option<f64>,
    /// Cool-down left, ms.
    pub cool_down_ms: u32,
    /// State of its breaker.
    pub breaker: BreakerState,
    /// Counted failures in a row.
    pub failures: u32,
    /// Already tried for this request.
    pub tried: bool,
}

/// What one router thinks of one candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Vote {
    /// 0 to 1; none excludes.
    pub score: Option<f64>,
    /// Why.
    pub reason: Option<String>,
}

/// A failed attempt, as a classifier sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureFacts {
    /// Index of the target.
    pub target: u32,
    /// How far it had come.
    pub stage: Stage,
    /// What went wrong below HTTP.
    pub transport_error: Option<TransportError>,
    /// Status of the answer.
    pub status: Option<u16>,
    /// Response headers about errors and limits.
    pub headers: Vec<(String, String)>,
    /// `error.type`.
    pub error_type: Option<String>,
    /// `error.code`, numbers as text.
    pub error_code: Option<String>,
    /// First 4 KiB of the error body.
    pub body: String,
    /// The wait the upstream asked for.
    pub retry_after: Option<Duration>,
    /// Since the attempt began.
    pub elapsed: Duration,
    /// Another credential of the same upstream could be used.
    pub other_credential: bool,
}

/// When taggers are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagPhase {
    /// The head of the answer is made.
    Head,
    /// The request has ended.
    Record,
}

/// One attempt, as a tagger sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptFacts {
    /// Index of the target.
    pub target: u32,
    /// Why it failed; none: it serves.
    pub kind: Option<FailureKind>,
    /// Status of the answer.
    pub status: Option<u16>,
    /// From its begin to its failure or commit.
    pub took: Duration,
}

/// Tokens of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// The host's own estimate.
    pub estimated: bool,
}

/// How a request went so far, as a tagger sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerFacts {
    /// When the call is made.
    pub phase: TagPhase,
    /// Index of the target that serves.
    pub served: Option<u32>,
    /// The served target is not the first choice.
    pub degraded: bool,
    /// Kind of the first failure.
    pub failure_kind: Option<FailureKind>,
    /// Attempts so far.
    pub attempts: Vec<AttemptFacts>,
    /// Arrival to commit or error.
    pub latency: Duration,
    /// Arrival to first content.
    pub first_content: Option<Duration>,
    /// Arrival to the end.
    pub duration: Option<Duration>,
    /// Status for the caller.
    pub status: u16,
    /// Outcome, when decided.
    pub outcome: Option<Outcome>,
    /// `error.code` of our answer.
    pub error_code: Option<String>,
    /// Tokens.
    pub usage: Option<Usage>,
    /// Output limit written into the request.
    pub max_tokens_lowered: Option<u32>,
    /// Generation and digests, in the form of `x-sluice-policy`.
    pub policy: Arc<str>,
}

/// Where a tag goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// A response header.
    Header,
    /// The record.
    Record,
    /// Both.
    Both,
}

/// A fact written by a tagger. Not yet validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Header name or record field.
    pub name: String,
    /// Value.
    pub value: String,
    /// Where it goes.
    pub sink: Sink,
}

/// The three things a plugin can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PluginKind {
    /// Scores targets.
    Router,
    /// Judges failures.
    Classifier,
    /// Writes tags.
    Tagger,
}

impl PluginKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Router, Self::Classifier, Self::Tagger];

    /// Spelling for pages, metrics and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Classifier => "classifier",
            Self::Tagger => "tagger",
        }
    }
}

/// A plugin as records and headers name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginRef {
    /// File name without its ending, or the name of a bundled plugin.
    pub name: Arc<str>,
    /// What it was asked for.
    pub kind: PluginKind,
    /// SHA-256 of its bytes, in hex.
    pub digest: Arc<str>,
}

/// The answer of a policy question: who was asked, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked<T> {
    /// The advice, of the plugins or of the bundled policy in their place.
    pub advice: T,
    /// Plugins that were asked, in order, whether they answered or not.
    pub by: Vec<PluginRef>,
    /// A plugin with `on_error: deny` failed: the request is to be refused.
    pub denied: bool,
}

/// Scores of all routers together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    /// One for each candidate, in their order: weighted sum of the routers' scores; none: excluded.
    pub scores: Vec<Option<f64>>,
    /// What each router said: its name and its votes, in the candidates' order.
    pub votes: Vec<(Arc<str>, Vec<Vote>)>,
}

/// A verdict and the plugin that gave it (none: the host's last resort).
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Who gave it.
    pub by: Option<Arc<str>>,
}
