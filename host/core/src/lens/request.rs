//! What the gateway reads from a request body, and the one value it replaces in it.
//!
//! The body is never parsed and written again: key order, white space, escapes and big numbers reach the
//! upstream as the client sent them. What is replaced is cut out by its place in the bytes.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use super::estimate;
use super::output_limit::OutputLimit;
use super::scan::first_special;
use super::splice::{Edit, UsageWish, place, replaced, splice};
use super::wire::Wire;
use members::Members;

mod members;

/// Deepest nesting of objects and lists that is let through.
pub const DEPTH_MAX: usize = 128;

/// Most top-level keys; the API knows some forty.
pub const KEYS_MAX: usize = 1024;

/// Why a body is refused before any upstream is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Not one JSON object.
    #[error("the body is not one JSON object: {0}")]
    Json(String),
    /// Nested too deeply.
    #[error("the body is nested more than {DEPTH_MAX} levels deep")]
    Depth,
    /// More top-level keys than any request has.
    #[error("the body has more than {KEYS_MAX} top-level keys")]
    Keys,
    /// A top-level key comes twice, so that two readers could see two requests.
    #[error("the top-level key {0:?} comes more than once")]
    Duplicate(String),
    /// A field the gateway needs is missing or of another type.
    #[error("{field}: expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
}

/// A request body and what was read from it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestBody {
    /// The wire format it came in.
    pub wire: Wire,
    /// The client's own bytes.
    pub bytes: Bytes,
    /// Where the value of `model` lies in them.
    pub model_at: Range<usize>,
    /// The requested name.
    pub model: Arc<str>,
    /// A stream was asked for.
    pub stream: bool,
    /// Usage in the stream: whether the client asked for it, and how the body can.
    pub usage: UsageWish,
    /// Answers asked for: `n`, for each prompt.
    pub choices: u32,
    /// Estimated input tokens: of messages and tools, of the prompt, of the input.
    pub input_tokens: u32,
    /// Where the output limit stands.
    pub output_limit: OutputLimit,
    /// `max_completion_tokens`, else `max_tokens`.
    pub max_output_tokens: Option<u32>,
    /// Tools or functions are offered.
    pub tools: bool,
    /// A message carries an image.
    pub images: bool,
    /// `response_format` asks for JSON.
    pub json_output: bool,
    /// Number of messages.
    pub messages: u32,
    /// Hash of the cache key, else the session, else the user.
    pub affinity: Option<u64>,
}

impl RequestBody {
    /// Reads a body.
    ///
    /// # Errors
    /// When it is not one JSON object, nested too deeply, has a top-level key twice, or lacks a usable `model`.
    pub fn read(bytes: Bytes, wire: Wire) -> Result<Self, BodyError> {
        let members = Members::read(&bytes)?;
        if members.too_many {
            return Err(BodyError::Keys);
        }
        if let Some(key) = members.duplicate {
            return Err(BodyError::Duplicate(key.chars().take(64).collect()));
        }
        let model_raw = members.model.ok_or(BodyError::Field { field: "model", expected: "a string" })?;
        let model = text(model_raw).ok_or(BodyError::Field { field: "model", expected: "a string" })?.into();
        let model_at = place(&bytes, model_raw);
        let stream = flag(members.stream)? && wire.streams();
        let (chat, output) = (wire == Wire::Chat, wire != Wire::Embeddings);
        let messages = members.messages.filter(|_| chat);
        let measured = messages.map(estimate::measure).unwrap_or_default();
        let n = members.n.and_then(number).unwrap_or(1).max(1);
        let request = Self {
            wire,
            stream,
            usage: if stream {
                UsageWish::read(&bytes, members.stream_options, model_at.end)
            } else {
                UsageWish::default()
            },
            choices: n
                .saturating_mul(members.prompt.filter(|_| wire == Wire::Completions).map_or(1, prompts)),
            input_tokens: match wire {
                Wire::Chat => [members.tools, members.functions]
                    .into_iter()
                    .flatten()
                    .map(estimate::tokens)
                    .fold(measured.tokens, usize::saturating_add)
                    .try_into()
                    .unwrap_or(u32::MAX),
                Wire::Completions => members.prompt.map_or(0, tokens),
                Wire::Embeddings => members.input.map_or(0, tokens),
            },
            output_limit: if output { output_limit(&bytes, &members) } else { OutputLimit::default() },
            max_output_tokens: [members.max_completion_tokens.filter(|_| chat), members.max_tokens]
                .into_iter()
                .flatten()
                .filter(|_| output)
                .find_map(number),
            tools: [members.tools, members.functions]
                .into_iter()
                .flatten()
                .filter(|_| chat)
                .any(|t| lenient::<super::presence::Presence>(t).is_some_and(|p| p.says)),
            images: measured.may_show && messages.is_some_and(has_image),
            json_output: members
                .response_format
                .filter(|_| output)
                .and_then(lenient::<Typed<'_>>)
                .is_some_and(|f| f.of(&["json_object", "json_schema"])),
            messages: u32::try_from(measured.items).unwrap_or(u32::MAX),
            affinity: affinity(&members),
            model_at,
            model,
            bytes: Bytes::new(),
        };
        Ok(Self { bytes, ..request })
    }

    /// The body for a target: the client's bytes with the value of `model` replaced, and these edits made.
    pub fn with_model(&self, model: &str, further: &[Edit]) -> Bytes {
        // Nearly always nothing else changes, and nothing in the name has to be escaped.
        if further.is_empty() && first_special(model.as_bytes()).is_none() {
            return replaced(&self.bytes, &self.model_at, &["\"", model, "\""]);
        }
        // A string always serialises; the error type is that of writers.
        let name = serde_json::to_string(model).unwrap_or_default();
        let mut edits = vec![Edit { at: self.model_at.clone(), with: name.into() }];
        edits.extend_from_slice(further);
        splice(&self.bytes, &edits)
    }
}

/// The size of a prompt or input: texts by their length, tokens by their number.
fn tokens(raw: &str) -> u32 {
    match lenient::<Prompt>(raw) {
        Some(Prompt::Tokens(count)) => u32::try_from(count).unwrap_or(u32::MAX),
        Some(Prompt::TokenLists(lists)) => {
            u32::try_from(lists.iter().map(|list| list.0 as usize).sum::<usize>()).unwrap_or(u32::MAX)
        }
        _ => u32::try_from(estimate::tokens(raw)).unwrap_or(u32::MAX),
    }
}

/// How many prompts there are: a text or a list of tokens is one.
fn prompts(raw: &str) -> u32 {
    let many = match lenient::<Prompt>(raw) {
        Some(Prompt::TokenLists(lists)) => lists.len(),
        Some(Prompt::Texts(count)) => count,
        Some(Prompt::Tokens(_)) | None => 1,
    };
    u32::try_from(many).unwrap_or(u32::MAX).max(1)
}

fn output_limit(body: &Bytes, members: &Members<'_>) -> OutputLimit {
    let mut limit = OutputLimit::default();
    for raw in [members.max_completion_tokens, members.max_tokens].into_iter().flatten() {
        limit.found(place(body, raw));
    }
    limit
}

fn flag(raw: Option<&str>) -> Result<bool, BodyError> {
    match raw {
        None | Some("null" | "false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(BodyError::Field { field: "stream", expected: "true or false" }),
    }
}

/// A value the upstream will judge; ours is only to look.
fn lenient<'a, T: Deserialize<'a>>(raw: &'a str) -> Option<T> {
    serde_json::from_str(raw).ok()
}

/// A whole number that is not negative. JSON spells those as Rust does.
fn number(raw: &str) -> Option<u32> {
    raw.parse().ok()
}

/// The text of a string, which is borrowed where it stands there as it is.
fn text(raw: &str) -> Option<Cow<'_, str>> {
    let plain = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match plain.filter(|text| first_special(text.as_bytes()).is_none()) {
        Some(text) => Some(Cow::Borrowed(text)),
        None => lenient(raw),
    }
}

#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
}

impl Typed<'_> {
    fn of(&self, kinds: &[&str]) -> bool {
        self.kind.as_deref().is_some_and(|kind| kinds.contains(&kind))
    }
}

/// Items of one list of tokens.
struct Count(u32);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = Vec::<serde::de::IgnoredAny>::deserialize(deserializer)?;
        Ok(Self(u32::try_from(all.len()).unwrap_or(u32::MAX)))
    }
}

/// A prompt or input in one of the forms that are lists.
enum Prompt {
    Tokens(usize),
    TokenLists(Vec<Count>),
    Texts(usize),
}

impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::<&RawValue>::deserialize(deserializer)?;
        let first = items.first().map_or("", |item| item.get());
        Ok(match first.as_bytes().first() {
            Some(b'[') => {
                Self::TokenLists(items.into_iter().filter_map(|item| lenient(item.get())).collect())
            }
            Some(b'0'..=b'9') => Self::Tokens(items.len()),
            _ => Self::Texts(items.len()),
        })
    }
}

fn has_image(messages: &str) -> bool {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
    }
    lenient::<Vec<Message<'_>>>(messages).is_some_and(|messages| {
        messages.iter().filter_map(|m| m.content).any(|content| {
            lenient::<Vec<Typed<'_>>>(content.get())
                .is_some_and(|parts| parts.iter().any(|p| p.of(&["image_url", "input_image", "image"])))
        })
    })
}

fn affinity(members: &Members<'_>) -> Option<u64> {
    let keys = [members.prompt_cache_key, members.session_id, members.user, members.safety_identifier];
    let text = keys.into_iter().flatten().filter_map(text).find(|text| !text.is_empty())?;
    Some(fnv1a(text.as_bytes()))
}

/// FNV-1a, 64 bits: the same on every machine and in every version.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
