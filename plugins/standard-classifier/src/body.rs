//! Reads an error body for names, codes and the message, whatever provider wrote it.
//!
//! Only members at the places where providers put them are read, so that a request echoed in an answer
//! cannot speak for the provider. A body that is cut in the middle gives what came before the cut; one that
//! is no JSON is a message as a whole.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Most names, and most numbers, taken from one body.
const MAX_FOUND: usize = 8;

/// Most bytes of a message that are looked at.
const MAX_MESSAGE: usize = 1024;

/// Deepest place at which an error object is looked for.
const MAX_DEPTH: u8 = 5;

/// Members that name an error.
const NAMES: [&str; 8] = ["code", "type", "status", "reason", "error_type", "errorType", "__type", "quotaId"];

/// Members that hold the message.
const MESSAGES: [&str; 4] = ["message", "error", "detail", "error_message"];

/// Members that hold a further part of the error.
const PARTS: [&str; 9] =
    ["error", "errors", "innererror", "inner_error", "details", "metadata", "fault", "violations", "detail"];

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Names of the error.
    pub names: Vec<String>,
    /// Codes that are numbers, or are written as one.
    pub numbers: Vec<u16>,
    /// The message, in lower case; cut.
    pub message: String,
}

/// Reads a body.
pub fn read(text: &str) -> Body {
    let mut found = Body::default();
    // Where the reading fails, what was found before stays.
    let whole = Value { found: &mut found, depth: 0, wanted: Wanted { part: true, ..Wanted::default() } };
    let _cut = whole.deserialize(&mut serde_json::Deserializer::from_str(text));
    if found.message.is_empty() {
        found.message = shortened(text);
    }
    found
}

/// What a value is read for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Wanted {
    /// Text or number: a name or a code.
    name: bool,
    /// Text: the message.
    message: bool,
    /// Object or list: more of the error.
    part: bool,
}

impl Wanted {
    fn of(key: &str) -> Self {
        Self { name: NAMES.contains(&key), message: MESSAGES.contains(&key), part: PARTS.contains(&key) }
    }
}

/// One value of the body, at its place.
struct Value<'b> {
    found: &'b mut Body,
    depth: u8,
    wanted: Wanted,
}

impl Value<'_> {
    fn number(self, number: Option<u16>) {
        let numbers = &mut self.found.numbers;
        if self.wanted.name && numbers.len() < MAX_FOUND {
            numbers.extend(number);
        }
    }

    fn text(self, text: &str) {
        if self.wanted.name {
            match text.trim().parse() {
                Ok(number) => self.number(Some(number)),
                Err(_) if self.found.names.len() < MAX_FOUND => self.found.names.push(shortened(text)),
                Err(_) => {}
            }
        } else if self.wanted.message && self.found.message.is_empty() {
            self.found.message = shortened(text);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.number(number.try_into().ok());
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        // Some providers wrap the error in a list: what is in it is wanted as the list is.
        let Self { found, depth, wanted } = self;
        while let Some(()) = list.next_element_seed(Value { found: &mut *found, depth, wanted })? {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { found, depth, wanted } = self;
        let depth = depth + 1;
        let readable = wanted.part && depth <= MAX_DEPTH;
        while let Some(key) = members.next_key::<String>()? {
            let wanted = if readable { Wanted::of(&key) } else { Wanted::default() };
            if wanted == Wanted::default() {
                members.next_value::<IgnoredAny>()?;
            } else {
                members.next_value_seed(Value { found: &mut *found, depth, wanted })?;
            }
        }
        Ok(())
    }
}

/// The beginning of a text, its ASCII in lower case: no words that are looked for have other letters.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(MAX_MESSAGE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_ascii_lowercase()
}
