//! The chat-completions wire: which events of a stream carry meaning, and what a whole answer looks like.

use std::fmt;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::ProviderError;
use super::presence::Presence;
use crate::facts::Usage;

mod usual;

/// What one event of a stream is.
#[derive(Debug, PartialEq)]
pub enum Meaning {
    /// A chunk of the answer.
    Chunk(Chunk),
    /// `[DONE]`.
    Done,
    /// An error object.
    Error(Box<ProviderError>),
    /// Valid JSON that is no chunk: pings, empty data.
    Nothing,
    /// Not JSON, or not of the documented shape.
    Malformed,
}

/// The facts of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chunk {
    /// Content, reasoning, tool call, refusal or audio.
    pub content: bool,
    /// Bytes of text in it.
    pub text: usize,
    /// Indices of choices that appear, as bits; the highest bit stands for all further ones.
    pub seen: u64,
    /// Indices of choices that end with a finish reason, as bits.
    pub finished: u64,
    /// A finish reason says the upstream failed.
    pub finished_by_error: bool,
    /// `choices` is empty.
    pub empty: bool,
    /// Usage it carries.
    pub usage: Option<Usage>,
}

impl Chunk {
    /// It makes a stream worth showing: content or a finish reason.
    pub const fn commits(&self) -> bool {
        self.content || self.finished != 0
    }
}

#[derive(Deserialize)]
struct RawChunk {
    #[serde(default)]
    choices: Option<Choices>,
    #[serde(default)]
    error: Presence,
    #[serde(default)]
    object: Marker,
    #[serde(default)]
    usage: Option<RawUsage>,
}

/// The choices of an event, taken in one by one: none is kept.
struct Choices(Chunk);

impl<'de> Deserialize<'de> for Choices {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = Choices;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Choices, A::Error> {
                let mut chunk = Chunk { empty: true, ..Chunk::default() };
                while let Some(choice) = seq.next_element::<RawChoice>()? {
                    chunk.add(&choice);
                }
                Ok(Choices(chunk))
            }
        }

        deserializer.deserialize_seq(Each)
    }
}

#[derive(Deserialize, Default)]
struct RawChoice {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    delta: Option<RawDelta>,
    #[serde(default)]
    message: Option<RawDelta>,
    #[serde(default)]
    text: Presence,
    #[serde(default)]
    finish_reason: Marker,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawDelta {
    content: Presence,
    reasoning: Presence,
    reasoning_content: Presence,
    reasoning_details: Presence,
    thinking: Presence,
    tool_calls: Presence,
    function_call: Presence,
    refusal: Presence,
    audio: Presence,
}

impl RawDelta {
    fn parts(&self) -> [Presence; 9] {
        [
            self.content,
            self.reasoning,
            self.reasoning_content,
            self.reasoning_details,
            self.thinking,
            self.tool_calls,
            self.function_call,
            self.refusal,
            self.audio,
        ]
    }
}

#[derive(Deserialize, Default)]
struct RawUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default, rename = "input_tokens")]
    input: Option<u64>,
    #[serde(default, rename = "output_tokens")]
    output: Option<u64>,
}

impl RawUsage {
    fn read(&self) -> Option<Usage> {
        let input = self.prompt_tokens.or(self.input);
        let output = self.completion_tokens.or(self.output);
        (input.is_some() || output.is_some()).then(|| Usage {
            input: input.unwrap_or(0),
            output: output.unwrap_or(0),
            estimated: false,
        })
    }
}

/// The one text value that matters of a field which may hold anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Marker {
    #[default]
    None,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Marker {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Asked of every event twice, so that nothing is kept on the way.
        struct Look;

        impl<'de> Visitor<'de> for Look {
            type Value = Marker;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }

            fn visit_unit<E>(self) -> Result<Marker, E> {
                Ok(Marker::None)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Marker, E> {
                Ok(Marker::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Marker, E> {
                Ok(Marker::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Marker, E> {
                Ok(Marker::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Marker, E> {
                Ok(Marker::Other)
            }

            fn visit_str<E>(self, text: &str) -> Result<Marker, E> {
                Ok(match text {
                    "" => Marker::None,
                    "error" => Marker::Error,
                    _ => Marker::Other,
                })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Marker, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Marker::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Marker, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Marker::Other)
            }
        }

        deserializer.deserialize_any(Look)
    }
}

/// Reads the data of one event.
pub fn read_event(data: &[u8]) -> Meaning {
    let trimmed = data.trim_ascii();
    if trimmed == b"[DONE]" {
        return Meaning::Done;
    }
    if trimmed.is_empty() {
        return Meaning::Nothing;
    }
    // Values that nobody looks at are skipped unread: bytes that are no text would pass in them, and break the
    // decoders of clients. So would white space around the whole that JSON does not know.
    let Ok(text) = std::str::from_utf8(data) else { return Meaning::Malformed };
    usual::read(text).unwrap_or_else(|| read_any(text))
}

/// Reads an event of whatever shape.
fn read_any(text: &str) -> Meaning {
    let Ok(raw) = serde_json::from_str::<RawChunk>(text) else {
        // A well-formed error may sit in an object whose other members are of no known shape.
        return match ProviderError::find(text.as_bytes()) {
            Some(error) => Meaning::Error(Box::new(error)),
            None => Meaning::Malformed,
        };
    };
    if raw.error.says || raw.object == Marker::Error {
        let error = ProviderError::find(text.as_bytes()).unwrap_or_default();
        return Meaning::Error(Box::new(error));
    }
    match raw.choices {
        Some(Choices(chunk)) => {
            Meaning::Chunk(Chunk { usage: raw.usage.as_ref().and_then(RawUsage::read), ..chunk })
        }
        None => Meaning::Nothing,
    }
}

impl Chunk {
    /// Takes in one of its choices.
    fn add(&mut self, choice: &RawChoice) {
        let bit = 1u64 << choice.index.unwrap_or(0).min(63);
        self.empty = false;
        self.seen |= bit;
        if choice.finish_reason != Marker::None {
            self.finished |= bit;
            self.finished_by_error |= choice.finish_reason == Marker::Error;
        }
        for delta in [&choice.delta, &choice.message].into_iter().flatten() {
            for part in delta.parts() {
                self.say(part);
            }
        }
        self.say(choice.text);
    }

    const fn say(&mut self, part: Presence) {
        self.content |= part.says;
        self.text += part.text;
    }
}

/// What a whole 200 body is.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// A completion.
    Completion {
        /// Usage it carries.
        usage: Option<Usage>,
        /// Bytes of text in it.
        text: usize,
    },
    /// An error object under a 200.
    Error(Box<ProviderError>),
    /// Anything else: empty, HTML, prose, null, no choices.
    NotACompletion,
}

/// Reads a whole body.
pub fn read_answer(body: &[u8]) -> Answer {
    match read_event(body) {
        Meaning::Error(error) => Answer::Error(error),
        Meaning::Chunk(chunk) if chunk.finished_by_error => Answer::Error(Box::default()),
        Meaning::Chunk(chunk) if !chunk.empty && (chunk.commits() || has_message(body)) => {
            Answer::Completion { usage: chunk.usage, text: chunk.text }
        }
        Meaning::Chunk(_) | Meaning::Done | Meaning::Nothing | Meaning::Malformed => Answer::NotACompletion,
    }
}

/// An empty answer without a finish reason is still one when a message is there.
fn has_message(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Body {
        choices: Vec<Choice>,
    }
    #[derive(Deserialize)]
    struct Choice {
        #[serde(default)]
        message: Presence,
        #[serde(default)]
        text: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Body>(body)
        .is_ok_and(|body| body.choices.iter().all(|choice| choice.message.says || choice.text.is_some()))
}

#[cfg(test)]
mod tests;
