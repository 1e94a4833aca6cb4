//! The place of a request in a distributed trace: whether its spans are kept, and what upstreams are told.
//!
//! Without traces, or for a request whose spans are not kept, nothing is made here and the client's own headers go on
//! as they came.

use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_core::trace::{Kept, Parent, keep, traceparent};

use crate::config::Traces;
use crate::telemetry::traces::Trace;

/// Which span a message belongs to.
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// None: no spans are kept.
pub(super) fn begin(traces: Option<&Traces>, client: &HeaderMap) -> Option<Box<Trace>> {
    let traces = traces?;
    let Kept { trace_id, parent } = keep(said(client), traces.sample, fastrand::u128(..))?;
    Some(Box::new(Trace { trace_id, span_id: span_id(), parent, attempts: Vec::new() }))
}

/// What the client says; twice is as good as nothing.
fn said(client: &HeaderMap) -> Option<Parent> {
    let mut all = client.get_all(TRACEPARENT).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Parent::parse(one.to_str().ok()?),
        _ => None,
    }
}

/// A random one; zero is none.
pub(super) fn span_id() -> u64 {
    fastrand::u64(1..)
}

/// What others have written beside a trace does not belong beside another one.
pub(super) fn clear_state(trace: Option<&Trace>, headers: &mut HeaderMap) {
    if trace.is_some_and(|trace| trace.parent.is_none()) {
        headers.remove(TRACESTATE);
    }
}

/// The header by which spans of the upstream become children of the attempt that runs.
pub(super) fn of_attempt(trace: Option<&Trace>) -> Option<HeaderValue> {
    let trace = trace?;
    HeaderValue::try_from(traceparent(trace.trace_id, trace.attempts.last()?.span_id)).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_client_that_says_it_twice_has_said_nothing() {
        let one = HeaderValue::from_static("00-0000000000000000000000000000000a-000000000000000b-00");
        let mut client = HeaderMap::new();
        client.append(TRACEPARENT, one.clone());
        assert_eq!(said(&client), Some(Parent { trace_id: 10, span_id: 11, sampled: false }));
        client.append(TRACEPARENT, one);
        assert_eq!(said(&client), None);
    }
}
