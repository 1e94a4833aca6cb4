//! The bytes of a scripted upstream: completions, chunks and errors in the shapes providers send.
//!
//! Pure: what is written is decided from the request, the behaviour and the settings alone.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::behaviour::Act;
use super::script::{Script, Step};

/// What the shapes need to know of one call.
#[derive(Debug, Clone)]
pub struct Shape {
    /// `chatcmpl-…`.
    pub id: String,
    /// Unix seconds.
    pub created: u64,
    /// Echoed.
    pub model: String,
    /// The words of the answer, each with its trailing space; never empty.
    pub words: std::sync::Arc<[String]>,
    /// How many of them, round and round.
    pub chunks: u32,
    /// Between two chunks.
    pub delay: Duration,
    /// `stream_options.include_usage`.
    pub usage: bool,
    /// Tokens of the prompt, estimated from its length.
    pub prompt_tokens: u64,
}

impl Shape {
    fn word(&self, n: u32) -> &str {
        let at = usize::try_from(n).unwrap_or_default() % self.words.len().max(1);
        self.words.get(at).map_or("", String::as_str)
    }

    fn usage_value(&self) -> Value {
        let completion = u64::from(self.chunks);
        json!({"prompt_tokens": self.prompt_tokens, "completion_tokens": completion, "total_tokens": self.prompt_tokens + completion})
    }

    fn object<'a>(&'a self, object: &'static str, choices: &'a Value, usage: Option<Value>) -> Object<'a> {
        let Self { id, created, model, .. } = self;
        Object { id, object, created: *created, model, system_fingerprint: "fp_mock", choices, usage }
    }

    fn chunk(&self, choices: &Value, usage: Option<Value>) -> Bytes {
        let usage = self.usage.then(|| usage.unwrap_or(Value::Null));
        event(&self.object("chat.completion.chunk", choices, usage))
    }

    fn delta(&self, delta: &Value, finish: Option<&str>) -> Bytes {
        self.chunk(&json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]), None)
    }

    fn role(&self) -> Bytes {
        self.delta(&json!({"role": "assistant", "content": "", "refusal": null}), None)
    }

    fn content(&self, n: u32) -> Bytes {
        self.delta(&json!({"content": self.word(n)}), None)
    }

    /// The whole answer of a plain call.
    #[must_use]
    pub fn completion(&self) -> Bytes {
        let text: String = (0..self.chunks).map(|n| self.word(n)).collect();
        let message = json!({"role": "assistant", "content": text, "refusal": null});
        let choices = json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"}]);
        Bytes::from(json_text(&self.object("chat.completion", &choices, Some(self.usage_value()))))
    }

    /// The steps of a stream that behaves so. Lazy: a million chunks cost nothing until they are read.
    #[must_use]
    pub fn stream(self, act: Act, slow: Duration) -> Script {
        let all = self.chunks;
        let (chunks, ending) = match act {
            Act::RoleCut | Act::Cut(0) => (0, Ending::Cut),
            Act::Cut(n) => (n, Ending::Cut),
            Act::Stall(n) => (n, Ending::Stall),
            Act::Error(n) => (n, Ending::Error),
            Act::Empty => return Box::new(std::iter::once(Step::End)),
            Act::NoDone => (all, Ending::Finish { done: false }),
            _ => (all, Ending::Finish { done: true }),
        };
        let malformed_at = match act {
            Act::Malformed(n) => Some(n.min(all)),
            _ => None,
        };
        let first_of_all = act == Act::Error(0);
        let opening = (!first_of_all).then(|| Step::Send(self.role()));
        let closing = self.closing(ending);
        let delay = self.delay;
        let body = (0..=chunks).flat_map(move |n| {
            let broken = (malformed_at == Some(n)).then(|| Step::Send(Bytes::from_static(MALFORMED)));
            let pause = (n > 0 && n < chunks).then_some(Step::Pause(delay));
            let content = (n < chunks).then(|| Step::Send(self.content(n)));
            [broken, pause, content].into_iter().flatten()
        });
        Box::new(std::iter::once(Step::Pause(slow)).chain(opening).chain(body).chain(closing))
    }

    fn closing(&self, ending: Ending) -> Vec<Step> {
        match ending {
            Ending::Cut => vec![Step::Cut],
            Ending::Stall => vec![Step::Stall],
            Ending::Error => {
                vec![Step::Send(event(&Failure::IN_STREAM.body())), Step::Last(Bytes::from_static(DONE))]
            }
            Ending::Finish { done } => {
                let mut steps =
                    vec![Step::Pause(self.delay), Step::Send(self.delta(&json!({}), Some("stop")))];
                if self.usage {
                    steps.push(Step::Send(self.chunk(&json!([]), Some(self.usage_value()))));
                }
                steps.push(if done { Step::Last(Bytes::from_static(DONE)) } else { Step::End });
                steps
            }
        }
    }

    /// How long a plain answer takes to begin: as long as its stream would have taken.
    #[must_use]
    pub fn time(&self, act: Act) -> Duration {
        let chunks = match act {
            Act::Cut(n) | Act::Stall(n) | Act::Error(n) => n,
            Act::RoleCut | Act::Empty => 0,
            _ => self.chunks,
        };
        self.delay.saturating_mul(chunks)
    }

    /// The body of a plain answer that behaves so, and its length as the head tells it.
    #[must_use]
    pub fn plain(&self, act: Act) -> (usize, Script) {
        let whole = self.completion();
        let half = whole.slice(..whole.len() / 2);
        let (length, steps) = match act {
            Act::Cut(_) | Act::RoleCut => (whole.len(), vec![Step::Send(half), Step::Cut]),
            Act::Stall(_) => (whole.len(), vec![Step::Send(half), Step::Stall]),
            Act::Malformed(_) => (half.len(), vec![Step::Last(half)]),
            Act::Empty => (0, vec![Step::End]),
            Act::Error(_) => {
                let body = Bytes::from(Failure::IN_STREAM.body().to_string());
                (body.len(), vec![Step::Last(body)])
            }
            _ => (whole.len(), vec![Step::Last(whole)]),
        };
        (length, Box::new(steps.into_iter()))
    }
}

const DONE: &[u8] = b"data: [DONE]\n\n";
/// Cut off inside a string, as a proxy that splits at the wrong place does it.
const MALFORMED: &[u8] = b"data: {\"id\":\"chatcmpl-\n\n";

/// How a stream ends once its chunks are out.
#[derive(Clone, Copy)]
enum Ending {
    Cut,
    Stall,
    Error,
    Finish { done: bool },
}

/// What chunks and completions have in common, its members in the order in which the API sends them.
#[derive(Serialize)]
struct Object<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'static str,
    choices: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

/// Numbers, text, lists and maps with text keys: nothing here can fail to be JSON.
fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn event(value: &impl Serialize) -> Bytes {
    Bytes::from(format!("data: {}\n\n", json_text(value)))
}

/// An error answer in OpenAI's shape.
#[derive(Debug, Clone)]
pub struct Failure {
    /// HTTP status.
    pub status: u16,
    message: String,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<&'static str>,
    /// The `Retry-After` hint.
    pub retry_after: Option<Duration>,
}

impl Failure {
    const IN_STREAM: Self = Self::new(500, String::new(), "server_error", Some("server_error"));

    const fn new(status: u16, message: String, kind: &'static str, code: Option<&'static str>) -> Self {
        Self { status, message, kind, code, param: None, retry_after: None }
    }

    /// The mistake of a caller, told as the API tells it.
    #[must_use]
    pub fn invalid(status: u16, message: String, code: Option<&'static str>) -> Self {
        Self::new(status, message, "invalid_request_error", code)
    }

    /// What an act answers instead of a completion; none for acts that are no HTTP error.
    #[must_use]
    pub fn of(act: Act, model: &str) -> Option<Self> {
        let failure = match act {
            Act::Status(status) => Self::of_status(status, model),
            Act::FailFor(_) => Self::of_status(503, model),
            Act::RateLimit(retry_after) => Self { retry_after, ..Self::of_status(429, model) },
            Act::Quota => {
                let message = "You exceeded your current quota, please check your plan and billing details.";
                Self::new(429, message.to_owned(), "insufficient_quota", Some("insufficient_quota"))
            }
            Act::Context => Self {
                param: Some("messages"),
                ..Self::invalid(400, CONTEXT.to_owned(), Some("context_length_exceeded"))
            },
            Act::Filter => Self {
                param: Some("prompt"),
                ..Self::invalid(400, FILTER.to_owned(), Some("content_filter"))
            },
            _ => return None,
        };
        Some(failure)
    }

    fn of_status(status: u16, model: &str) -> Self {
        match status {
            401 => Self::invalid(status, "Incorrect API key provided.".to_owned(), Some("invalid_api_key")),
            403 => Self::invalid(status, "You are not allowed to use this model.".to_owned(), None),
            404 => {
                Self::invalid(status, format!("The model `{model}` does not exist."), Some("model_not_found"))
            }
            408 => Self::new(status, "Request timed out.".to_owned(), "timeout", None),
            429 => {
                let message = format!("Rate limit reached for {model} on requests per min.");
                Self::new(status, message, "requests", Some("rate_limit_exceeded"))
            }
            400..500 => Self::invalid(status, "The request was refused.".to_owned(), None),
            503 | 529 => {
                Self::new(status, "The engine is currently overloaded.".to_owned(), "overloaded_error", None)
            }
            _ => Self::new(
                status,
                "The server had an error while processing the request.".to_owned(),
                "server_error",
                None,
            ),
        }
    }

    /// The JSON body.
    #[must_use]
    pub fn body(&self) -> Value {
        let message = match self.message.as_str() {
            "" => "The server had an error while processing the request.",
            message => message,
        };
        json!({"error": {"message": message, "type": self.kind, "param": self.param, "code": self.code}})
    }
}

const CONTEXT: &str =
    "This model's maximum context length is 4096 tokens. However, your messages are longer.";
const FILTER: &str = "The response was filtered due to the prompt triggering the content management policy.";
