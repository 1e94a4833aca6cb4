//! A failed attempt: what is known about it, before anyone has said what it means.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use sluice_core::facts::FailureFacts;
use sluice_core::kind::{Stage, TransportError};
use sluice_core::lens::error::ProviderError;
use sluice_core::retry_after;

use super::request::REQUEST_ID;
use crate::clock;

/// Bytes of an error body that a classifier sees.
const BODY_SHOWN: usize = 4096;
/// Response headers that a classifier sees.
const HEADERS_SHOWN: usize = 32;

/// What is known about a failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    /// How far it had come.
    pub stage: Stage,
    /// What went wrong below HTTP.
    pub transport: Option<TransportError>,
    /// Status of the upstream.
    pub status: Option<u16>,
    /// The upstream's error object.
    pub error: Option<ProviderError>,
    /// Response headers about errors and limits.
    pub headers: Vec<(String, String)>,
    /// First bytes of the error body, as text.
    pub body: String,
    /// The wait the upstream asked for.
    pub retry_after: Option<Duration>,
    /// The upstream's own id for the attempt.
    pub upstream_request_id: Option<String>,
    /// The deadline of the request ended it.
    pub by_deadline: bool,
    /// It had a full limit of its own when a clock ended it.
    pub limit_over: bool,
}

impl Fault {
    /// A fault of which nothing but the stage is known.
    pub fn new(stage: Stage) -> Self {
        Self {
            stage,
            transport: None,
            status: None,
            error: None,
            headers: Vec::new(),
            body: String::new(),
            retry_after: None,
            upstream_request_id: None,
            by_deadline: false,
            limit_over: false,
        }
    }

    /// Adds what the response headers say.
    pub fn with_headers(mut self, headers: &HeaderMap, wait_max: Duration) -> Self {
        let texts: Vec<(&str, &str)> =
            headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
        self.retry_after = retry_after::hint(texts.iter().copied(), clock::wall(), wait_max);
        self.upstream_request_id = upstream_request_id(headers);
        self.headers = texts
            .into_iter()
            .filter(|(name, _)| about_limits(name))
            .take(HEADERS_SHOWN)
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        self
    }

    /// Adds an error body and what the response headers say.
    pub fn with_body(mut self, body: &Bytes, headers: &HeaderMap, wait_max: Duration) -> Self {
        let shown = &body[..body.len().min(BODY_SHOWN)];
        self.body = String::from_utf8_lossy(shown).into_owned();
        self.with_headers(headers, wait_max)
    }

    /// The facts for a classifier.
    pub fn facts(&self, target: u32, elapsed: Duration, other_credential: bool) -> FailureFacts {
        let error = self.error.as_ref();
        FailureFacts {
            target,
            stage: self.stage,
            transport_error: self.transport,
            status: self.status,
            headers: self.headers.clone(),
            error_type: error.and_then(|e| e.kind.clone()),
            error_code: error.and_then(|e| e.code.clone().or_else(|| e.status.map(|s| s.to_string()))),
            body: self.shown_body(),
            retry_after: self.retry_after,
            elapsed,
            other_credential,
        }
    }
}

impl Fault {
    /// The error body. One that came inside an answer was not kept; a status that stands in it beside a code, where
    /// `error_code` has no room for it, is still told.
    fn shown_body(&self) -> String {
        let beside = self.error.as_ref().filter(|error| error.code.is_some()).and_then(|error| error.status);
        match beside {
            Some(status) if self.body.is_empty() => format!(r#"{{"error":{{"status":{status}}}}}"#),
            _ => self.body.clone(),
        }
    }
}

fn about_limits(name: &str) -> bool {
    name == "content-type"
        || ["retry-after", "x-ratelimit", "ratelimit", "anthropic-ratelimit", "x-should-retry"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// The id an upstream gave an exchange, in the headers providers use.
pub(super) fn upstream_request_id(headers: &HeaderMap) -> Option<String> {
    /// Ready as names: a text has to be read as one before it can be looked up.
    static NAMES: [HeaderName; 4] = [
        REQUEST_ID,
        HeaderName::from_static("request-id"),
        HeaderName::from_static("apim-request-id"),
        HeaderName::from_static("cf-ray"),
    ];
    let value = NAMES.iter().find_map(|name| headers.get(name))?.to_str().ok()?;
    // What reads as text in a header has one byte for each character.
    Some(value[..value.len().min(128)].to_owned())
}
