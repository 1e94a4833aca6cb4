//! The few places where a request body may change, by their place in the bytes: all other bytes reach the
//! upstream as the client sent them.

use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// One piece of a body, and what stands there instead. An empty range puts something in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Where, as offsets into the body.
    pub at: Range<usize>,
    /// What.
    pub with: Bytes,
}

/// The body with these edits made, which must not overlap. Of two at one place, the first given comes first.
pub fn splice(body: &[u8], edits: &[Edit]) -> Bytes {
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
    let added: usize = edits.iter().map(|edit| edit.with.len()).sum();
    let taken: usize = edits.iter().map(|edit| edit.at.len()).sum();
    // Exactly as much room as is used: a buffer with some to spare is copied or kept with its size when it is shared.
    let mut out = Vec::with_capacity((body.len() + added).saturating_sub(taken));
    let mut done = 0;
    for edit in edits {
        out.extend_from_slice(body.get(done..edit.at.start).unwrap_or_default());
        out.extend_from_slice(&edit.with);
        done = edit.at.end.max(done);
    }
    out.extend_from_slice(body.get(done..).unwrap_or_default());
    out.into()
}

/// The body with these texts in the place of one piece: what nearly every request needs.
pub(super) fn replaced(body: &[u8], at: &Range<usize>, with: &[&str; 3]) -> Bytes {
    let (before, after) = (body.get(..at.start).unwrap_or_default(), body.get(at.end..).unwrap_or_default());
    let [first, second, third] = with.map(str::as_bytes);
    [before, first, second, third, after].concat().into()
}

/// Where a piece of a body lies in it.
pub(super) fn place(body: &[u8], piece: &str) -> Range<usize> {
    let start = piece.as_ptr() as usize - body.as_ptr() as usize;
    start..start + piece.len()
}

/// What a client says about usage in a stream, and how a body is made to ask for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageWish {
    /// The client asked for it.
    pub asked: bool,
    /// What makes the body ask; none where it does, or where `stream_options` is no object.
    pub ask: Option<Edit>,
}

#[derive(Deserialize)]
struct Options<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    include_usage: Option<&'a RawValue>,
}

/// A null is a value that is there, and has to be replaced where it stands.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl UsageWish {
    /// Reads `stream_options`. A body without them is given them right behind `after`, the end of a member.
    pub(super) fn read(body: &[u8], options: Option<&str>, after: usize) -> Self {
        const ASK: &str = r#""include_usage":true"#;
        let edit = |at, with: String| Self { asked: false, ask: Some(Edit { at, with: with.into() }) };
        let Some(raw) = options else {
            return edit(after..after, format!(r#","stream_options":{{{ASK}}}"#));
        };
        if raw == "null" {
            return edit(place(body, raw), format!("{{{ASK}}}"));
        }
        // A list would be read as the members in their order.
        let object = Some(raw).filter(|text| text.starts_with('{'));
        let Some(read) = object.and_then(|text| serde_json::from_str::<Options<'_>>(text).ok()) else {
            return Self::default();
        };
        match read.include_usage {
            Some(value) if value.get() == "true" => Self { asked: true, ask: None },
            Some(value) => edit(place(body, value.get()), "true".to_owned()),
            None => {
                let inside = place(body, raw).start + 1;
                let empty = raw[1..].trim_start().starts_with('}');
                edit(inside..inside, format!("{ASK}{}", if empty { "" } else { "," }))
            }
        }
    }
}

#[cfg(test)]
mod tests;
