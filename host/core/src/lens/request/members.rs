//! The members of a request body that are looked at, as they stand in it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{BodyError, DEPTH_MAX, KEYS_MAX};
use crate::lens::estimate;
use crate::lens::quick::Quick;

/// The top-level members that are looked at, as they stand; all others are only checked for doubles.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Members<'a> {
    pub model: Option<&'a str>,
    pub stream: Option<&'a str>,
    pub stream_options: Option<&'a str>,
    pub n: Option<&'a str>,
    pub messages: Option<&'a str>,
    pub prompt: Option<&'a str>,
    pub input: Option<&'a str>,
    pub max_completion_tokens: Option<&'a str>,
    pub max_tokens: Option<&'a str>,
    pub tools: Option<&'a str>,
    pub functions: Option<&'a str>,
    pub response_format: Option<&'a str>,
    pub prompt_cache_key: Option<&'a str>,
    pub session_id: Option<&'a str>,
    pub user: Option<&'a str>,
    pub safety_identifier: Option<&'a str>,
    pub duplicate: Option<String>,
    pub too_many: bool,
}

impl<'a> Members<'a> {
    /// Those of a body.
    pub fn read(body: &'a [u8]) -> Result<Self, BodyError> {
        if let Some(members) = std::str::from_utf8(body).ok().and_then(Self::usual) {
            return Ok(members);
        }
        if deeper_than(body, DEPTH_MAX) {
            return Err(BodyError::Depth);
        }
        serde_json::from_slice(body).map_err(|e| BodyError::Json(position(&e)))
    }

    /// Those of a body that is as nearly all are, in one walk. None: the general reader has to say what it is.
    pub fn usual(body: &'a str) -> Option<Self> {
        let mut reader = Quick::new(body);
        let mut reading = Reading::default();
        reader.object(|reader, key| {
            reading.member(Cow::Borrowed(key), reader.any()?);
            Some(())
        })?;
        reader.ended()?;
        Some(reading.members)
    }

    fn slot(&mut self, key: &[u8]) -> Option<&mut Option<&'a str>> {
        Some(match key {
            b"model" => &mut self.model,
            b"stream" => &mut self.stream,
            b"stream_options" => &mut self.stream_options,
            b"n" => &mut self.n,
            b"messages" => &mut self.messages,
            b"prompt" => &mut self.prompt,
            b"input" => &mut self.input,
            b"max_completion_tokens" => &mut self.max_completion_tokens,
            b"max_tokens" => &mut self.max_tokens,
            b"tools" => &mut self.tools,
            b"functions" => &mut self.functions,
            b"response_format" => &mut self.response_format,
            b"prompt_cache_key" => &mut self.prompt_cache_key,
            b"session_id" => &mut self.session_id,
            b"user" => &mut self.user,
            b"safety_identifier" => &mut self.safety_identifier,
            _ => return None,
        })
    }
}

/// Members that are being gathered.
#[derive(Default)]
struct Reading<'a> {
    members: Members<'a>,
    keys: usize,
    others: Others<'a>,
}

impl<'a> Reading<'a> {
    fn member(&mut self, key: Cow<'a, [u8]>, value: &'a str) {
        self.keys += 1;
        let members = &mut self.members;
        members.too_many |= self.keys > KEYS_MAX;
        if members.too_many || members.duplicate.is_some() {
            return;
        }
        let twice = match members.slot(&key) {
            Some(slot) => slot.replace(value).is_some().then_some(key),
            None => self.others.add(key),
        };
        members.duplicate = twice.map(|key| String::from_utf8_lossy(&key).into_owned());
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut reading = Reading::default();
                while let Some(Key(key)) = map.next_key()? {
                    let value: &RawValue = map.next_value()?;
                    let key = match key {
                        Cow::Borrowed(key) => Cow::Borrowed(key.as_bytes()),
                        Cow::Owned(key) => Cow::Owned(key.into_bytes()),
                    };
                    reading.member(key, value.get());
                }
                Ok(reading.members)
            }
        }

        deserializer.deserialize_map(Read)
    }
}

/// Keys that have no slot. A request has a handful; a hash pays only beyond that.
#[derive(Default)]
struct Others<'a> {
    few: Vec<Cow<'a, [u8]>>,
    many: HashSet<Cow<'a, [u8]>>,
}

impl<'a> Others<'a> {
    const FEW: usize = 32;

    /// Gives the key back when it is there already.
    fn add(&mut self, key: Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
        if self.few.contains(&key) {
            return Some(key);
        }
        if self.few.len() < Self::FEW {
            self.few.push(key);
            return None;
        }
        if self.many.contains(&key) {
            return Some(key);
        }
        self.many.insert(key);
        None
    }
}

/// A key that is borrowed unless it has escapes, which are undone: `"mod\u0065l"` is `model` to every reader.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Where and what, without a piece of the body.
fn position(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Data => "it is of another type",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "syntax error",
    };
    format!("{what} at line {} column {}", error.line(), error.column())
}

/// Looks at brackets outside strings only; whether the rest is JSON is for the parser to say.
fn deeper_than(body: &[u8], limit: usize) -> bool {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(&byte) = body.get(at) {
        at += 1;
        match byte {
            b'"' => at = estimate::string_end(body, at) + 1,
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
