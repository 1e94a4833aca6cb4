//! The moment an answer is shown: taggers are asked, the head is made, the body begins. And its counterpart,
//! the error that is shown when there is no answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use sluice_core::facts::{Sink, Tag, TagPhase};
use sluice_core::{retry_after, tag_name};

use super::Shared;
use super::attempt::{Ready, ReadyAnswer};
use super::begin::{Attempt, served};
use super::body::Body;
use super::call::Call;
use super::ending::Ending;
use super::error::Failure;
use super::fault::upstream_request_id;
use super::relay::Relay;
use super::request::{REQUEST_ID, returned};
use super::respond::{Context, cleaned, error_response, secrets_of};
use super::settle::Ledger;
use crate::clock;

/// Shows the answer of an attempt.
pub(super) async fn show(mut call: Box<Call>, mut shown: Box<(Attempt, Ready)>) -> Response<Body> {
    let now = clock::now();
    let (attempt, ready) = &mut *shown;
    let target = &call.route.targets[attempt.position];
    let took = now.saturating_duration_since(attempt.started);
    let probe = attempt.ticket.is_probe();
    attempt.ticket.commit();
    if probe {
        call.ledger.probe_succeeded(target);
    }
    let first_content = ready.first_content.map(|at| at.saturating_duration_since(attempt.started));
    target.cell.observe_commit(now, took, first_content);
    let about = ready.headers.iter().filter(|(name, _)| retry_after::may_tell_quota(name.as_str()));
    let texts = about.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    if let Some(left) = retry_after::quota_left(texts) {
        target.cell.observe_quota(now, left);
    }
    let upstream_id = upstream_request_id(&ready.headers);
    call.ledger.commits(target, ready.status, ready.first_content.is_some(), upstream_id, now);
    let Some(tags) = tags(&mut call.ledger, None, 200, now).await else {
        drop(shown);
        return failed(call, Failure::PluginDenied).await;
    };
    let (attempt, ready) = *shown;
    let mut head = HeaderMap::with_capacity(20);
    returned(&ready.headers, &call.ledger.generation().config.return_headers, &mut head);
    add_own(&mut call.ledger, tags, &mut head);
    let body = match ready.answer {
        ReadyAnswer::Stream { body, stream, end } => {
            head.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            head.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
            head.insert("x-accel-buffering", HeaderValue::from_static("no"));
            Body::relay(Box::new(Relay::new(call, attempt, body, stream, end)))
        }
        ReadyAnswer::Whole { body, usage, text } => {
            head.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            call.ledger.usage = usage.or(Some(sluice_core::facts::Usage {
                input: u64::from(call.body.input_tokens),
                output: (text as u64).div_ceil(4),
                estimated: true,
            }));
            drop(served(&mut call, attempt));
            let body = call.ledger.marked(body);
            Body::full(body).runs(call.ledger.keep_running())
        }
    };
    let mut response = Response::new(body);
    *response.headers_mut() = head;
    response
}

/// Shows why a routed request has no answer: apart, so that a call that has one does not carry the place for it.
pub(super) fn failed(
    call: Box<Call>,
    failure: Failure,
) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
    Box::pin(fail(call, failure))
}

/// Shows why a routed request has no answer.
pub(super) async fn fail(call: Box<Call>, mut failure: Failure) -> Response<Body> {
    let Call { ledger, route, global, own, .. } = *call;
    drop((global, own));
    let secrets: Vec<String> =
        route.targets.iter().flat_map(|t| secrets_of(&t.config.target.upstream)).collect();
    if let Failure::Upstream(fault) = &mut failure
        && let Some(error) = &fault.error
    {
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        fault.error = Some(cleaned(error, &secrets));
    }
    refuse(ledger, &failure).await
}

/// Shows why a request has no answer, whether or not its route is known.
pub(super) async fn refuse(mut ledger: Box<Ledger>, failure: &Failure) -> Response<Body> {
    let status = failure.status().as_u16();
    let ending = Ending { status, outcome: failure.outcome(), error_code: Some(failure.code()) };
    // The client may leave while taggers are asked; the request has ended as it has.
    ledger.end(ending.clone());
    let tags = if ledger.budget.is_some() {
        tags(&mut ledger, Some(&ending), status, clock::now()).await.unwrap_or_default()
    } else {
        Vec::new()
    };
    let exposed = ledger.generation().config.tags.expose_upstream;
    let context = Context {
        request_id: ledger.id().to_string(),
        attempts: ledger.attempt_views(exposed),
        budget_left: ledger.budget.map(|b| b.left(clock::now())),
    };
    let mut response = error_response(failure, context);
    if ledger.budget.is_some() {
        response = response.map(|body| body.mapped(|bytes| ledger.marked(bytes)));
    }
    add_own(&mut ledger, tags, response.headers_mut());
    response.map(|body| body.runs(ledger.keep_running()))
}

/// Asks the taggers; none: one that must answer could not.
async fn tags(ledger: &mut Ledger, ending: Option<&Ending>, status: u16, now: Instant) -> Option<Vec<Tag>> {
    let answer = ledger.answer_facts(TagPhase::Head, ending, status, now);
    let moment = ledger.moment(ledger.attempts(), now);
    if !ledger.tagger_denied {
        let asked = ledger.policy().tag(&ledger.facts, moment, &answer).await;
        let (tags, denied) = ledger.note_asked(asked);
        if !denied {
            ledger.keep_record_tags(&tags);
            return Some(tags);
        }
        ledger.tagger_denied = true;
    }
    // What is refused anyway says what it can.
    ending?;
    let asked = ledger.policy().tag_refusal(&ledger.facts, moment, &answer).await;
    Some(ledger.note_asked(asked).0)
}

/// The headers of ours on an answer that is not there. None: a tagger that must answer could not.
pub(super) async fn head_alone(ledger: &mut Ledger) -> Option<HeaderMap> {
    let tags = tags(ledger, None, 200, clock::now()).await?;
    let mut head = HeaderMap::new();
    add_own(ledger, tags, &mut head);
    Some(head)
}

fn add_own(ledger: &mut Ledger, tags: Vec<Tag>, head: &mut HeaderMap) {
    ledger.decision.response_tags.reserve_exact(tags.len());
    for tag in tags.into_iter().filter(|tag| tag.sink != Sink::Record) {
        if let (Some(name), Some(value)) = (header_name(&tag.name), header_value(&tag.value)) {
            head.insert(name, value);
        }
        ledger.decision.response_tags.push((tag.name, tag.value));
    }
    if let Some(caller) = &ledger.caller {
        caller.add_limits(head);
    }
    add_request_id(ledger.shared(), ledger.id(), head);
}

/// The usual tags as headers. They need not be read again for every answer.
static USUAL: LazyLock<[HeaderName; tag_name::USUAL.len()]> =
    LazyLock::new(|| tag_name::USUAL.map(HeaderName::from_static));

fn header_name(name: &str) -> Option<HeaderName> {
    match tag_name::usual(name) {
        Some(at) => Some(USUAL[at].clone()),
        None => HeaderName::try_from(name).ok(),
    }
}

/// What most answers say, ready to be written.
static PRIMARY: HeaderValue = HeaderValue::from_static("primary");
static FALSE: HeaderValue = HeaderValue::from_static("false");
static ONE: HeaderValue = HeaderValue::from_static("1");

fn header_value(text: &str) -> Option<HeaderValue> {
    match text {
        "primary" => Some(PRIMARY.clone()),
        "false" => Some(FALSE.clone()),
        "1" => Some(ONE.clone()),
        _ => HeaderValue::from_str(text).ok(),
    }
}

/// The headers every answer has.
pub(super) fn add_request_id(shared: &Arc<Shared>, id: &str, head: &mut HeaderMap) {
    if let Ok(id) = HeaderValue::from_str(id) {
        head.insert(REQUEST_ID, id);
    }
    if shared.draining.is_cancelled() {
        head.insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_its_tag_says_whether_or_not_it_was_ready() {
        for text in ["primary", "fallback", "false", "true", "1", "2", "", "g1 router=a@b"] {
            assert_eq!(
                header_value(text).as_ref().map(HeaderValue::as_bytes),
                Some(text.as_bytes()),
                "{text}"
            );
        }
        assert_eq!(header_value("a\r\nb"), None);
    }
}
