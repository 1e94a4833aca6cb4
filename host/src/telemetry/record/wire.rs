//! How a record is spelled: names, order, units and nulls.

use serde::{Serialize, Serializer};
use sluice_core::facts::{PluginRef, Usage};
use sluice_core::kind::{FailureKind, Role};

use super::{AttemptRecord, Choice, Record};
use crate::clock::whole_ms;
use crate::telemetry::json::Json;

/// What the line has before the fields.
const BEGIN: &str = r#"{"event":"request","#;

/// The line of the log, without its line feed.
pub fn line(record: &Record) -> Json {
    let mut out = Json::with_capacity(room(record));
    out.put(BEGIN);
    fields(&mut out, record);
    out.put("}");
    out
}

/// Where the fields stand in a line that is open at its end.
pub(in crate::telemetry) const FIELDS: usize = BEGIN.len();

impl Serialize for Record {
    /// The fields alone, without `event`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = Json::with_capacity(room(self));
        out.put("{");
        fields(&mut out, self);
        out.put("}");
        out.into_value().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// About as many bytes as a record and what was decided take, so that a long one is not moved while it grows.
fn room(record: &Record) -> usize {
    let candidates = record.decision.as_ref().map_or(0, Vec::len);
    2048 + 256 * record.attempts.len() + 1024 * candidates
}

/// Where a number of tokens comes from, as records and metrics spell it.
pub(in crate::telemetry) const fn token_source(usage: Usage) -> &'static str {
    if usage.estimated { "estimated" } else { "upstream" }
}

pub(in crate::telemetry) fn maybe_text(out: &mut Json, text: Option<&str>) {
    out.maybe(text, Json::text);
}

fn maybe_word(out: &mut Json, word: Option<&'static str>) {
    out.maybe(word, Json::word);
}

pub(in crate::telemetry) fn maybe_float(out: &mut Json, number: Option<f64>) {
    out.maybe(number, Json::float);
}

/// The record as it is written, without its braces.
fn fields(out: &mut Json, record: &Record) {
    let fallback = record.role == Role::Fallback;
    out.put(r#""time":"#);
    out.time(record.time);
    out.put(r#","request_id":"#);
    out.text(&record.request_id);
    out.put(r#","caller":"#);
    maybe_text(out, record.caller.as_deref());
    out.put(r#","endpoint":"#);
    out.text(&record.endpoint);
    out.put(r#","model":"#);
    maybe_text(out, record.model.as_deref());
    out.put(r#","served_model":"#);
    maybe_text(out, record.served.as_ref().map(|served| &*served.model));
    out.put(r#","upstream":"#);
    maybe_text(out, record.served.as_ref().map(|served| &*served.upstream));
    out.put(r#","route":"#);
    out.word(record.role.as_str());
    // One fact under two names.
    out.put(match fallback {
        true => r#","is_fallback":true,"degraded":true,"stream":"#,
        false => r#","is_fallback":false,"degraded":false,"stream":"#,
    });
    out.flag(record.stream);
    out.put(r#","status_code":"#);
    out.number(record.status);
    out.put(r#","outcome":"#);
    out.word(record.outcome.as_str());
    out.put(r#","failure_kind":"#);
    maybe_word(out, record.failure_kind.map(FailureKind::as_str));
    out.put(r#","latency_ms":"#);
    out.maybe(record.latency.map(whole_ms), Json::number);
    out.put(r#","ttft_ms":"#);
    out.maybe(record.ttft.map(whole_ms), Json::number);
    out.put(r#","duration_ms":"#);
    out.number(whole_ms(record.duration));
    out.put(r#","attempts":"#);
    out.list(&record.attempts, attempt);
    out.put(r#","budget_ms":"#);
    out.number(whole_ms(record.budget));
    out.put(r#","budget_left_ms":"#);
    out.number(whole_ms(record.budget_left));
    out.put(r#","tokens":"#);
    out.maybe(record.tokens, tokens);
    out.put(r#","max_tokens_lowered":"#);
    out.maybe(record.max_tokens_lowered, Json::number);
    out.put(r#","generation":"#);
    out.number(record.generation);
    out.put(r#","plugins":"#);
    out.list(&record.plugins, plugin);
    out.put(r#","decision":"#);
    out.maybe(record.decision.as_ref(), |out, rows| out.list(rows, choice));
    out.put(r#","tags":"#);
    out.texts(record.tags.iter().map(|(name, value)| (&**name, &**value)));
}

fn attempt(out: &mut Json, attempt: &AttemptRecord) {
    out.put(r#"{"n":"#);
    out.number(attempt.n);
    out.put(r#","target":"#);
    out.text(&attempt.target);
    out.put(r#","role":"#);
    out.word(attempt.role.as_str());
    out.put(r#","kind":"#);
    maybe_word(out, attempt.kind.map(FailureKind::as_str));
    out.put(r#","status":"#);
    out.maybe(attempt.status, Json::number);
    out.put(r#","start_ms":"#);
    out.number(whole_ms(attempt.began));
    out.put(r#","ms":"#);
    out.number(whole_ms(attempt.took));
    out.put(r#","ttft_ms":"#);
    out.maybe(attempt.ttft.map(whole_ms), Json::number);
    out.put(r#","upstream_request_id":"#);
    maybe_text(out, attempt.upstream_request_id.as_deref());
    out.put("}");
}

fn tokens(out: &mut Json, usage: Usage) {
    out.put(r#"{"input":"#);
    out.number(usage.input);
    out.put(r#","output":"#);
    out.number(usage.output);
    out.put(r#","source":"#);
    out.word(token_source(usage));
    out.put("}");
}

fn plugin(out: &mut Json, plugin: &PluginRef) {
    out.put(r#"{"name":"#);
    out.text(&plugin.name);
    out.put(r#","kind":"#);
    out.word(plugin.kind.as_str());
    out.put(r#","digest":"#);
    out.text(&plugin.digest);
    out.put("}");
}

/// A candidate and what was made of it, without its number, which means nothing outside its generation.
fn choice(out: &mut Json, choice: &Choice) {
    let facts = &choice.facts;
    out.put(r#"{"target":"#);
    out.text(&choice.target);
    out.put(r#","score":"#);
    maybe_float(out, choice.score);
    out.put(r#","reason":"#);
    maybe_text(out, choice.reason.as_deref());
    out.put(r#","facts":{"health":"#);
    out.float(facts.health);
    out.put(r#","samples":"#);
    out.number(facts.samples);
    out.put(r#","latency_p50_ms":"#);
    maybe_float(out, facts.latency_p50_ms);
    out.put(r#","latency_p95_ms":"#);
    maybe_float(out, facts.latency_p95_ms);
    out.put(r#","first_content_p50_ms":"#);
    maybe_float(out, facts.first_content_p50_ms);
    out.put(r#","first_content_p95_ms":"#);
    maybe_float(out, facts.first_content_p95_ms);
    out.put(r#","in_flight":"#);
    out.number(facts.in_flight);
    out.put(r#","capacity":"#);
    out.number(facts.capacity);
    out.put(r#","quota_left":"#);
    maybe_float(out, facts.quota_left);
    out.put(r#","cool_down_ms":"#);
    out.number(facts.cool_down_ms);
    out.put(r#","breaker":"#);
    out.word(facts.breaker.as_str());
    out.put(r#","failures":"#);
    out.number(facts.failures);
    out.put(r#","tried":"#);
    out.flag(facts.tried);
    out.put("}}");
}
