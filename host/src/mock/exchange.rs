//! One request and its answer: which page or which behaviour, and the head that goes with it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::answer::{Failure, Shape};
use super::behaviour::{Act, Behaviour, GRAMMAR, MODEL_PREFIX};
use super::script::{Broken, ScriptBody};
use super::stats::Exchange;

/// Largest request body.
const MAX_BODY: usize = 32 << 20;
/// A request body that takes longer is given up.
const BODY_TIME: Duration = Duration::from_secs(60);

type Answer = Response<ScriptBody>;

/// Answers one request. An error ends the connection without an answer, as the script wants it.
pub(super) async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    reset: Arc<AtomicBool>,
) -> Result<Answer, Broken> {
    let mut answer = match (request.method(), request.uri().path()) {
        (&Method::POST, "/v1/chat/completions") => chat(request, &shared, &reset).await?,
        (&Method::GET, "/v1/models") => page(&models()),
        (&Method::GET, "/mock/stats") => page(&json!(shared.counters.snapshot())),
        (&Method::POST, "/mock/reset") => {
            shared.reset();
            page(&json!({"ok": true}))
        }
        (method, path) => {
            let message = format!(
                "Unknown request URL: {method} {path}. This is a scripted upstream with /v1/chat/completions, /v1/models, /mock/stats and /mock/reset."
            );
            refused(&shared, Failure::invalid(404, message, Some("unknown_url")))
        }
    };
    let id = format!("req_{:016x}", fastrand::u64(..));
    if let Ok(id) = HeaderValue::try_from(id) {
        answer.headers_mut().insert(HeaderName::from_static("x-request-id"), id);
    }
    Ok(answer)
}

/// What is read of a request. Everything else in it is as good as any.
#[derive(Deserialize)]
struct ChatRequest {
    model: String,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

async fn chat(request: Request<Incoming>, shared: &Shared, reset: &AtomicBool) -> Result<Answer, Broken> {
    let version = request.version();
    let body =
        match tokio::time::timeout(BODY_TIME, Limited::new(request.into_body(), MAX_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let message = format!("The request body is larger than {MAX_BODY} bytes.");
                return Ok(refused(shared, Failure::invalid(413, message, None)));
            }
            Ok(Err(_)) | Err(_) => return Err(Broken),
        };
    let chat: ChatRequest = match serde_json::from_slice(&body) {
        Ok(chat) => chat,
        Err(error) => {
            let message = format!("We could not parse the JSON body of your request: {error}");
            return Ok(refused(shared, Failure::invalid(400, message, None)));
        }
    };
    let behaviour = match shared.behaviour(&chat.model) {
        Ok(behaviour) => behaviour,
        Err(error) => {
            let message =
                format!("A model name that begins with `{MODEL_PREFIX}` chooses a behaviour: {error}");
            return Ok(refused(shared, Failure::invalid(404, message, Some("model_not_found"))));
        }
    };
    let exchange = shared.counters.begin(&chat.model, behaviour.act.label());
    play(&chat, behaviour, body.len(), shared, exchange, (version, reset)).await
}

/// Everything up to the head; the body then plays by itself.
async fn play(
    chat: &ChatRequest,
    Behaviour { slow, act }: Behaviour,
    request_bytes: usize,
    shared: &Shared,
    exchange: Exchange,
    (version, reset): (Version, &AtomicBool),
) -> Result<Answer, Broken> {
    let failure = Failure::of(act, &chat.model);
    if failure.is_some() || matches!(act, Act::Silent | Act::Reset) {
        tokio::time::sleep(slow).await;
    }
    if let Some(failure) = failure {
        return Ok(failed(&failure, Some(exchange)));
    }
    match act {
        Act::Silent => match silence().await {},
        Act::Reset => {
            // A multiplexed connection carries other calls too: there only the one stream is reset.
            if version < Version::HTTP_2 {
                reset.store(true, Ordering::Release);
            }
            exchange.broken();
            return Err(Broken);
        }
        _ => {}
    }
    let shape = shape(chat, request_bytes, shared);
    if chat.stream.unwrap_or(false) {
        let mut answer = Response::new(ScriptBody::new(shape.stream(act, slow), exchange));
        answer
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        return Ok(answer);
    }
    tokio::time::sleep(slow + shape.time(act)).await;
    let (length, script) = shape.plain(act);
    if length == 0 {
        // A body of no bytes is never asked for, so it cannot tell its end.
        exchange.completed();
        return Ok(json_answer(StatusCode::OK, 0, ScriptBody::fixed(Bytes::new())));
    }
    Ok(json_answer(StatusCode::OK, length, ScriptBody::new(script, exchange)))
}

/// Waits until the client leaves, which drops whoever waits here.
async fn silence() -> Infallible {
    std::future::pending().await
}

fn shape(chat: &ChatRequest, request_bytes: usize, shared: &Shared) -> Shape {
    let words = Arc::clone(&shared.words);
    let one_each = u32::try_from(words.len()).unwrap_or(u32::MAX);
    Shape {
        id: format!("chatcmpl-{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..)),
        created: crate::clock::wall().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        model: chat.model.clone(),
        words,
        chunks: shared.settings.chunks.unwrap_or(one_each),
        delay: shared.settings.delay,
        usage: chat.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false),
        prompt_tokens: u64::try_from(request_bytes / 4).unwrap_or(u64::MAX).max(1),
    }
}

fn refused(shared: &Shared, failure: Failure) -> Answer {
    shared.counters.refused();
    failed(&failure, None)
}

fn failed(failure: &Failure, exchange: Option<Exchange>) -> Answer {
    let body = Bytes::from(failure.body().to_string());
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let length = body.len();
    let body = match exchange {
        Some(exchange) => {
            ScriptBody::new(Box::new(std::iter::once(super::script::Step::Last(body))), exchange)
        }
        None => ScriptBody::fixed(body),
    };
    let mut answer = json_answer(status, length, body);
    if let Some(hint) = failure.retry_after {
        // Whole seconds are all the standard header can say; the exact hint goes beside it.
        let millis = u64::try_from(hint.as_millis()).unwrap_or(u64::MAX);
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(millis.div_ceil(1000)));
        if millis % 1000 != 0 {
            answer.headers_mut().insert(HeaderName::from_static("retry-after-ms"), HeaderValue::from(millis));
        }
    }
    answer
}

fn page(value: &Value) -> Answer {
    let body = Bytes::from(value.to_string());
    json_answer(StatusCode::OK, body.len(), ScriptBody::fixed(body))
}

fn json_answer(status: StatusCode, length: usize, body: ScriptBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    answer
}

fn models() -> Value {
    let names = GRAMMAR.iter().map(|(_, example, _)| format!("{MODEL_PREFIX}{example}"));
    let entry = |id: String| json!({"id": id, "object": "model", "created": 1_700_000_000, "owned_by": "sluice-mock"});
    json!({"object": "list", "data": names.map(entry).collect::<Vec<_>>()})
}
