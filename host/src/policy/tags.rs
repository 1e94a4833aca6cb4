//! Whether a tag may be written, and the bytes that are.

use std::fmt::Write as _;

use sluice_core::facts::{Sink, Tag};
use sluice_core::tag_name::{self, NAME_MAX};

/// Longest value as the plugin gave it, bytes.
const VALUE_MAX: usize = 1024;

/// Why a tag is not written.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum Refused {
    /// Not a name.
    #[error("tag refused: expected a name of 1 to 64 of a-z 0-9 - _, it is {0:?}")]
    Name(String),
    /// A name of the host.
    #[error("tag refused: the header `{0}` belongs to the host")]
    Reserved(String),
    /// Too long.
    #[error("tag `{name}` refused: expected a value of at most {VALUE_MAX} bytes, it has {bytes}")]
    Value {
        /// Its name.
        name: String,
        /// Its length.
        bytes: usize,
    },
}

/// Adds the tags that a tag becomes: one for the header, encoded, and one for the record, as it is. In the record
/// phase there is no header any more.
///
/// # Errors
/// The tag may not be written.
pub fn accept(mut tag: Tag, head: bool, all: &mut Vec<Tag>) -> Result<(), Refused> {
    let to_header = matches!(tag.sink, Sink::Header | Sink::Both);
    let to_record = matches!(tag.sink, Sink::Record | Sink::Both);
    if tag_name::usual(&tag.name).is_none() {
        if !tag_name::is_name(&tag.name) {
            return Err(Refused::Name(tag.name.chars().take(NAME_MAX).collect()));
        }
        if to_header && tag_name::is_reserved(&tag.name) {
            return Err(Refused::Reserved(tag.name));
        }
    }
    if tag.value.len() > VALUE_MAX {
        return Err(Refused::Value { name: tag.name, bytes: tag.value.len() });
    }
    let to_header = to_header && head;
    let of_record = (to_header && to_record).then(|| Tag { sink: Sink::Record, ..tag.clone() });
    if to_header {
        tag.sink = Sink::Header;
        if !is_plain(tag.value.as_bytes()) {
            tag.value = visible(&tag.value);
        }
        put(all, tag);
    } else if to_record {
        tag.sink = Sink::Record;
        put(all, tag);
    }
    if let Some(tag) = of_record {
        put(all, tag);
    }
    Ok(())
}

/// Adds a tag; of two with one name and sink the later one stays.
fn put(all: &mut Vec<Tag>, tag: Tag) {
    // At most one, because each was kept out of the list in the same way.
    if let Some(at) = all.iter().position(|other| other.name == tag.name && other.sink == tag.sink) {
        all.remove(at);
    }
    all.push(tag);
}

/// Visible ASCII and spaces between; everything else percent-encoded as UTF-8.
fn visible(value: &str) -> String {
    let inside = value.trim_matches(' ').len();
    let leading = value.len() - value.trim_start_matches(' ').len();
    let mut text = String::with_capacity(value.len());
    for (at, byte) in value.bytes().enumerate() {
        let between = byte == b' ' && (leading..leading + inside).contains(&at);
        if byte.is_ascii_graphic() || between {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Whether a value is written as it is, as nearly every one. Most are short; long ones are looked at many bytes at a
/// time.
fn is_plain(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<16>();
    let block = |block: &[u8; 16]| block.iter().fold(true, |all, byte| all & (b' '..=b'~').contains(byte));
    blocks.iter().all(block)
        && rest.iter().all(|byte| (b' '..=b'~').contains(byte))
        && bytes.first() != Some(&b' ')
        && bytes.last() != Some(&b' ')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn tag(name: &str, value: &str, sink: Sink) -> Tag {
        Tag { name: name.into(), value: value.into(), sink }
    }

    fn accept(tag: Tag, head: bool) -> Result<Vec<Tag>, Refused> {
        let mut all = Vec::new();
        super::accept(tag, head, &mut all).map(|()| all)
    }

    #[test]
    fn names_that_are_none_or_belong_to_the_host_are_refused() {
        let long = "x".repeat(65);
        for name in ["", "X-Cost", "a b", "a\r\nb", "é", "a:b", long.as_str()] {
            assert!(matches!(accept(tag(name, "v", Sink::Record), true), Err(Refused::Name(_))), "{name:?}");
        }
        for name in [
            "content-length",
            "content-type",
            "transfer-encoding",
            "connection",
            "set-cookie",
            "authorization",
            "proxy-authenticate",
            "x-request-id",
            "retry-after",
            "access-control-allow-origin",
        ] {
            assert!(matches!(accept(tag(name, "v", Sink::Both), true), Err(Refused::Reserved(_))), "{name}");
            assert!(accept(tag(name, "v", Sink::Record), true).is_ok(), "{name} is a fine record field");
        }
        assert!(accept(tag(&long[..64], "v", Sink::Header), true).is_ok());
    }

    #[test]
    fn a_header_value_cannot_carry_line_ends_or_other_bytes() {
        for (value, header) in [
            ("plain value", "plain value"),
            ("a\r\nset-cookie: x", "a%0D%0Aset-cookie: x"),
            (" é ", "%20%C3%A9%20"),
            (" a b", "%20a b"),
            ("a b ", "a b%20"),
            ("\0\t\x7f", "%00%09%7F"),
            ("100%", "100%"),
            ("", ""),
            ("   ", "%20%20%20"),
            ("g7 router=weighted-router@0123abcd", "g7 router=weighted-router@0123abcd"),
            ("one\u{7f}and more than sixteen", "one%7Fand more than sixteen"),
            ("more than sixteen and one\u{1f}", "more than sixteen and one%1F"),
            ("sixteen and no mo ", "sixteen and no mo%20"),
        ] {
            let tags = accept(tag("x-cost", value, Sink::Header), true).unwrap();
            assert_eq!(tags, [tag("x-cost", header, Sink::Header)], "{value:?}");
        }
    }

    #[test]
    fn a_value_over_its_bound_is_refused() {
        assert!(accept(tag("a", &"v".repeat(1024), Sink::Header), true).is_ok());
        assert!(matches!(
            accept(tag("a", &"v".repeat(1025), Sink::Record), true),
            Err(Refused::Value { bytes: 1025, .. })
        ));
    }

    #[test]
    fn sinks_are_taken_apart_and_the_record_phase_has_no_header() {
        let sinks = |sink, head| {
            let tags = accept(tag("a", "é", sink), head).unwrap();
            tags.into_iter().map(|tag| (tag.sink, tag.value)).collect::<Vec<_>>()
        };
        let header = (Sink::Header, "%C3%A9".to_owned());
        let record = (Sink::Record, "é".to_owned());
        assert_eq!(sinks(Sink::Both, true), [header.clone(), record.clone()]);
        assert_eq!(sinks(Sink::Header, true), [header]);
        assert_eq!(sinks(Sink::Both, false), std::slice::from_ref(&record));
        assert_eq!(sinks(Sink::Record, false), [record]);
        assert_eq!(sinks(Sink::Header, false), []);
    }

    #[test]
    fn of_two_with_one_name_the_later_stays_in_each_sink() {
        let mut all = Vec::new();
        for (name, value, sink) in [
            ("a", "1", Sink::Header),
            ("a", "2", Sink::Record),
            ("b", "3", Sink::Header),
            ("a", "4", Sink::Header),
        ] {
            put(&mut all, tag(name, value, sink));
        }
        let values: Vec<_> = all.iter().map(|tag| tag.value.as_str()).collect();
        assert_eq!(values, ["2", "3", "4"]);
    }
}
