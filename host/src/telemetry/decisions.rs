//! The last requests with everything that was decided about them, for `/debug/decisions`.
//!
//! An entry is kept in one piece, which is soon put down and soon let go, where the many pieces it is made of would each
//! be cold when the ring comes round to them. Its record is kept as it was written for the log; the rest is written when
//! somebody looks. The ring is bounded in requests, and each entry in bytes, because reasons and tags come from plugins.

mod packed;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use sluice_core::kind::FailureKind;
use sluice_core::verdict::{Action, BreakerEffect};

use super::json::Json;
use super::record::{FIELDS, bound_list, bound_reasons, maybe_float, maybe_text};

/// Most verdicts and most scores of one entry.
const MAX_ROWS: usize = 1024;

/// What was decided about one request, beside its record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// One for each failed attempt.
    pub verdicts: Vec<VerdictRow>,
    /// What each router said about each candidate.
    pub scores: Vec<ScoreRow>,
    /// Headers that were written on the answer by taggers: names, each once, and values.
    pub response_tags: Vec<(String, String)>,
}

/// One verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictRow {
    /// Number of the attempt.
    pub n: u32,
    /// The classifier that gave it; none: the host's last resort.
    pub plugin: Option<Arc<str>>,
    /// What the failure was.
    pub kind: FailureKind,
    /// What was to be done next.
    pub action: Action,
    /// What the breaker was to learn.
    pub breaker: BreakerEffect,
}

/// One score of one router.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreRow {
    /// `upstream/model`.
    pub target: Arc<str>,
    /// Name of the router.
    pub router: Arc<str>,
    /// 0 to 1; none: excluded.
    pub score: Option<f64>,
    /// Why.
    pub reason: Option<String>,
}

impl Decision {
    /// Cuts what plugins may have made long.
    fn bound(&mut self) {
        self.verdicts.truncate(MAX_ROWS);
        self.scores.truncate(MAX_ROWS);
        bound_reasons(self.scores.iter_mut().map(|row| &mut row.reason));
        bound_list(&mut self.response_tags);
    }
}

/// One request of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is shown up to the verdicts, without its first brace; behind it [`packed`] scores and tags; and at the end the
    /// id of the request.
    bytes: Arc<[u8]>,
    /// Where the second begins, and the third.
    parts: [usize; 2],
}

impl Entry {
    /// What is shown of the request `id`, whose bounded record was written as `line`, with what was decided about it.
    pub fn new(mut line: Json, id: &str, mut decision: Decision) -> Self {
        decision.bound();
        line.take_back();
        line.put(r#","verdicts":"#);
        line.list(&decision.verdicts, verdict);
        let mut bytes = line.finish();
        let packed = bytes.len() - FIELDS;
        packed::count(&mut bytes, decision.scores.len());
        for row in &decision.scores {
            packed::text(&mut bytes, Some(&row.target));
            packed::text(&mut bytes, Some(&row.router));
            packed::number(&mut bytes, row.score);
            packed::text(&mut bytes, row.reason.as_deref());
        }
        packed::count(&mut bytes, decision.response_tags.len());
        for (name, value) in &decision.response_tags {
            packed::text(&mut bytes, Some(name));
            packed::text(&mut bytes, Some(value));
        }
        let end = bytes.len() - FIELDS;
        bytes.extend_from_slice(id.as_bytes());
        Self { bytes: bytes[FIELDS..].into(), parts: [packed, end] }
    }

    fn is_of(&self, request_id: &str) -> bool {
        self.bytes[self.parts[1]..] == *request_id.as_bytes()
    }
}

/// The ring.
#[derive(Debug)]
pub struct Decisions {
    ring: Mutex<Ring>,
    /// How many are kept. Changed while the ring is held.
    keep: AtomicUsize,
}

#[derive(Debug)]
struct Ring {
    entries: VecDeque<Entry>,
    /// Tells this ring from that of another process, whose cursors mean nothing here.
    mark: u64,
    /// Requests that were ever added.
    pushed: u64,
}

/// Which requests of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted<'a> {
    /// Only those with this id.
    pub request_id: Option<&'a str>,
    /// Only those added since this cursor was given; one that is not of this ring is none.
    pub after: Option<&'a str>,
    /// At most so many, the newest.
    pub limit: Option<usize>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Newest first.
    pub entries: Vec<Entry>,
    /// Where to go on next time: the cursor for [`Wanted::after`].
    pub next: String,
}

impl Decisions {
    /// A ring of the last `keep` requests; 0 keeps none.
    pub fn new(keep: usize) -> Self {
        let ring = Ring { entries: VecDeque::new(), mark: fastrand::u64(..), pushed: 0 };
        Self { ring: Mutex::new(ring), keep: AtomicUsize::new(keep) }
    }

    /// Changes how many are kept; the oldest go first.
    pub fn resize(&self, keep: usize) {
        let mut ring = self.lock();
        self.keep.store(keep, Ordering::Relaxed);
        let surplus = ring.entries.len().saturating_sub(keep);
        ring.entries.drain(..surplus);
    }

    /// Whether any are kept.
    pub fn keeps_any(&self) -> bool {
        self.keep.load(Ordering::Relaxed) > 0
    }

    /// Adds a request that has ended.
    pub fn push(&self, entry: Entry) {
        // What has to go is let go after the lock: other requests end meanwhile.
        let _oldest = {
            let mut ring = self.lock();
            let keep = self.keep.load(Ordering::Relaxed);
            if keep == 0 {
                return;
            }
            ring.pushed += 1;
            let full = ring.entries.len() >= keep;
            let oldest = if full { ring.entries.pop_front() } else { None };
            ring.entries.push_back(entry);
            oldest
        };
    }

    /// Those that are wanted, newest first.
    pub fn list(&self, wanted: &Wanted<'_>) -> Found {
        let ring = self.lock();
        let new = wanted.after.and_then(|cursor| ring.since(cursor)).unwrap_or(usize::MAX);
        let fits = |entry: &&Entry| wanted.request_id.is_none_or(|id| entry.is_of(id));
        let fitting = ring.entries.iter().rev().take(new).filter(fits);
        Found {
            entries: fitting.take(wanted.limit.unwrap_or(usize::MAX)).cloned().collect(),
            next: format!("{:016x}-{}", ring.mark, ring.pushed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// How many were added since this cursor was given; none: it was not given by this ring.
    fn since(&self, cursor: &str) -> Option<usize> {
        let (mark, pushed) = cursor.split_once('-')?;
        let ours = u64::from_str_radix(mark, 16) == Ok(self.mark);
        let since = pushed.parse().ok().and_then(|pushed| self.pushed.checked_sub(pushed))?;
        ours.then(|| usize::try_from(since).unwrap_or(usize::MAX))
    }
}

impl Serialize for Entry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [packed, end] = self.parts;
        let mut packed = packed::Reader(&self.bytes[packed..end]);
        let mut out = Json::with_capacity(2 * end);
        out.put("{");
        out.copy(&self.bytes[..self.parts[0]]);
        out.put(r#","scores":"#);
        let scores = packed.count();
        out.list(0..scores, |out, _| score(out, &mut packed));
        let tags = packed.count();
        let tags = (0..tags).filter_map(|_| packed.text().zip(packed.text())).collect::<BTreeMap<_, _>>();
        out.put(r#","response_tags":"#);
        out.texts(tags);
        out.put("}");
        out.into_value().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

fn verdict(out: &mut Json, row: &VerdictRow) {
    out.put(r#"{"n":"#);
    out.number(row.n);
    out.put(r#","plugin":"#);
    maybe_text(out, row.plugin.as_deref());
    out.put(r#","kind":"#);
    out.word(row.kind.as_str());
    out.put(r#","action":"#);
    out.word(row.action.as_str());
    out.put(r#","breaker":"#);
    out.word(row.breaker.as_str());
    out.put("}");
}

fn score(out: &mut Json, row: &mut packed::Reader<'_>) {
    out.put(r#"{"target":"#);
    maybe_text(out, row.text());
    out.put(r#","router":"#);
    maybe_text(out, row.text());
    out.put(r#","score":"#);
    maybe_float(out, row.number());
    out.put(r#","reason":"#);
    maybe_text(out, row.text());
    out.put("}");
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
