//! The one place that builds error responses: before commit a JSON body in OpenAI's shape, after commit the
//! event that ends a stream.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response, header};
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde_json::{Map, Value};
use sluice_core::clean::clean;
use sluice_core::lens::error::ProviderError;
use sluice_core::sse;

use super::body::Body;
use super::error::{Failure, INTERNAL};
use crate::{clock, config};

/// One attempt, as an error shows it.
#[derive(Debug, Serialize)]
pub(super) struct AttemptView {
    /// Number, from 1.
    pub n: u32,
    /// First choice or not.
    pub role: &'static str,
    /// `upstream/model`; none: hidden from callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Why it failed.
    pub kind: Option<&'static str>,
    /// Status of the upstream.
    pub status: Option<u16>,
    /// Its time.
    pub ms: u64,
}

/// What an error says beside the failure itself.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// Request id.
    pub request_id: String,
    /// The attempts so far.
    pub attempts: Vec<AttemptView>,
    /// Left until the deadline; none: no budget was in force yet.
    pub budget_left: Option<Duration>,
}

#[derive(Serialize)]
struct ErrorBody {
    error: ErrorObject,
}

#[derive(Serialize)]
struct ErrorObject {
    message: String,
    r#type: String,
    param: Option<String>,
    code: Value,
    #[serde(flatten)]
    more: Map<String, Value>,
    request_id: String,
    attempts: Vec<AttemptView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_left_ms: Option<u64>,
}

/// An upstream's error as it may be passed on: without hosts and keys, and bounded.
pub(super) fn cleaned(error: &ProviderError, secrets: &[&str]) -> ProviderError {
    let text = |text: &Option<String>| text.as_deref().map(|text| clean(text, secrets));
    ProviderError {
        message: text(&error.message),
        kind: text(&error.kind),
        code: text(&error.code),
        param: text(&error.param),
        more: further_members(error, secrets),
        ..error.clone()
    }
}

/// What must not stand in a text which is passed on: keys, fixed header values, where the upstream is.
pub(super) fn secrets_of(upstream: &config::Upstream) -> Vec<String> {
    let keys = upstream.credentials.iter().map(|credential| credential.key.expose_secret().to_owned());
    let headers = upstream.headers.iter().map(|(_, value)| value.expose_secret().to_owned());
    let place = [Some(upstream.base.authority.to_string()), upstream.base.query.clone()];
    keys.chain(headers).chain(place.into_iter().flatten()).collect()
}

/// Builds the response of a failed request. Tags are added by the caller, who has cleaned what is passed on.
pub(super) fn error_response(failure: &Failure, context: Context) -> Response<Body> {
    let passed_on = match failure {
        Failure::Upstream(fault) if fault.passes_on() => fault.error.as_ref(),
        _ => None,
    };
    let error = ErrorObject {
        message: failure.message(),
        r#type: passed_on.and_then(|e| e.kind.clone()).unwrap_or_else(|| failure.kind().to_owned()),
        param: failure.param(),
        code: code_value(failure, passed_on),
        more: passed_on.map(|e| e.more.clone()).unwrap_or_default(),
        request_id: context.request_id,
        attempts: context.attempts,
        budget_left_ms: context.budget_left.map(clock::whole_ms),
    };
    let body = serde_json::to_vec(&ErrorBody { error }).unwrap_or_default();
    let mut response = Response::new(Body::full(body.into()));
    *response.status_mut() = failure.status();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(wait) = failure.retry_after() {
        headers.insert(header::RETRY_AFTER, sluice_core::budget::retry_after_seconds(wait).into());
    }
    if failure.is_final() {
        headers.insert("x-should-retry", HeaderValue::from_static("false"));
    }
    match failure {
        Failure::MethodNotAllowed { allow } => {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        Failure::InvalidApiKey { .. } => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response
}

/// A number stays a number where the upstream's own code is passed on.
fn code_value(failure: &Failure, passed_on: Option<&ProviderError>) -> Value {
    let code = failure.code();
    match passed_on {
        Some(error) if error.code_is_number && error.code.as_deref() == Some(code.as_str()) => {
            code.parse::<u64>().map_or(Value::String(code), Value::from)
        }
        _ => Value::String(code),
    }
}

fn further_members(error: &ProviderError, secrets: &[&str]) -> Map<String, Value> {
    const OURS: [&str; 3] = ["request_id", "attempts", "budget_left_ms"];
    let mut members: Map<String, Value> = error
        .more
        .iter()
        .filter(|(key, _)| !OURS.contains(&key.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    members.values_mut().for_each(|value| clean_value(value, secrets));
    members
}

fn clean_value(value: &mut Value, secrets: &[&str]) {
    match value {
        Value::String(text) => *text = clean(text, secrets),
        Value::Array(items) => items.iter_mut().for_each(|item| clean_value(item, secrets)),
        Value::Object(members) => members.values_mut().for_each(|member| clean_value(member, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Why a stream broke after commit.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Break {
    /// The upstream reported an error.
    Reported(Box<ProviderError>),
    /// The upstream's body ended before the answer did.
    Interrupted,
    /// No content for too long.
    Stalled,
    /// It ran for as long as the route lets a stream run.
    TooLong,
    /// An event could not be read, and the route wants that to end the stream.
    Malformed,
    /// An event was larger than the limit.
    EventTooLarge,
    /// The gateway goes down and waits no longer; nobody is to blame.
    Draining,
    /// The gateway itself failed.
    Internal,
}

impl Break {
    /// The host's own code: the metric label, and `error.code` unless the upstream gave one.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Reported(_) | Self::Interrupted => "upstream_interrupted",
            Self::Stalled => "stream_stalled",
            Self::TooLong => "stream_max",
            Self::Malformed => "malformed_event",
            Self::EventTooLarge => "event_too_large",
            Self::Draining => "draining",
            Self::Internal => INTERNAL,
        }
    }

    fn message(&self) -> &'static str {
        match self {
            Self::Reported(_) => "the upstream reported an error in the middle of the answer",
            Self::Interrupted => "the upstream broke off in the middle of the answer",
            Self::Stalled => "the upstream stopped sending in the middle of the answer",
            Self::TooLong => "the answer ran for longer than a stream may",
            Self::Malformed => "the upstream sent an event that cannot be read",
            Self::EventTooLarge => "the upstream sent an event larger than the limit",
            Self::Draining => "the gateway is shutting down",
            Self::Internal => "the gateway failed; its log knows the request id",
        }
    }
}

/// The event that ends a broken stream, in the form every SDK takes for an error.
pub(super) fn error_event(broken: &Break, secrets: &[&str]) -> Bytes {
    #[derive(Serialize)]
    struct Event {
        error: Object,
    }
    #[derive(Serialize)]
    struct Object {
        message: String,
        r#type: String,
        param: Option<String>,
        code: Value,
    }
    let reported = match broken {
        Break::Reported(error) => Some(cleaned(error, secrets)),
        _ => None,
    };
    let reported = reported.as_ref();
    let code = reported.and_then(|e| e.code.as_deref().map(|code| (code, e.code_is_number)));
    let object = Object {
        message: reported
            .and_then(|e| e.message.as_deref())
            .map_or_else(|| broken.message().to_owned(), ToOwned::to_owned),
        r#type: reported.and_then(|e| e.kind.clone()).unwrap_or_else(|| "api_error".to_owned()),
        param: reported.and_then(|e| e.param.clone()),
        code: match code {
            Some((code, true)) => code.parse::<u64>().map_or_else(|_| code.into(), Value::from),
            Some((code, false)) => code.into(),
            None => broken.code().into(),
        },
    };
    let data = serde_json::to_vec(&Event { error: object }).unwrap_or_default();
    let mut out = BytesMut::new();
    sse::write_event(&data, &mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_member_of_a_passed_on_error_names_a_host_or_a_key() {
        let dirty = || Some("see https://api.internal.example/x with sk-abcdefghijklmnop".to_owned());
        let error = ProviderError {
            message: dirty(),
            kind: dirty(),
            code: dirty(),
            param: dirty(),
            more: Map::from_iter([("inner".to_owned(), serde_json::json!([dirty()]))]),
            ..ProviderError::default()
        };
        let shown = error_event(&Break::Reported(Box::new(error.clone())), &[]);
        for text in [format!("{:?}", cleaned(&error, &[])), String::from_utf8_lossy(&shown).into_owned()] {
            assert!(!text.contains("internal.example") && !text.contains("sk-abc"), "{text}");
        }
    }
}
