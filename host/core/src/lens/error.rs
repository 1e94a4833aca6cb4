//! The error object of an upstream, in the forms providers use: `{"error": {…}}`, `{"error": "text"}`,
//! `{"object": "error", "message": …}`, `{"type": "error", "error": {…}}`, `[{"error": {…}}]`.

use serde_json::{Map, Value};

/// What an upstream said went wrong. Text is the upstream's and not yet cleaned for callers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProviderError {
    /// `message`.
    pub message: Option<String>,
    /// `type`.
    pub kind: Option<String>,
    /// `code`; a number as text.
    pub code: Option<String>,
    /// The code was a number.
    pub code_is_number: bool,
    /// `param`.
    pub param: Option<String>,
    /// A numeric `code` or `status`, also as a string, that reads as an HTTP status.
    pub status: Option<u16>,
    /// Members beside the four above, in the upstream's order.
    pub more: Map<String, Value>,
}

impl ProviderError {
    /// The error object in a JSON text, if there is one. `"error": null` is none.
    pub fn find(json: &[u8]) -> Option<Self> {
        Self::of(serde_json::from_slice(json).ok()?)
    }

    /// The error object in a JSON value, if there is one.
    pub fn of(value: Value) -> Option<Self> {
        let mut object = match value {
            Value::Object(object) => object,
            Value::Array(items) => return items.into_iter().next().and_then(Self::of),
            _ => return None,
        };
        match object.remove("error") {
            Some(Value::Object(inner)) => Some(Self::from_members(inner)),
            Some(Value::String(text)) => {
                object.insert("message".to_owned(), Value::String(text));
                object.remove("choices");
                Some(Self::from_members(object))
            }
            Some(Value::Null) | None if object.get("object").is_some_and(|o| o == "error") => {
                object.remove("object");
                Some(Self::from_members(object))
            }
            Some(Value::Null) | None => None,
            Some(other) => Some(Self { message: Some(other.to_string()), ..Self::default() }),
        }
    }

    fn from_members(mut members: Map<String, Value>) -> Self {
        let code = members.remove("code");
        let status =
            code.as_ref().and_then(http_status).or_else(|| members.get("status").and_then(http_status));
        Self {
            message: members.remove("message").and_then(text),
            kind: members.remove("type").and_then(text),
            code_is_number: code.as_ref().is_some_and(Value::is_number),
            code: code.and_then(text),
            param: members.remove("param").and_then(text),
            status,
            more: members,
        }
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

fn http_status(value: &Value) -> Option<u16> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }?;
    u16::try_from(number).ok().filter(|status| (300..600).contains(status))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_forms_of_an_error() {
        type Found<'a> = (&'a str, Option<&'a str>, Option<u16>);
        let cases: &[(&str, Option<Found<'_>>)] = &[
            (r#"{"error":{"message":"m","type":"t","code":"c"}}"#, Some(("m", Some("c"), None))),
            (r#"{"error":{"message":"m","code":503}}"#, Some(("m", Some("503"), Some(503)))),
            (r#"{"error":{"message":"m","code":"429"}}"#, Some(("m", Some("429"), Some(429)))),
            (r#"{"error":{"message":"m","status":"400"}}"#, Some(("m", None, Some(400)))),
            (r#"{"error":{"message":"m","status":"UNAVAILABLE","code":7}}"#, Some(("m", Some("7"), None))),
            (r#"{"error":"m"}"#, Some(("m", None, None))),
            (
                r#"{"object":"error","message":"m","type":"t","code":400}"#,
                Some(("m", Some("400"), Some(400))),
            ),
            (r#"{"type":"error","error":{"type":"t","message":"m"}}"#, Some(("m", None, None))),
            (r#"[{"error":{"message":"m"}}]"#, Some(("m", None, None))),
            (r#"{"error":null,"choices":[]}"#, None),
            (r#"{"choices":[]}"#, None),
            ("[]", None),
            ("7", None),
            ("", None),
        ];
        for (json, expected) in cases {
            let got = ProviderError::find(json.as_bytes());
            let got = got.as_ref().map(|e| (e.message.as_deref().unwrap_or(""), e.code.as_deref(), e.status));
            assert_eq!(&got, expected, "{json}");
        }
    }

    #[test]
    fn further_members_are_kept() {
        let json = br#"{"error":{"message":"m","code":"content_filter","innererror":{"a":1}}}"#;
        assert_eq!(ProviderError::find(json).unwrap().more["innererror"]["a"], 1);
    }
}
