//! The output limit of a request: where it stands in the body, and what makes it a lower one.

use std::ops::Range;

use super::splice::Edit;

/// Where a request says how long its answer may be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OutputLimit {
    /// Where the values of the members there are lie, of `max_completion_tokens` and `max_tokens`.
    members: [Option<Range<usize>>; 2],
}

impl OutputLimit {
    /// Adds a member by the place of its value in the body.
    pub fn found(&mut self, at: Range<usize>) {
        if let Some(free) = self.members.iter_mut().find(|member| member.is_none()) {
            *free = Some(at);
        }
    }

    /// The edits that make `limit` the longest answer; none where
    /// the request asks for no more already. A limit that is not there becomes a `max_tokens` in front of
    /// everything else.
    pub fn lowered(&self, body: &[u8], limit: u32) -> Vec<Edit> {
        if self.members.iter().all(Option::is_none) {
            let Some(open) = memchr::memchr(b'{', body) else { return Vec::new() };
            return vec![Edit { at: open + 1..open + 1, with: format!("\"max_tokens\":{limit},").into() }];
        }
        let raw = |at: &Range<usize>| body.get(at.clone()).unwrap_or_default();
        let edit = |at: &Range<usize>| Edit { at: at.clone(), with: limit.to_string().into() };
        let members = || self.members.iter().flatten();
        if !members().any(|at| number(raw(at)).is_some()) {
            // `null` is no limit at all, unless the other one says a number.
            return members().find(|at| raw(at) == b"null").map(edit).into_iter().collect();
        }
        let above = |at: &&Range<usize>| number(raw(at)).is_some_and(|number| number > f64::from(limit));
        members().filter(above).map(edit).collect()
    }
}

/// What is neither a number nor `null` is for the upstream to judge.
fn number(raw: &[u8]) -> Option<f64> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}
