//! What a response says: its events, its text, its error, its times.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::response::Response;

/// One block of an event stream.
#[derive(Debug, Clone)]
pub struct Event {
    /// When its last byte came.
    pub at: Instant,
    /// The block with its blank line.
    pub raw: Vec<u8>,
}

impl Event {
    /// The `data:` lines, joined; none for a comment.
    #[must_use]
    pub fn data(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.raw);
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        let lines = lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line));
        let data = lines.collect::<Vec<_>>().join("\n");
        (text.lines().any(|line| line.starts_with("data:"))).then_some(data)
    }

    /// The data as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        self.data().and_then(|data| serde_json::from_str(&data).ok()).unwrap_or_default()
    }
}

impl Response {
    /// How often this header came.
    #[must_use]
    pub fn header_count(&self, name: &str) -> usize {
        self.headers.iter().filter(|(known, _)| known == name).count()
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The text of the answer, in either form.
    #[must_use]
    pub fn text(&self) -> String {
        if !self.is_stream() {
            return self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
        }
        let deltas = self.events.iter().map(|event| event.json()["choices"][0]["delta"]["content"].clone());
        deltas.filter_map(|content| content.as_str().map(str::to_owned)).collect()
    }

    /// Events with content.
    #[must_use]
    pub fn contents(&self) -> Vec<&Event> {
        let has_text = |event: &&Event| {
            let text = event.json()["choices"][0]["delta"]["content"].clone();
            text.as_str().is_some_and(|text| !text.is_empty())
        };
        self.events.iter().filter(has_text).collect()
    }

    /// Error events of a stream.
    #[must_use]
    pub fn errors(&self) -> Vec<&Event> {
        self.events
            .iter()
            .filter(|event| event.json().get("error").is_some_and(|error| !error.is_null()))
            .collect()
    }

    /// `[DONE]` events.
    #[must_use]
    pub fn dones(&self) -> usize {
        self.events.iter().filter(|event| event.data().as_deref() == Some("[DONE]")).count()
    }

    /// The finish reason, if one came.
    #[must_use]
    pub fn finish(&self) -> Option<String> {
        let reasons = self.events.iter().map(|event| event.json()).chain([self.json()]);
        reasons.filter_map(|json| json["choices"][0]["finish_reason"].as_str().map(str::to_owned)).next()
    }

    /// The error object: of the body, or of the last error event.
    #[must_use]
    pub fn error(&self) -> Value {
        match self.errors().last() {
            Some(event) => event.json()["error"].clone(),
            None => self.json()["error"].clone(),
        }
    }

    /// The `code` of the error.
    #[must_use]
    pub fn code(&self) -> String {
        match &self.error()["code"] {
            Value::String(code) => code.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }

    /// `x-request-id`.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.header("x-request-id")
    }

    /// From the request to the end, or to now while it runs.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.ended.unwrap_or_else(crate::now).saturating_duration_since(self.sent)
    }

    /// From the request to the head.
    #[must_use]
    pub fn head_took(&self) -> Option<Duration> {
        self.head_at.map(|at| at.saturating_duration_since(self.sent))
    }
}
