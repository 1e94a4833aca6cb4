//! A stream as the whole completion the client asked for: texts put together, fragments of tool calls
//! joined by their index, the last finish reason and the last usage kept.

use serde_json::{Map, Value, json};

use bytes::Bytes;

use super::wire::Wire;
use crate::sse::Scanner;

/// Makes one completion of events that are known to have ended well. None: there is no answer in them.
pub fn fold(events: Bytes, wire: Wire) -> Option<Bytes> {
    let mut whole = Whole::default();
    let mut scanner = Scanner::new(events.len().max(1));
    scanner.push(events);
    while let Ok(Some(event)) = scanner.next_event() {
        if let Ok(Value::Object(chunk)) = serde_json::from_slice(&event.data) {
            whole.chunk(chunk);
        }
    }
    whole.finish(wire)
}

/// The completion so far.
#[derive(Default)]
struct Whole {
    head: Map<String, Value>,
    usage: Option<Value>,
    choices: Vec<(u64, Choice)>,
}

/// One answer so far.
#[derive(Default)]
struct Choice {
    message: Map<String, Value>,
    text: Option<String>,
    logprobs: Option<Value>,
    finish: Option<Value>,
    more: Map<String, Value>,
}

impl Whole {
    fn chunk(&mut self, mut chunk: Map<String, Value>) {
        if let Some(usage) = chunk.remove("usage").filter(|usage| !usage.is_null()) {
            self.usage = Some(usage);
        }
        let choices = chunk.remove("choices");
        for (key, value) in chunk {
            let known = self.head.entry(key).or_insert(Value::Null);
            if is_blank(known) {
                *known = value;
            }
        }
        let Some(Value::Array(choices)) = choices else { return };
        for choice in choices {
            let Value::Object(mut choice) = choice else { continue };
            let index = choice.remove("index").and_then(|index| index.as_u64()).unwrap_or(0);
            self.choice(index).add(choice);
        }
    }

    fn choice(&mut self, index: u64) -> &mut Choice {
        let at = match self.choices.binary_search_by_key(&index, |(known, _)| *known) {
            Ok(at) => at,
            Err(at) => {
                self.choices.insert(at, (index, Choice::default()));
                at
            }
        };
        &mut self.choices[at].1
    }

    fn finish(mut self, wire: Wire) -> Option<Bytes> {
        if self.choices.is_empty() {
            return None;
        }
        let object = if wire == Wire::Chat { "chat.completion" } else { "text_completion" };
        self.head.insert("object".to_owned(), object.into());
        let choices = self.choices.into_iter().map(|(index, choice)| choice.finish(index, wire));
        self.head.insert("choices".to_owned(), choices.collect());
        if let Some(usage) = self.usage {
            self.head.insert("usage".to_owned(), usage);
        }
        Some(Value::Object(self.head).to_string().into())
    }
}

impl Choice {
    fn add(&mut self, choice: Map<String, Value>) {
        for (key, value) in choice {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("delta" | "message", Value::Object(delta)) => merge(&mut self.message, delta),
                ("text", Value::String(text)) => self.text.get_or_insert_default().push_str(&text),
                ("logprobs", logprobs) => extend_lists(self.logprobs.get_or_insert(Value::Null), logprobs),
                ("finish_reason", finish) => self.finish = Some(finish),
                (_, value) => drop(self.more.insert(key, value)),
            }
        }
    }

    fn finish(mut self, index: u64, wire: Wire) -> Value {
        let mut choice = self.more;
        choice.insert("index".to_owned(), index.into());
        choice.insert("logprobs".to_owned(), self.logprobs.unwrap_or_default());
        choice.insert("finish_reason".to_owned(), self.finish.unwrap_or_default());
        if wire == Wire::Chat {
            if let Some(text) = self.text {
                self.message.entry("content").or_insert_with(|| text.into());
            }
            self.message.entry("role").or_insert_with(|| "assistant".into());
            finish_message(&mut self.message);
            choice.insert("message".to_owned(), Value::Object(self.message));
        } else {
            let content = self.message.remove("content").filter(Value::is_string);
            choice.insert(
                "text".to_owned(),
                self.text.map_or_else(|| content.unwrap_or_else(|| "".into()), Value::from),
            );
        }
        Value::Object(choice)
    }
}

/// A whole message says `null` where it has tool calls and no text, and its calls carry no index.
fn finish_message(message: &mut Map<String, Value>) {
    let calls = ["tool_calls", "function_call", "audio"].iter().any(|key| message.contains_key(*key));
    let content = message.entry("content").or_insert(Value::Null);
    if calls && content == "" {
        *content = Value::Null;
    }
    if let Some(Value::Array(calls)) = message.get_mut("tool_calls") {
        for call in calls.iter_mut().filter_map(Value::as_object_mut) {
            call.remove("index");
            call.entry("type").or_insert_with(|| "function".into());
        }
    }
}

/// Adds a delta to a message: texts are joined, tool calls by their index, lists one after the other.
fn merge(message: &mut Map<String, Value>, delta: Map<String, Value>) {
    for (key, value) in delta {
        match (key.as_str(), value) {
            (_, Value::Null) => {}
            ("role", role) => {
                if message.get("role").is_none_or(is_blank) {
                    message.insert(key, role);
                }
            }
            ("tool_calls", Value::Array(calls)) => {
                if let Value::Array(known) = message.entry(key).or_insert_with(|| json!([])) {
                    calls.into_iter().for_each(|call| tool_call(known, call));
                }
            }
            ("function_call" | "audio", Value::Object(part)) => {
                if let Value::Object(known) = message.entry(key).or_insert_with(|| json!({})) {
                    join_members(known, part);
                }
            }
            (_, Value::String(text)) => join(message.entry(key).or_insert(Value::Null), text),
            (_, value) => extend_lists(message.entry(key).or_insert(Value::Null), value),
        }
    }
}

/// Adds one fragment to the call it belongs to: by index, else by id, else the last one.
fn tool_call(known: &mut Vec<Value>, fragment: Value) {
    let Value::Object(mut fragment) = fragment else { return };
    let same = |key: &str| {
        let wanted = fragment.get(key).filter(|value| !is_blank(value))?;
        Some(known.iter().position(|call| call.get(key) == Some(wanted)))
    };
    let at = match (same("index"), same("id")) {
        (Some(at), _) | (None, Some(at)) => at,
        (None, None) => known.len().checked_sub(1),
    };
    let Some(Value::Object(call)) = at.and_then(|at| known.get_mut(at)) else {
        known.push(Value::Object(fragment));
        return;
    };
    for key in ["function", "custom"] {
        if let Some(Value::Object(part)) = fragment.remove(key) {
            match call.entry(key).or_insert_with(|| json!({})) {
                Value::Object(known) => join_members(known, part),
                other => *other = Value::Object(part),
            }
        }
    }
    for (key, value) in fragment {
        let known = call.entry(key).or_insert(Value::Null);
        if is_blank(known) {
            *known = value;
        }
    }
}

/// Arguments, data and transcripts come in pieces; names and ids come whole, sometimes more than once.
fn join_members(known: &mut Map<String, Value>, part: Map<String, Value>) {
    for (key, value) in part {
        let pieces = matches!(key.as_str(), "arguments" | "input" | "data" | "transcript");
        let known = known.entry(key).or_insert(Value::Null);
        match value {
            Value::String(text) if pieces => join(known, text),
            value if is_blank(known) => *known = value,
            _ => {}
        }
    }
}

fn join(known: &mut Value, text: String) {
    match known {
        Value::String(known) => known.push_str(&text),
        known => *known = Value::String(text),
    }
}

/// Lists grow, objects member by member; anything else is replaced by what came last.
fn extend_lists(known: &mut Value, value: Value) {
    match (known, value) {
        (_, Value::Null) => {}
        (Value::Array(known), Value::Array(more)) => known.extend(more),
        (Value::Object(known), Value::Object(more)) => {
            for (key, value) in more {
                extend_lists(known.entry(key).or_insert(Value::Null), value);
            }
        }
        (known, value) => *known = value,
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value == ""
}

#[cfg(test)]
mod tests;
