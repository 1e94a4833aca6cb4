//! A raw event stream as the strictest of readers takes it: single lines that begin with `data: `, each with a
//! blank line behind it. Whatever has another form is kept as odd, for the scenario to object to.

use std::collections::BTreeSet;

use serde_json::Value;

/// What a stream said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sse {
    /// All content.
    pub text: String,
    /// What the chunks say about their model.
    pub models: BTreeSet<String>,
    /// Finish reasons.
    pub finishes: usize,
    /// `[DONE]` events.
    pub dones: usize,
    /// Codes of error events.
    pub errors: Vec<String>,
    /// Pieces in no form a strict reader takes, and what comes after `[DONE]`.
    pub odd: usize,
}

impl Sse {
    /// Reads a body.
    pub fn read(body: &[u8]) -> Self {
        let mut sse = Self::default();
        let Ok(text) = std::str::from_utf8(body) else {
            return Self { odd: 1, ..sse };
        };
        let pieces = text.split_inclusive("\n\n");
        for piece in pieces {
            match piece.strip_prefix("data: ").and_then(|rest| rest.strip_suffix("\n\n")) {
                Some(data) if sse.dones == 0 && !data.contains('\n') => sse.event(data),
                _ => sse.odd += 1,
            }
        }
        sse
    }

    fn event(&mut self, data: &str) {
        if data == "[DONE]" {
            self.dones += 1;
            return;
        }
        let value: Value = match serde_json::from_str(data) {
            Ok(value) => value,
            Err(_) => {
                self.odd += 1;
                return;
            }
        };
        if let Some(error) = value.get("error") {
            self.errors.push(error["code"].as_str().unwrap_or_default().to_owned());
            return;
        }
        self.models.extend(value["model"].as_str().map(str::to_owned));
        let choice = &value["choices"][0];
        self.text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        self.finishes += usize::from(!choice["finish_reason"].is_null());
    }

    /// A complete answer of this model with this text, and nothing else.
    pub fn is_whole(&self, model: &str, text: &str) -> bool {
        self.text == text
            && self.models.iter().eq([model])
            && (self.finishes, self.dones, self.odd) == (1, 1, 0)
            && self.errors.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: &str =
        r#"data: {"model":"m","choices":[{"delta":{"content":"one "},"finish_reason":null}]}"#;
    const END: &str = r#"data: {"model":"m","choices":[{"delta":{},"finish_reason":"stop"}]}"#;

    #[test]
    fn only_a_whole_answer_is_whole() {
        let table = [
            (format!("{CHUNK}\n\n{END}\n\ndata: [DONE]\n\n"), true),
            (format!("{CHUNK}\n\n{END}\n\n"), false),
            (format!("{CHUNK}\n\ndata: [DONE]\n\n"), false),
            (format!("{CHUNK}\n\n{CHUNK}\n\n{END}\n\ndata: [DONE]\n\n"), false),
            (format!("{CHUNK}\n\n{END}\n\ndata: [DONE]\n\ndata: [DONE]\n\n"), false),
            (format!("{CHUNK}\n{END}\n\ndata: [DONE]\n\n"), false),
            (format!(": hello\n\n{CHUNK}\n\n{END}\n\ndata: [DONE]\n\n"), false),
            (
                format!("{CHUNK}\n\ndata: {{\"error\":{{\"code\":\"c\"}}}}\n\n{END}\n\ndata: [DONE]\n\n"),
                false,
            ),
            (format!("{CHUNK}\n\n{END}\n\ndata: [DONE]"), false),
            (String::new(), false),
        ];
        for (body, whole) in table {
            assert_eq!(Sse::read(body.as_bytes()).is_whole("m", "one "), whole, "{body}");
        }
    }
}
