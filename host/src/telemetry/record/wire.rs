//! How a record is spelled: names, order, units and nulls.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use sluice_core::facts::{PluginRef, Usage};
use sluice_core::kind::{FailureKind, Role};

use super::{AttemptRecord, Choice, Record};
use crate::telemetry::events::whole_ms;
use crate::telemetry::log::line::rfc3339;

/// The line of the log, without its line feed.
pub(super) fn line(record: &Record) -> Vec<u8> {
    let line = RecordLine { event: "request", fields: Fields::of(record) };
    // The only maps have text keys, so it always serialises.
    // An ordinary record is between one and two kilobytes.
    let mut bytes = Vec::with_capacity(2048);
    match serde_json::to_writer(&mut bytes, &line) {
        Ok(()) => bytes,
        // Maps have text keys only, so this does not happen; half a line would be worse than none.
        Err(_) => Vec::new(),
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
pub(in crate::telemetry) const fn token_source(usage: Usage) -> &'static str {
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
            tokens: record.tokens.map(|u| TokenFields {
                input: u.input,
                output: u.output,
                source: token_source(u),
            }),
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
