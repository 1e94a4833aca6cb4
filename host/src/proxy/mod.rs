//! The life of a request: admit, plan, attempt, commit, relay, settle. Data flows one way through these
//! modules; what a plugin may advise and what only the host may do meet in `call`, and nowhere is Wasm named.

mod admit;
mod answer;
mod attempt;
mod begin;
mod body;
mod call;
mod caller;
mod clocks;
mod commit;
mod ending;
mod error;
mod explain;
mod fault;
mod fit;
mod gather;
mod judge;
mod last_call;
mod outlook;
mod plan;
mod relay;
mod request;
mod respond;
mod settle;
mod trace;
mod unwind;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use sluice_core::lens::wire::Wire;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use body::Body;
pub use explain::{Dry, Explained, Follows, Mishap, Step, TargetLine, explain};
pub use last_call::LastCall;

use crate::generation::Generation;
use crate::telemetry::Telemetry;
use admit::NotAdmitted;
use error::Failure;
use last_call::Ear;
use settle::Ledger;

/// What all requests of a gateway share.
pub struct Shared {
    /// The generation that new requests start with.
    pub current: ArcSwap<Generation>,
    /// Metrics, events, records.
    pub telemetry: Telemetry,
    /// Owns every task; drain waits for it.
    pub tracker: TaskTracker,
    /// Cancelled when the gateway goes down: queued and pausing calls are let go.
    pub draining: CancellationToken,
    /// Reached when what still runs has to come to its end.
    pub last_call: LastCall,
    /// Has a token for every request until its books are closed and its answer is written.
    pub running: TaskTracker,
}

/// Answers a call in a wire format. `set_write_limit` is told how long the client may leave the answer unread.
///
/// # Cancel safety
/// Dropping the future, or the body it gave, is the client leaving: everything is let go at once, and the
/// request settles as cancelled.
pub async fn call(
    shared: &Arc<Shared>,
    request: Box<Request<Incoming>>,
    wire: Wire,
    set_write_limit: &(dyn Fn(Option<Duration>) + Send + Sync),
) -> Response<Body> {
    let ledger = open(shared, &request);
    let id = ledger.id().clone();
    let work = pin!(async {
        match admit::admit(ledger, request, wire).await {
            Ok(call) => {
                set_write_limit(call.route.config.client_write);
                Box::pin(drive(shared, call)).await
            }
            Err(NotAdmitted::Refused(ledger, failure)) => refuse(ledger, failure).await,
            // Nobody is there to read it; the books say so.
            Err(NotAdmitted::Left) => without_books(shared, &id, &Failure::BodyIncomplete),
        }
    });
    match unwind::caught(work).await {
        Some(response) => response,
        None => {
            tracing::error!(request_id = &*id, "a call ended in a panic");
            without_books(shared, &id, &Failure::Internal)
        }
    }
}

/// Apart, so that a call which is answered does not carry the place for it.
fn refuse(ledger: Box<Ledger>, failure: Failure) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
    Box::pin(async move { commit::refuse(ledger, &failure).await })
}

async fn drive(shared: &Shared, mut call: Box<call::Call>) -> Response<Body> {
    let mut ear = Ear::default();
    let done = tokio::select! {
        biased;
        done = call.run() => Some(done),
        () = poll_fn(|cx| ear.poll_reached(&shared.last_call, cx)) => None,
    };
    match done {
        Some(Ok(shown)) => commit::show(call, shown).await,
        Some(Err(failure)) => commit::failed(call, failure).await,
        None => {
            call.ledger.attempt_cancelled();
            commit::failed(call, Failure::Draining).await
        }
    }
}

/// An error that is not in the books, or whose books are closed.
fn without_books(shared: &Arc<Shared>, id: &str, failure: &Failure) -> Response<Body> {
    let context = respond::Context { request_id: id.to_owned(), ..respond::Context::default() };
    let mut response = respond::error_response(failure, context);
    commit::add_request_id(shared, id, response.headers_mut());
    response
}

/// Answers a request for a path that is not there.
pub async fn not_found(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    let ledger = open(shared, &request);
    refuse(ledger, Failure::NotFound).await
}

/// Answers a request with a method its path does not take.
pub async fn method_not_allowed(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    allow: &'static str,
) -> Response<Body> {
    let ledger = open(shared, &request);
    refuse(ledger, Failure::MethodNotAllowed { allow }).await
}

/// Answers a request that came in plain text where TLS is spoken.
pub async fn needs_tls(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    let ledger = open(shared, &request);
    refuse(ledger, Failure::TlsNeeded).await
}

/// The same for a page of the gateway itself.
pub fn page_needs_tls(shared: &Arc<Shared>, request: &Request<Incoming>) -> Response<Body> {
    without_books(shared, &admit::request_id(request.headers()), &Failure::TlsNeeded)
}

/// The models a caller may use, or one of them: every route is one.
pub fn models(shared: &Arc<Shared>, request: &Request<Incoming>, one: Option<&str>) -> Response<Body> {
    let generation = shared.current.load();
    let entry =
        |name: &str| serde_json::json!({"id": name, "object": "model", "created": 0, "owned_by": "sluice"});
    let id = admit::request_id(request.headers());
    let caller = match caller::identify(&generation, request.headers()) {
        Ok(caller) => caller,
        Err(failure) => return without_books(shared, &id, &failure),
    };
    let may_call = |name: &str| caller.as_ref().is_none_or(|caller| caller.config.may_call(name));
    let mut response = match one {
        None => {
            let names = generation.config.routes.keys().filter(|name| may_call(name));
            let all: Vec<_> = names.map(|name| entry(name)).collect();
            json(&serde_json::json!({"object": "list", "data": all}))
        }
        Some(name) if generation.route(name).is_some() && may_call(name) => json(&entry(name)),
        Some(name) => return without_books(shared, &id, &Failure::ModelNotFound { model: name.to_owned() }),
    };
    commit::add_request_id(shared, &id, response.headers_mut());
    response
}

/// A page of the gateway itself, which is no request of an application.
pub fn page(
    shared: &Arc<Shared>,
    request: &Request<Incoming>,
    status: StatusCode,
    text: String,
) -> Response<Body> {
    let mut response = Response::new(Body::full(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    commit::add_request_id(shared, &admit::request_id(request.headers()), response.headers_mut());
    response
}

/// An answer without anything in it.
pub fn no_content(shared: &Arc<Shared>, request: &Request<Incoming>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    commit::add_request_id(shared, &admit::request_id(request.headers()), response.headers_mut());
    response
}

/// A page that is not there, or one that was asked for with another method than GET.
pub fn refused_page(shared: &Arc<Shared>, request: &Request<Incoming>, method: bool) -> Response<Body> {
    let failure = if method { Failure::MethodNotAllowed { allow: "GET" } } else { Failure::NotFound };
    without_books(shared, &admit::request_id(request.headers()), &failure)
}

/// A JSON answer of the gateway itself.
fn json(value: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(Body::full(value.to_string().into()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn open(shared: &Arc<Shared>, request: &Request<Incoming>) -> Box<Ledger> {
    let id = admit::request_id(request.headers());
    let endpoint = admit::endpoint(request.uri().path());
    let mut ledger = Box::new(Ledger::new(shared.clone(), shared.current.load_full(), endpoint, id));
    ledger.trace = trace::begin(ledger.generation().config.traces.as_ref(), request.headers());
    ledger
}
