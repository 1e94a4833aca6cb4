//! From a request on the wire to a routed call: its id, its body within bounds, its route, its place.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, Request};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use sluice_core::budget::{self, Budget};
use sluice_core::facts::RequestFacts;
use sluice_core::kind::TransportError;
use sluice_core::lens::request::RequestBody;
use sluice_core::lens::wire::Wire;

use super::Shared;
use super::call::Call;
use super::caller;
use super::error::Failure;
use super::request::REQUEST_ID;
use super::settle::Ledger;
use crate::clock;
use crate::generation::Route;
use crate::state::{Gate, GateRefusal, Permit, Priority};

/// Longest wait for a request body, and for what is read on of one that is too large.
const BODY_WAIT: Duration = Duration::from_secs(120);
const READ_ON_WAIT: Duration = Duration::from_secs(1);
/// What is read on of a body that is too large, so that the answer arrives before the close.
const READ_ON_BYTES: usize = 1 << 20;

/// Headers that are looked for in every request: names that need not be read anew each time.
static BUDGET: HeaderName = HeaderName::from_static("x-sluice-budget-ms");
static TASK: HeaderName = HeaderName::from_static("x-sluice-task");

/// The id of a request: the client's when it is well-formed, else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let well_formed = |id: &&str| {
        (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let theirs = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(well_formed);
    theirs.map_or_else(new_id, Into::into)
}

/// A random id: 32 hexadecimal digits, written without the machinery of formats.
fn new_id() -> Arc<str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut id = [0; 32];
    for (pair, byte) in id.as_chunks_mut::<2>().0.iter_mut().zip(fastrand::u128(..).to_be_bytes()) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
    // Digits are text.
    std::str::from_utf8(&id).unwrap_or_default().into()
}

/// Why there is no call.
pub(super) enum NotAdmitted {
    /// Its books, and what is to be said.
    Refused(Box<Ledger>, Failure),
    /// The client left while it sent its body.
    Left,
}

/// Why there is no body.
enum NotRead {
    Refused(Failure),
    Left,
}

impl From<Failure> for NotRead {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

/// Finds out who calls, reads the body and finds the route. On failure the ledger comes back with what is to be said.
pub(super) async fn admit(
    mut ledger: Box<Ledger>,
    request: Box<Request<Incoming>>,
    wire: Wire,
) -> Result<Box<Call>, NotAdmitted> {
    match read(&mut ledger, request, wire).await {
        Ok(((route, body, budget), headers)) => {
            ledger.generation().cells.retry_budget.call(ledger.arrival());
            let mut call = Box::new(Call::new(ledger, route, body, headers, budget));
            match enter(&mut call).await {
                Ok(()) => Ok(call),
                Err(failure) => Err(NotAdmitted::Refused(call.ledger, failure)),
            }
        }
        Err(NotRead::Refused(failure)) => Err(NotAdmitted::Refused(ledger, failure)),
        // The ledger settles as it is: without an ending.
        Err(NotRead::Left) => Err(NotAdmitted::Left),
    }
}

async fn read(
    ledger: &mut Ledger,
    request: Box<Request<Incoming>>,
    wire: Wire,
) -> Result<(Routed, HeaderMap), NotRead> {
    let (head, body) = (*request).into_parts();
    match caller::identify(ledger.generation(), &head.headers) {
        Ok(caller) => ledger.calls(caller),
        Err(failure) => {
            ledger.shared().tracker.spawn(read_on(body));
            return Err(failure.into());
        }
    }
    let limit = ledger.generation().config.limits.body;
    let bytes = collect(body, limit, ledger.arrival() + BODY_WAIT, ledger.shared()).await?;
    // The client's own time to send it is not the gateway's.
    ledger.waited += clock::now().saturating_duration_since(ledger.arrival());
    Ok((route(ledger, bytes, &head.headers, wire)?, head.headers))
}

/// A request that has a route: that, what was read of its body, and its time.
pub(super) type Routed = (Arc<Route>, RequestBody, Budget);

/// Finds the route of a request whose body is there, and what plugins are told about it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn route(
    ledger: &mut Ledger,
    bytes: Bytes,
    headers: &HeaderMap,
    wire: Wire,
) -> Result<Routed, Failure> {
    let body = RequestBody::read(bytes, wire).map_err(Failure::Body)?;
    ledger.facts = facts(ledger, &body, headers);
    ledger.model = Some(body.model.clone());
    let mut wishes = headers.get_all(&BUDGET).iter();
    let wish = match (wishes.next(), wishes.next()) {
        (None, _) => None,
        (Some(value), another) => {
            let wish = value.to_str().ok().filter(|_| another.is_none()).and_then(budget::parse_budget_ms);
            let expected = "one positive whole number of milliseconds";
            Some(wish.ok_or(Failure::Header { name: "x-sluice-budget-ms", expected })?)
        }
    };
    let Some(route) = ledger.generation().route(&body.model).cloned() else {
        return Err(Failure::ModelNotFound { model: body.model.to_string() });
    };
    let budget = Budget::new(ledger.arrival(), route.config.budget, route.config.reserve, wish);
    ledger.budget = Some(budget);
    ledger.route = Some(route.clone());
    ledger.model = Some(route.config.name.clone());
    caller::may_call(ledger, &route.config.name)?;
    Ok((route, body, budget))
}

fn facts(ledger: &Ledger, body: &RequestBody, headers: &HeaderMap) -> RequestFacts {
    let text = |value: &http::HeaderValue| Some(value.to_str().ok()?.to_owned());
    let allowed = &ledger.generation().config.plugins.headers;
    let seen = allowed.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
    RequestFacts {
        id: ledger.id().clone(),
        model: body.model.clone(),
        task: headers.get(&TASK).and_then(text),
        caller: ledger.facts.caller.clone(),
        input_tokens: body.input_tokens,
        max_output_tokens: body.max_output_tokens,
        streaming: body.stream,
        tools: body.tools,
        images: body.images,
        json_output: body.json_output,
        messages: body.messages,
        affinity: body.affinity,
        headers: seen.filter_map(|(name, value)| Some((name.as_str().to_owned(), text(value)?))).collect(),
        seed: ledger.facts.seed,
    }
}

/// The limits of the caller, then the global gate.
async fn enter(call: &mut Call) -> Result<(), Failure> {
    // Until the call is in, this gives itself back, whoever turns it away.
    let spending = caller::enter(call).await?;
    let gate = call.ledger.generation().global_gate();
    let passed = match gate.try_enter(Priority::Newcomer) {
        Some(permit) => Ok(permit),
        None => {
            let gate = gate.clone();
            Box::pin(queue(call, &gate)).await
        }
    };
    call.global = Some(passed.map_err(|shut| match shut {
        Shut::Draining => Failure::Draining,
        Shut::Deadline => Failure::BudgetExhausted,
        Shut::Gate(GateRefusal::Full) => Failure::QueueFull,
        Shut::Gate(GateRefusal::TimedOut) => Failure::QueueTimeout,
    })?);
    call.ledger.spending = spending;
    Ok(())
}

/// Why a call did not come through a gate.
pub(super) enum Shut {
    /// The gateway goes down.
    Draining,
    /// Its own time was over.
    Deadline,
    /// The gate refused it.
    Gate(GateRefusal),
}

/// A permit of a gate, waited for inside the budget.
pub(super) async fn pass(call: &mut Call, gate: &Arc<Gate>) -> Result<Permit, Shut> {
    match gate.try_enter(Priority::Newcomer) {
        Some(permit) => Ok(permit),
        None => Box::pin(queue(call, gate)).await,
    }
}

/// The same for one that was not let in at once; most are, and do not carry the place for it.
async fn queue(call: &mut Call, gate: &Arc<Gate>) -> Result<Permit, Shut> {
    let (began, deadline) = (clock::now(), call.budget.deadline());
    let shared = call.ledger.shared().clone();
    let entered = tokio::select! {
        entered = gate.enter(Priority::Newcomer, deadline) => entered,
        () = shared.draining.cancelled() => return Err(Shut::Draining),
    };
    let now = clock::now();
    call.ledger.waited += now.saturating_duration_since(began);
    entered.map_err(|refusal| if now >= deadline { Shut::Deadline } else { Shut::Gate(refusal) })
}

/// The whole body, if it is there in time. One that is over the limit is read on for a moment, aside.
async fn collect(
    mut body: Incoming,
    limit: u64,
    deadline: Instant,
    shared: &Shared,
) -> Result<Bytes, NotRead> {
    let too_large = |body: Incoming| {
        shared.tracker.spawn(read_on(body));
        Failure::BodyTooLarge { limit }.into()
    };
    if body.size_hint().lower() > limit {
        return Err(too_large(body));
    }
    let limit_here = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    loop {
        let frame = tokio::select! {
            biased;
            frame = tokio::time::timeout_at(deadline.into(), body.frame()) => frame,
            () = shared.last_call.reached() => return Err(Failure::Draining.into()),
        };
        let frame = match frame {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(error))) if has_left(&error) => return Err(NotRead::Left),
            Ok(Some(Err(_))) | Err(_) => return Err(Failure::BodyIncomplete.into()),
        };
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + all.len() + data.len() > limit_here {
            return Err(too_large(body));
        }
        if all.is_empty() && first.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                let expected = usize::try_from(body.size_hint().lower()).unwrap_or(0);
                all.reserve(first.len() + data.len() + expected.min(READ_ON_BYTES));
                all.extend_from_slice(&first);
                first = Bytes::new();
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// The connection ended, or the stream was reset. Everything else is a body that is none.
fn has_left(error: &hyper::Error) -> bool {
    matches!(crate::upstream::http_class(error), TransportError::Closed | TransportError::Reset)
}

async fn read_on(mut body: Incoming) {
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > READ_ON_BYTES {
                return;
            }
        }
    };
    // Whether it ended or not, there is nothing more to do for this body.
    let _ = tokio::time::timeout(READ_ON_WAIT, reading).await;
}

/// The path of a request as its record shows it: known paths as they are, others cut.
pub(super) fn endpoint(path: &str) -> Cow<'static, str> {
    match Wire::ALL.into_iter().map(Wire::endpoint).find(|known| *known == path) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(path.chars().take(256).collect()),
    }
}
