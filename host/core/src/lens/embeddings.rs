//! The embeddings wire: an answer is a list of vectors, in one piece.

use serde::Deserialize;

use super::chat::Answer;
use super::error::ProviderError;
use super::presence::Presence;
use crate::facts::Usage;

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    data: Option<List>,
    #[serde(default)]
    error: Presence,
    #[serde(default)]
    usage: Option<RawUsage>,
}

/// A list with something in it. Anything else than a list is no answer.
struct List;

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::<serde::de::IgnoredAny>::deserialize(deserializer)?;
        if items.is_empty() { Err(serde::de::Error::custom("an empty list")) } else { Ok(Self) }
    }
}

#[derive(Deserialize)]
struct RawUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    total_tokens: Option<u64>,
}

/// Reads a whole body.
pub fn read_answer(body: &[u8]) -> Answer {
    let object = Some(body).filter(|body| body.trim_ascii_start().starts_with(b"{"));
    // Members that nobody looks at are skipped unread, and must be text all the same.
    let read = object.and_then(|body| serde_json::from_str::<Body>(std::str::from_utf8(body).ok()?).ok());
    if let Some(Body { data: Some(List), error: Presence { says: false, .. }, usage }) = &read {
        let input = usage.as_ref().and_then(|u| u.prompt_tokens.or(u.total_tokens));
        let usage = input.map(|input| Usage { input, output: 0, estimated: false });
        return Answer::Completion { usage, text: 0 };
    }
    match ProviderError::find(body) {
        Some(error) => Answer::Error(Box::new(error)),
        None => Answer::NotACompletion,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_make_no_answer() {
        assert_eq!(read_answer(b"{\"data\":[{\"x\":\"\xff\"}]}"), Answer::NotACompletion);
    }

    #[test]
    fn which_bodies_are_lists_of_vectors() {
        let usage = |input| Some(Usage { input, output: 0, estimated: false });
        let answer = |usage| Answer::Completion { usage, text: 0 };
        let cases = [
            (
                r#"{"object":"list","data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}"#,
                answer(usage(3)),
            ),
            (r#"{"data":[{"embedding":"AAAA"}],"usage":{"total_tokens":4}}"#, answer(usage(4))),
            (r#"{"data":[{}],"usage":null,"error":null}"#, answer(None)),
            (r#"{"data":[]}"#, Answer::NotACompletion),
            (r#"{"data":{}}"#, Answer::NotACompletion),
            (r#"{"data":null}"#, Answer::NotACompletion),
            (r#"{"choices":[{"message":{"content":"x"}}]}"#, Answer::NotACompletion),
            ("[[{}]]", Answer::NotACompletion),
            ("data: {}", Answer::NotACompletion),
            ("", Answer::NotACompletion),
        ];
        for (body, expected) in cases {
            assert_eq!(read_answer(body.as_bytes()), expected, "{body}");
        }
        for error in [r#"{"error":{"message":"m"}}"#, r#"{"data":[{}],"error":{"message":"m"}}"#] {
            assert!(matches!(read_answer(error.as_bytes()), Answer::Error(_)), "{error}");
        }
    }
}
