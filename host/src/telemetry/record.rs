//! The record: what is written about one request, once, when it has ended.
//!
//! A [`Record`] holds facts; the names, units and nulls of its line are decided in `wire`. It carries no
//! body, no header and no credential, and every text in it is bounded before it is kept ([`Record::bound`]).

mod wire;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sluice_core::facts::{Candidate, PluginRef, Usage};
use sluice_core::kind::{FailureKind, Outcome, Role};

use super::log::line::{Line, clip};
use crate::clock::whole_ms;
use crate::config::LogFormat;

pub use wire::line;
pub(super) use wire::{FIELDS, maybe_float, maybe_text, token_source};

/// Longest text of one field, bytes. Names of targets and callers come from the configuration and are not
/// cut.
const MAX_TEXT: usize = 256;
/// Longest value of a tag, bytes: what a tagger may say.
const MAX_TAG: usize = 1024;
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
    /// From the request's arrival to its begin.
    pub began: Duration,
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

    /// About how much memory it takes, bytes. Only what can grow is looked at.
    pub fn weight(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let attempts =
            self.attempts.iter().map(|a| size_of::<AttemptRecord>() + text(&a.upstream_request_id));
        let choices = self.decision.iter().flatten().map(|c| size_of::<Choice>() + text(&c.reason));
        let tags = self.tags.iter().map(|(name, value)| 64 + name.len() + value.len());
        let plugins = self.plugins.len() * size_of::<PluginRef>();
        let fixed = size_of::<Self>() + 2 * MAX_TEXT + plugins;
        fixed + attempts.sum::<usize>() + choices.sum::<usize>() + tags.sum::<usize>()
    }

    /// The line of the log for people, without its line feed: the gist.
    pub(super) fn text(&self) -> Vec<u8> {
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
        for (name, time) in
            [("latency_ms", self.latency), ("ttft_ms", self.ttft), ("duration_ms", Some(self.duration))]
        {
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
        value.truncate(clip(value, MAX_TAG).len());
    }
}

/// Bounds a list of tags in the same way.
pub(super) fn bound_list(tags: &mut Vec<(String, String)>) {
    tags.retain(|(name, _)| name.len() <= MAX_TEXT);
    tags.truncate(MAX_TAGS);
    for (_, value) in tags {
        value.truncate(clip(value, MAX_TAG).len());
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
pub(crate) mod tests;
