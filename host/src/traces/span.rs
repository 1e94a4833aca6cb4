//! What spans say of a request: one of the server kind for the request as its client saw it, below it one of the client
//! kind for each attempt. Names are those of the OpenTelemetry conventions for HTTP and generative AI; what they have no
//! name for is under `sluice.`. No text of a request or an answer is in them.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use sluice_core::kind::{FailureKind, Outcome};
use sluice_core::lens::wire::Wire;

use crate::telemetry::record::{AttemptRecord, Record};
use crate::telemetry::traces::{AttemptSpan, Trace, Traced};

/// The spans of a request, its own first.
pub(super) fn spans(traced: &Traced) -> Vec<SpanData> {
    let Traced { record, trace } = traced;
    let attempts = record.attempts.iter().zip(&trace.attempts);
    std::iter::once(request(record, trace))
        .chain(attempts.map(|(attempt, span)| of_attempt(record, trace, attempt, span)))
        .collect()
}

/// Attributes, put down as far as there is something to say.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn put(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        self.0.extend(value.map(|value| KeyValue::new(name, value)));
    }
}

fn request(record: &Record, trace: &Trace) -> SpanData {
    let wire = wire_of(&record.endpoint);
    // A body was read only of what was posted.
    let posted = record.model.is_some();
    let mut attributes = Attributes::default();
    attributes.put("http.request.method", posted.then_some("POST"));
    attributes.put("http.route", wire.map(|_| record.endpoint.to_string()));
    attributes.put("url.path", Some(record.endpoint.to_string()));
    attributes.put("http.response.status_code", (record.status != LEFT).then_some(i64::from(record.status)));
    attributes.put("gen_ai.operation.name", wire.map(operation));
    attributes.put("gen_ai.request.model", text(record.model.as_deref()));
    attributes.put("gen_ai.response.model", text(record.served.as_ref().map(|served| &*served.model)));
    attributes.put("sluice.request_id", text(Some(&*record.request_id)));
    attributes.put("sluice.caller", text(record.caller.as_deref()));
    attributes.put("sluice.route", Some(record.role.as_str()));
    attributes.put("sluice.degraded", Some(record.role == sluice_core::kind::Role::Fallback));
    attributes.put("sluice.upstream", text(record.served.as_ref().map(|served| &*served.upstream)));
    attributes.put("sluice.stream", Some(record.stream));
    attributes.put("sluice.outcome", Some(record.outcome.as_str()));
    attributes.put("sluice.failure_kind", record.failure_kind.map(FailureKind::as_str));
    attributes.put("sluice.attempts", Some(whole(record.attempts.len() as u64)));
    attributes.put("sluice.latency_ms", record.latency.map(ms));
    attributes.put("sluice.time_to_first_token_ms", record.ttft.map(ms));
    attributes.put("sluice.budget_left_ms", Some(ms(record.budget_left)));
    attributes.put("sluice.generation", Some(whole(record.generation)));
    let failed = failure_of(record);
    attributes.put("error.type", failed);
    let name = match (wire, posted) {
        (Some(_), true) => format!("POST {}", record.endpoint).into(),
        (Some(_), false) => record.endpoint.to_string().into(),
        // Anybody may ask for any path: it is no name.
        (None, _) => "request".into(),
    };
    SpanData {
        parent_span_id: trace.parent.map_or(SpanId::INVALID, SpanId::from),
        parent_span_is_remote: trace.parent.is_some(),
        span_kind: SpanKind::Server,
        name,
        end_time: record.time + record.duration,
        status: status(failed),
        ..bare(trace.trace_id, trace.span_id, record.time, attributes)
    }
}

fn of_attempt(record: &Record, trace: &Trace, attempt: &AttemptRecord, span: &AttemptSpan) -> SpanData {
    let base = &span.target.upstream.base;
    let port = base.authority.port_u16().unwrap_or(if base.tls { 443 } else { 80 });
    let operation = wire_of(&record.endpoint).map(operation);
    let served = attempt.kind.is_none() && attempt.status.is_some() && record.served.is_some();
    let tokens = record.tokens.filter(|_| served);
    let failed = attempt.kind.map(FailureKind::as_str);
    let mut attributes = Attributes::default();
    attributes.put("gen_ai.operation.name", operation);
    // The protocol that is spoken; whose models they are is in the name of the upstream.
    attributes.put("gen_ai.provider.name", Some("openai"));
    attributes.put("gen_ai.request.model", text(Some(&*span.target.model)));
    attributes.put("gen_ai.response.model", text(served.then_some(&*span.target.model)));
    attributes.put("gen_ai.usage.input_tokens", tokens.map(|tokens| whole(tokens.input)));
    attributes.put("gen_ai.usage.output_tokens", tokens.map(|tokens| whole(tokens.output)));
    attributes.put("server.address", text(Some(base.authority.host().trim_matches(['[', ']']))));
    attributes.put("server.port", Some(i64::from(port)));
    attributes.put("http.request.method", Some("POST"));
    attributes.put("http.response.status_code", attempt.status.map(i64::from));
    attributes.put("error.type", failed);
    attributes.put("sluice.target", text(Some(&*attempt.target)));
    attributes.put("sluice.upstream", text(Some(&*span.target.upstream.name)));
    attributes.put("sluice.attempt", Some(i64::from(attempt.n)));
    attributes.put("sluice.route", Some(attempt.role.as_str()));
    attributes.put("sluice.breaker", Some(if span.probe { "half_open" } else { "closed" }));
    attributes.put("sluice.cancelled", span.cancelled.then_some(true));
    attributes.put("sluice.time_to_first_token_ms", attempt.ttft.map(ms));
    attributes.put("sluice.upstream_request_id", text(attempt.upstream_request_id.as_deref()));
    attributes.put("sluice.usage_estimated", tokens.map(|tokens| tokens.estimated));
    SpanData {
        parent_span_id: SpanId::from(trace.span_id),
        span_kind: SpanKind::Client,
        name: format!("{} {}", operation.unwrap_or("request"), span.target.model).into(),
        end_time: record.time + span.end.unwrap_or(record.duration).max(span.begin),
        status: status(failed),
        ..bare(trace.trace_id, span.span_id, record.time + span.begin, attributes)
    }
}

/// Status of a request whose client left.
const LEFT: u16 = 499;

/// What a request failed of, as far as the gateway or those behind it are to blame: a request that was no good, or whose
/// client left, is no failure of the server.
fn failure_of(record: &Record) -> Option<&'static str> {
    match record.outcome {
        Outcome::Success | Outcome::FallbackSuccess | Outcome::ClientCancelled => None,
        Outcome::Interrupted => Some(record.outcome.as_str()),
        _ if record.status < 500 => None,
        _ => Some(record.failure_kind.map_or(record.outcome.as_str(), FailureKind::as_str)),
    }
}

fn status(failed: Option<&'static str>) -> Status {
    failed.map_or(Status::Unset, Status::error)
}

fn wire_of(endpoint: &str) -> Option<Wire> {
    let behind = endpoint.strip_prefix("/v1")?;
    Wire::ALL.into_iter().find(|wire| wire.path() == behind)
}

const fn operation(wire: Wire) -> &'static str {
    match wire {
        Wire::Chat => "chat",
        Wire::Completions => "text_completion",
        Wire::Embeddings => "embeddings",
    }
}

fn text(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A span that ends as it begins.
fn bare(trace_id: u128, span_id: u64, at: SystemTime, attributes: Attributes) -> SpanData {
    let (trace_id, span_id) = (TraceId::from(trace_id), SpanId::from(span_id));
    SpanData {
        span_context: SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: "".into(),
        start_time: at,
        end_time: at,
        attributes: attributes.0,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("sluice")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}
