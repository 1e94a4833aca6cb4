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
        let above = |at: &&Range<usize>| is_above(body.get((*at).clone()).unwrap_or_default(), limit);
        let edit = |at: &Range<usize>| Edit { at: at.clone(), with: limit.to_string().into() };
        self.members.iter().flatten().filter(above).map(edit).collect()
    }
}

/// Whether a value asks for more. `null` is no limit at all; other values that are no number are for the upstream to
/// judge.
fn is_above(raw: &[u8], limit: u32) -> bool {
    let number = || std::str::from_utf8(raw).ok()?.parse::<f64>().ok();
    raw == b"null" || number().is_some_and(|number| number > f64::from(limit))
}
