//! A whole completion as the stream the client asked for: for each answer its role, its content in one
//! piece, its finish reason; then the usage; then the end marker.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::wire::Wire;
use crate::sse::write_event;

/// Writes a completion as events. The usage event is always among them where the completion has usage:
/// whether it is shown is the stream's to decide. None: the body is no object with answers.
pub fn unfold(body: &[u8], wire: Wire) -> Option<Bytes> {
    let Value::Object(mut head) = serde_json::from_slice(body).ok()? else { return None };
    let Some(Value::Array(choices)) = head.remove("choices") else { return None };
    let usage = head.remove("usage").filter(|usage| !usage.is_null());
    if wire == Wire::Chat {
        head.insert("object".to_owned(), "chat.completion.chunk".into());
    }
    let mut out = BytesMut::with_capacity(body.len() + 1024);
    let mut write = |choices: Value, usage: Option<Value>| {
        let mut chunk = head.clone();
        chunk.insert("choices".to_owned(), choices);
        if let Some(usage) = usage {
            chunk.insert("usage".to_owned(), usage);
        }
        write_event(Value::Object(chunk).to_string().as_bytes(), &mut out);
    };
    for (position, choice) in choices.into_iter().enumerate() {
        let Value::Object(choice) = choice else { continue };
        let events = if wire == Wire::Chat { chat(choice, position) } else { completion(choice, position) };
        for event in events {
            write(json!([event]), None);
        }
    }
    if usage.is_some() {
        write(json!([]), usage);
    }
    write_event(b"[DONE]", &mut out);
    Some(out.freeze())
}

/// The events of one chat answer.
fn chat(mut choice: Map<String, Value>, position: usize) -> Vec<Value> {
    let index = take_index(&mut choice, position);
    let finish = choice.remove("finish_reason");
    let mut delta = match choice.remove("message") {
        Some(Value::Object(message)) => message,
        _ => Map::new(),
    };
    let role = delta.remove("role").filter(Value::is_string).unwrap_or_else(|| "assistant".into());
    delta.retain(|_, value| !value.is_null());
    if let Some(Value::Array(calls)) = delta.get_mut("tool_calls") {
        for (at, call) in calls.iter_mut().enumerate() {
            if let Value::Object(call) = call {
                call.entry("index").or_insert_with(|| at.into());
            }
        }
    }
    let mut events =
        vec![json!({"index": index, "delta": {"role": role, "content": ""}, "finish_reason": null})];
    // What else an answer carries, log probabilities say, goes with its content.
    choice.retain(|_, value| !value.is_null());
    if !delta.is_empty() || !choice.is_empty() {
        choice.insert("index".to_owned(), index.clone());
        choice.insert("delta".to_owned(), Value::Object(delta));
        choice.insert("finish_reason".to_owned(), Value::Null);
        events.push(Value::Object(choice));
    }
    if let Some(finish) = finish.filter(|finish| !finish.is_null()) {
        events.push(json!({"index": index, "delta": {}, "finish_reason": finish}));
    }
    events
}

/// The events of one text completion.
fn completion(mut choice: Map<String, Value>, position: usize) -> Vec<Value> {
    let index = take_index(&mut choice, position);
    let finish = choice.remove("finish_reason").filter(|finish| !finish.is_null());
    choice.insert("index".to_owned(), index.clone());
    choice.insert("finish_reason".to_owned(), Value::Null);
    let mut events = vec![Value::Object(choice)];
    if let Some(finish) = finish {
        events.push(json!({"index": index, "text": "", "finish_reason": finish}));
    }
    events
}

fn take_index(choice: &mut Map<String, Value>, position: usize) -> Value {
    choice.remove("index").filter(Value::is_u64).unwrap_or_else(|| position.into())
}

#[cfg(test)]
mod tests;
