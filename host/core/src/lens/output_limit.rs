//! The output limit of a request: where it stands in the body, and the body with a lower one.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Where a request says how long its answer may be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OutputLimit {
    /// The members there are, of `max_completion_tokens` and `max_tokens`.
    members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq)]
struct Member {
    /// Where its value lies.
    at: Range<usize>,
    /// Its number; none: `null`, which is no limit.
    value: Option<f64>,
}

impl OutputLimit {
    /// Adds a member by its value as it stands in the body. Values that are neither a whole number nor `null`
    /// are for the upstream to judge.
    pub fn found(&mut self, at: Range<usize>, raw: &str) {
        let value = match raw {
            "null" => None,
            // What is no number is there all the same: it is not touched, and none is added beside it.
            number => Some(number.parse().unwrap_or(0.0)),
        };
        self.members.push(Member { at, value });
    }

    /// The replacements that make `limit` the longest answer: byte ranges and what to put there; empty where
    /// the request asks for no more already. A limit that is not there becomes a `max_tokens` in front of
    /// everything else.
    pub fn lowered(&self, body: &[u8], limit: u32) -> Vec<(Range<usize>, String)> {
        if self.members.is_empty() {
            let Some(open) = memchr::memchr(b'{', body) else { return Vec::new() };
            return vec![(open + 1..open + 1, format!("\"max_tokens\":{limit},"))];
        }
        let above = |member: &&Member| member.value.is_none_or(|value| value > f64::from(limit));
        self.members.iter().filter(above).map(|member| (member.at.clone(), limit.to_string())).collect()
    }
}

/// A body with pieces of it replaced; everything else stays byte for byte. Ranges must not overlap.
pub fn replaced(body: &[u8], mut pieces: Vec<(Range<usize>, String)>) -> Bytes {
    pieces.sort_by_key(|(at, _)| at.start);
    let mut out =
        BytesMut::with_capacity(body.len() + pieces.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut from = 0;
    for (at, new) in pieces {
        out.extend_from_slice(&body[from..at.start]);
        out.extend_from_slice(new.as_bytes());
        from = at.end;
    }
    out.extend_from_slice(&body[from..]);
    out.freeze()
}
