//! The request as a target gets it: the client's own bytes with the target's model, headers by allow-list,
//! the target's own credential and host.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use http_body_util::Full;

use super::trace::{self, TRACEPARENT};
use crate::config;
use crate::telemetry::traces::Trace;
use crate::upstream::{Client, Line};

/// One request to one target, ready to be sent, and sent again when a reused connection turns out dead.
pub(super) struct Outgoing<'a> {
    /// The upstream.
    pub client: &'a Client,
    /// Is told which connection is used.
    pub line: &'a Line,
    /// Path behind its base URL.
    pub path: &'a str,
    /// Which of its credentials to use.
    pub credential: Option<usize>,
    /// Headers of the client, and which of them may pass beside the usual ones.
    pub headers: (&'a HeaderMap, &'a [HeaderName]),
    /// Our own.
    pub request_id: &'a str,
    /// The trace that the upstream's spans belong to; none: the client's headers about one go on.
    pub trace: Option<&'a Trace>,
    /// The body with the target's model.
    pub body: Bytes,
    /// When the attempt began.
    pub begun: Instant,
    /// Resolution, TCP, TLS.
    pub connect: Duration,
}

impl Outgoing<'_> {
    /// Builds it.
    pub fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = http::Method::POST;
        let (client, listed) = self.headers;
        let mut headers = forwarded(client, listed, self.request_id);
        trace::clear_state(self.trace, &mut headers);
        if let Some(traceparent) = trace::of_attempt(self.trace) {
            headers.insert(TRACEPARENT, traceparent);
        }
        *request.headers_mut() = headers;
        self.client.address(&mut request, self.path, self.credential);
        request
    }
}

/// Headers that always pass.
static PASSED: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::ACCEPT, TRACEPARENT, HeaderName::from_static("tracestate")];
/// The id of a request, on both sides of the gateway.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the `connection` header of a message names as its own hop's, lower case.
fn hop_headers(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// What of the client's headers goes upstream: an allow-list, less what is of the client's hop.
pub(super) fn forwarded(client: &HeaderMap, listed: &[HeaderName], request_id: &str) -> HeaderMap {
    let hop = hop_headers(client);
    // With what belongs to the upstream it has room for the headers of an ordinary call.
    let mut out = HeaderMap::with_capacity(12);
    for (name, value) in client {
        if PASSED.contains(name) || may_pass(listed, name) {
            pass(&mut out, &hop, name, value);
        }
    }
    if let Ok(id) = HeaderValue::from_str(request_id) {
        out.insert(REQUEST_ID, id);
    }
    out
}

/// What of an upstream's headers goes back to the client: an allow-list, less what is of the upstream's hop.
pub(super) fn returned(upstream: &HeaderMap, listed: &[HeaderName], into: &mut HeaderMap) {
    let hop = hop_headers(upstream);
    for (name, value) in upstream {
        if may_pass(listed, name) {
            pass(into, &hop, name, value);
        }
    }
}

fn may_pass(listed: &[HeaderName], name: &HeaderName) -> bool {
    listed.contains(name) && !config::never_crosses(name.as_str())
}

fn pass(into: &mut HeaderMap, hop: &[String], name: &HeaderName, value: &HeaderValue) {
    if !hop.iter().any(|hop| hop == name.as_str()) {
        into.append(name.clone(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn only_listed_headers_pass_and_no_credential_or_hop_header_ever_does() {
        let client = map(&[
            ("connection", "x-a, Keep-Alive"),
            ("x-a", "1"),
            ("authorization", "Bearer gw"),
            ("cookie", "c"),
            ("content-type", "application/json"),
            ("x-keep", "1"),
            ("x-other", "1"),
            ("x-request-id", "theirs"),
            ("traceparent", "00-1"),
        ]);
        let listed = ["x-a", "x-keep", "authorization", "cookie"].map(HeaderName::from_static);
        let sent = forwarded(&client, &listed, "ours");
        let mut names: Vec<&str> = sent.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "traceparent", "x-keep", "x-request-id"]);
        assert_eq!(sent.get("x-request-id").unwrap(), "ours");
        assert!(!PASSED.iter().any(|name| config::never_crosses(name.as_str())));
    }

    #[test]
    fn what_an_upstream_names_as_its_hops_own_does_not_pass_even_when_it_is_listed() {
        let upstream = map(&[
            ("connection", "X-B , close"),
            ("x-b", "1"),
            ("x-c", "1"),
            ("x-d", "1"),
            ("set-cookie", "c"),
            ("keep-alive", "timeout=5"),
        ]);
        let listed = ["x-b", "x-c", "set-cookie", "keep-alive"].map(HeaderName::from_static);
        let mut passed = HeaderMap::new();
        returned(&upstream, &listed, &mut passed);
        assert_eq!(passed.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-c"]);
    }
}
