//! The output limit of a request: where it stands in the body, and what makes it a lower one.

use std::ops::Range;

use super::splice::Edit;

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

    /// The edits that make `limit` the longest answer; none where
    /// the request asks for no more already. A limit that is not there becomes a `max_tokens` in front of
    /// everything else.
    pub fn lowered(&self, body: &[u8], limit: u32) -> Vec<Edit> {
        if self.members.is_empty() {
            let Some(open) = memchr::memchr(b'{', body) else { return Vec::new() };
            return vec![Edit { at: open + 1..open + 1, with: format!("\"max_tokens\":{limit},").into() }];
        }
        let above = |member: &&Member| member.value.is_none_or(|value| value > f64::from(limit));
        let edit = |member: &Member| Edit { at: member.at.clone(), with: limit.to_string().into() };
        self.members.iter().filter(above).map(edit).collect()
    }
}
