//! The record: what is written about one request, once, when it has ended.
//!
//! A [`Record`] holds facts; the names, units and nulls of the line are decided here and nowhere else. It carries no
//! body, no header and no credential, and every text in it is bounded before it is kept ([`Record::bound`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use sluice_core::facts::{Candidate, PluginRef, Usage};
use sluice_core::kind::{FailureKind, Outcome, Role};

use super::events::whole_ms;
use super::log::line::{Line, clip, rfc3339};
use crate::config::LogFormat;

/// Longest text of one field, bytes. Names of targets and callers come from the configuration and are not cut.
const MAX_TEXT: usize = 256;
/// Most record tags.
const MAX_TAGS: usize = 64;
/// Reasons of one list together, bytes.
const MAX_REASONS: usize = 16 << 10;
/// Most attempts and most rows of the decision: more than the configuration allows.
const MAX_ROWS: usize = 256;

/// One ended request.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Arrival.
    pub time: SystemTime,
    /// Request id.
    pub request_id: Arc<str>,
    /// Name of the caller's key; none without keys.
    pub caller: Option<Arc<str>>,
    /// Path of the call.
    pub endpoint: Cow<'static, str>,
    /// The requested name; none: it could not be read.
    pub model: Option<Arc<str>>,
    /// The target that served.
    pub served: Option<Served>,
    /// Whether that was the first choice; on an error, of the last attempt.
    pub role: Role,
    /// A stream was asked for.
    pub stream: bool,
    /// Status for the client; 499 when it had left.
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// Kind of the first failure.
    pub failure_kind: Option<FailureKind>,
    /// Arrival to commit.
    pub latency: Option<Duration>,
    /// Arrival to first content.
    pub ttft: Option<Duration>,
    /// Arrival to the end.
    pub duration: Duration,
    /// Every exchange that was begun, in order.
    pub attempts: Vec<AttemptRecord>,
    /// Budget in force.
    pub budget: Duration,
    /// Left of it at commit or error.
    pub budget_left: Duration,
    /// Tokens, when known.
    pub tokens: Option<Usage>,
    /// Output limit written into the request.
    pub max_tokens_lowered: Option<u32>,
    /// Generation it started with.
    pub generation: u64,
    /// Plugins that were asked.
    pub plugins: Vec<PluginRef>,
    /// The candidates as the routers saw them; none: no router was asked.
    pub decision: Option<Vec<Choice>>,
    /// Record tags.
    pub tags: BTreeMap<String, String>,
}

/// The target that served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// `upstream/model`, as metrics know it.
    pub target: Arc<str>,
    /// Its upstream.
    pub upstream: Arc<str>,
    /// Its model.
    pub model: Arc<str>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Number, from 1.
    pub n: u32,
    /// `upstream/model`.
    pub target: Arc<str>,
    /// First choice or not.
    pub role: Role,
    /// Why it failed; none: it served (or the client left).
    pub kind: Option<FailureKind>,
    /// Status of the upstream.
    pub status: Option<u16>,
    /// From its begin to its failure or commit.
    pub took: Duration,
    /// From its begin to first content.
    pub ttft: Option<Duration>,
    /// The upstream's own id for it.
    pub upstream_request_id: Option<String>,
}

/// One candidate and what the routers made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// `upstream/model`.
    pub target: Arc<str>,
    /// Weighted sum of the scores; none: excluded.
    pub score: Option<f64>,
    /// Why, in the words of a router.
    pub reason: Option<String>,
    /// What the routers saw.
    pub facts: Candidate,
}

impl Record {
    /// Cuts whatever a client, an upstream or a plugin may have made long.
    pub fn bound(&mut self) {
        if let Some(model) = &mut self.model
            && model.len() > MAX_TEXT
        {
            *model = clip(model, MAX_TEXT).into();
        }
        if self.endpoint.len() > MAX_TEXT {
            self.endpoint = clip(&self.endpoint, MAX_TEXT).to_owned().into();
        }
        self.attempts.truncate(MAX_ROWS);
        for attempt in &mut self.attempts {
            cut(&mut attempt.upstream_request_id);
        }
        if let Some(decision) = &mut self.decision {
            decision.truncate(MAX_ROWS);
            bound_reasons(decision.iter_mut().map(|choice| &mut choice.reason));
        }
        bound_tags(&mut self.tags);
    }

    /// The line of the log, without its line feed: JSON with every field, or one line for people with the gist.
    pub fn line(&self, format: LogFormat) -> Vec<u8> {
        match format {
            LogFormat::Json => {
                let line = RecordLine { event: "request", fields: Fields::of(self) };
                // The only maps have text keys, so it always serialises.
                serde_json::to_vec(&line).unwrap_or_default()
            }
            LogFormat::Text => self.text(),
        }
    }

    fn text(&self) -> Vec<u8> {
        let mut line = Line::new(LogFormat::Text, self.time, tracing::Level::INFO);
        line.text("event", "request");
        line.text("request_id", &self.request_id);
        line.maybe("caller", self.caller.as_deref());
        line.maybe("model", self.model.as_deref());
        line.maybe("served", self.served.as_ref().map(|s| &*s.target));
        line.text("route", self.role.as_str());
        line.number("status_code", self.status);
        line.text("outcome", self.outcome.as_str());
        line.maybe("failure_kind", self.failure_kind.map(FailureKind::as_str));
        line.number("attempts", self.attempts.len() as u64);
        for (name, time) in [("latency_ms", self.latency), ("ttft_ms", self.ttft), ("duration_ms", Some(self.duration))] {
            if let Some(time) = time {
                line.number(name, whole_ms(time));
            }
        }
        if let Some(tokens) = self.tokens {
            line.number("tokens_in", tokens.input);
            line.number("tokens_out", tokens.output);
        }
        line.finish()
    }
}

/// Bounds a map of tags in number and length.
pub(super) fn bound_tags(tags: &mut BTreeMap<String, String>) {
    tags.retain(|name, _| name.len() <= MAX_TEXT);
    while tags.len() > MAX_TAGS {
        tags.pop_last();
    }
    for value in tags.values_mut() {
        value.truncate(clip(value, MAX_TEXT).len());
    }
}

/// Cuts each reason, and leaves out those that come when the room for all is used up.
pub(super) fn bound_reasons<'a>(reasons: impl Iterator<Item = &'a mut Option<String>>) {
    let mut room = MAX_REASONS;
    for reason in reasons {
        cut(reason);
        let length = reason.as_ref().map_or(0, String::len);
        if length > room {
            *reason = None;
        } else {
            room -= length;
        }
    }
}

/// Cuts a text that came from elsewhere.
fn cut(text: &mut Option<String>) {
    if let Some(text) = text {
        text.truncate(clip(text, MAX_TEXT).len());
    }
}

impl Serialize for Record {
    /// The fields alone, without `event`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::of(self).serialize(serializer)
    }
}

#[derive(Serialize)]
struct RecordLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    fields: Fields<'a>,
}

/// The record as it is written.
#[derive(Serialize)]
struct Fields<'a> {
    time: String,
    request_id: &'a str,
    caller: Option<&'a str>,
    endpoint: &'a str,
    model: Option<&'a str>,
    served_model: Option<&'a str>,
    upstream: Option<&'a str>,
    route: &'static str,
    is_fallback: bool,
    degraded: bool,
    stream: bool,
    status_code: u16,
    outcome: &'static str,
    failure_kind: Option<&'static str>,
    latency_ms: Option<u64>,
    ttft_ms: Option<u64>,
    duration_ms: u64,
    attempts: Vec<AttemptFields<'a>>,
    budget_ms: u64,
    budget_left_ms: u64,
    tokens: Option<TokenFields>,
    max_tokens_lowered: Option<u32>,
    generation: u64,
    plugins: Vec<PluginFields<'a>>,
    decision: Option<Vec<ChoiceFields<'a>>>,
    tags: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct AttemptFields<'a> {
    n: u32,
    target: &'a str,
    role: &'static str,
    kind: Option<&'static str>,
    status: Option<u16>,
    ms: u64,
    ttft_ms: Option<u64>,
    upstream_request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct TokenFields {
    input: u64,
    output: u64,
    source: &'static str,
}

#[derive(Serialize)]
struct PluginFields<'a> {
    name: &'a str,
    kind: &'static str,
    digest: &'a str,
}

#[derive(Serialize)]
struct ChoiceFields<'a> {
    target: &'a str,
    score: Option<f64>,
    reason: Option<&'a str>,
    facts: CandidateFields,
}

/// A candidate without its number, which means nothing outside its generation.
#[derive(Serialize)]
struct CandidateFields {
    health: f64,
    samples: u32,
    latency_p50_ms: Option<f64>,
    latency_p95_ms: Option<f64>,
    first_content_p50_ms: Option<f64>,
    first_content_p95_ms: Option<f64>,
    in_flight: u32,
    capacity: u32,
    quota_left: Option<f64>,
    cool_down_ms: u32,
    breaker: &'static str,
    failures: u32,
    tried: bool,
}

/// Where a number of tokens comes from, as records and metrics spell it.
pub(super) const fn token_source(usage: Usage) -> &'static str {
    if usage.estimated { "estimated" } else { "upstream" }
}

impl<'a> Fields<'a> {
    fn of(record: &'a Record) -> Self {
        let fallback = record.role == Role::Fallback;
        Self {
            time: rfc3339(record.time),
            request_id: &record.request_id,
            caller: record.caller.as_deref(),
            endpoint: &record.endpoint,
            model: record.model.as_deref(),
            served_model: record.served.as_ref().map(|s| &*s.model),
            upstream: record.served.as_ref().map(|s| &*s.upstream),
            route: record.role.as_str(),
            is_fallback: fallback,
            degraded: fallback,
            stream: record.stream,
            status_code: record.status,
            outcome: record.outcome.as_str(),
            failure_kind: record.failure_kind.map(FailureKind::as_str),
            latency_ms: record.latency.map(whole_ms),
            ttft_ms: record.ttft.map(whole_ms),
            duration_ms: whole_ms(record.duration),
            attempts: record.attempts.iter().map(AttemptFields::of).collect(),
            budget_ms: whole_ms(record.budget),
            budget_left_ms: whole_ms(record.budget_left),
            tokens: record.tokens.map(|u| TokenFields { input: u.input, output: u.output, source: token_source(u) }),
            max_tokens_lowered: record.max_tokens_lowered,
            generation: record.generation,
            plugins: record.plugins.iter().map(PluginFields::of).collect(),
            decision: record.decision.as_ref().map(|rows| rows.iter().map(ChoiceFields::of).collect()),
            tags: &record.tags,
        }
    }
}

impl<'a> AttemptFields<'a> {
    fn of(attempt: &'a AttemptRecord) -> Self {
        Self {
            n: attempt.n,
            target: &attempt.target,
            role: attempt.role.as_str(),
            kind: attempt.kind.map(FailureKind::as_str),
            status: attempt.status,
            ms: whole_ms(attempt.took),
            ttft_ms: attempt.ttft.map(whole_ms),
            upstream_request_id: attempt.upstream_request_id.as_deref(),
        }
    }
}

impl<'a> PluginFields<'a> {
    fn of(plugin: &'a PluginRef) -> Self {
        Self { name: &plugin.name, kind: plugin.kind.as_str(), digest: &plugin.digest }
    }
}

impl<'a> ChoiceFields<'a> {
    fn of(choice: &'a Choice) -> Self {
        let c = &choice.facts;
        let facts = CandidateFields {
            health: c.health,
            samples: c.samples,
            latency_p50_ms: c.latency_p50_ms,
            latency_p95_ms: c.latency_p95_ms,
            first_content_p50_ms: c.first_content_p50_ms,
            first_content_p95_ms: c.first_content_p95_ms,
            in_flight: c.in_flight,
            capacity: c.capacity,
            quota_left: c.quota_left,
            cool_down_ms: c.cool_down_ms,
            breaker: c.breaker.as_str(),
            failures: c.failures,
            tried: c.tried,
        };
        Self { target: &choice.target, score: choice.score, reason: choice.reason.as_deref(), facts }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
pub(crate) mod tests;
