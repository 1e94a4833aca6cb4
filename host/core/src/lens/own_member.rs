//! What the gateway may add to a whole answer: one member of its own, `sluice`, at the end. All other bytes stay as they are.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::splice::{Edit, place, splice};

#[derive(Deserialize)]
struct Known<'a> {
    #[serde(borrow)]
    sluice: Option<&'a RawValue>,
}

/// The answer with our member, whose value is JSON. One that is there already, of a gateway behind this one, gives way,
/// since no reader could tell which of two counts. None: the answer is no JSON object.
#[must_use]
pub fn with_own_member(body: &Bytes, value: &[u8]) -> Option<Bytes> {
    let inside = body.trim_ascii().strip_prefix(b"{")?.strip_suffix(b"}")?;
    let known: Known<'_> = serde_json::from_slice(body).ok()?;
    let edit = match known.sluice {
        Some(there) => Edit { at: place(body, there.get()), with: Bytes::copy_from_slice(value) },
        None => {
            let end = body.trim_ascii_end().len() - 1;
            let comma = if inside.trim_ascii().is_empty() { "" } else { "," };
            Edit { at: end..end, with: [comma.as_bytes(), b"\"sluice\":", value].concat().into() }
        }
    };
    Some(splice(body, &[edit]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn nothing_but_our_member_changes() {
        for (body, with) in [
            (r#"{"a":1}"#, r#"{"a":1,"sluice":{"x":1}}"#),
            ("{}", r#"{"sluice":{"x":1}}"#),
            (" {\n} \n", " {\n\"sluice\":{\"x\":1}} \n"),
            ("\r\n{\"a\": \"}\"\n}\n", "\r\n{\"a\": \"}\"\n,\"sluice\":{\"x\":1}}\n"),
            (
                r#"{"a":1e400,"ä":"\ud83d\ude00","b":[{}]}"#,
                r#"{"a":1e400,"ä":"\ud83d\ude00","b":[{}],"sluice":{"x":1}}"#,
            ),
            (r#"{"sluice" : {"of":"another"} ,"a":1}"#, r#"{"sluice" : {"x":1} ,"a":1}"#),
            (r#"{"a":{"sluice":1}}"#, r#"{"a":{"sluice":1},"sluice":{"x":1}}"#),
            (r#"{"slu\u0069ce":0}"#, r#"{"slu\u0069ce":{"x":1}}"#),
        ] {
            let got = with_own_member(&Bytes::from_static(body.as_bytes()), br#"{"x":1}"#).unwrap();
            assert_eq!(std::str::from_utf8(&got).unwrap(), with);
            assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&got).is_ok());
        }
    }

    #[test]
    fn what_is_no_object_stays_as_it_is() {
        for body in
            ["", "[]", "1", "null", "\"{}\"", "{", "}", "{}{}", "{\"a\":}", "{\"sluice\":1,\"sluice\":2}"]
        {
            assert_eq!(with_own_member(&Bytes::from_static(body.as_bytes()), b"{}"), None, "{body}");
        }
    }
}
