//! The last requests with everything that was decided about them, for `/debug/decisions`.
//!
//! Pushing shares the record and nothing is serialised until someone looks. The ring is bounded in requests,
//! and each entry in bytes, because reasons and tags come from plugins.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use sluice_core::kind::FailureKind;
use sluice_core::verdict::{Action, BreakerEffect};

use super::json::Json;
use super::record::{Record, bound_list, bound_reasons, fields};

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
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its record.
    pub record: Arc<Record>,
    /// What was decided.
    pub decision: Decision,
}

/// The ring.
#[derive(Debug)]
pub struct Decisions(Mutex<Ring>);

#[derive(Debug)]
struct Ring {
    entries: VecDeque<Arc<Entry>>,
    keep: usize,
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
    pub entries: Vec<Arc<Entry>>,
    /// Where to go on next time: the cursor for [`Wanted::after`].
    pub next: String,
}

impl Decisions {
    /// A ring of the last `keep` requests; 0 keeps none.
    pub fn new(keep: usize) -> Self {
        Self(Mutex::new(Ring { entries: VecDeque::new(), keep, mark: fastrand::u64(..), pushed: 0 }))
    }

    /// Changes how many are kept; the oldest go first.
    pub fn resize(&self, keep: usize) {
        let mut ring = self.lock();
        ring.keep = keep;
        let surplus = ring.entries.len().saturating_sub(keep);
        ring.entries.drain(..surplus);
    }

    /// Adds a request that has ended. Its record must be bounded already.
    pub fn push(&self, record: Arc<Record>, mut decision: Decision) {
        decision.bound();
        let entry = Arc::new(Entry { record, decision });
        // What has to go is let go after the lock: it is made of many pieces, and other requests end meanwhile.
        let _oldest = {
            let mut ring = self.lock();
            if ring.keep == 0 {
                return;
            }
            ring.pushed += 1;
            let full = ring.entries.len() >= ring.keep;
            let oldest = if full { ring.entries.pop_front() } else { None };
            ring.entries.push_back(entry);
            oldest
        };
    }

    /// Those that are wanted, newest first.
    pub fn list(&self, wanted: &Wanted<'_>) -> Found {
        let ring = self.lock();
        let new = wanted.after.and_then(|cursor| ring.since(cursor)).unwrap_or(usize::MAX);
        let fits = |entry: &&Arc<Entry>| wanted.request_id.is_none_or(|id| &*entry.record.request_id == id);
        let fitting = ring.entries.iter().rev().take(new).filter(fits);
        Found {
            entries: fitting.take(wanted.limit.unwrap_or(usize::MAX)).cloned().collect(),
            next: format!("{:016x}-{}", ring.mark, ring.pushed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let decision = &self.decision;
        let mut out = Json::with_capacity(4096);
        out.put("{");
        fields(&mut out, &self.record);
        out.put(r#","verdicts":"#);
        out.list(&decision.verdicts, |out, row| out.value(&VerdictFields::of(row)));
        out.put(r#","scores":"#);
        out.list(&decision.scores, |out, row| out.value(&ScoreFields::of(row)));
        out.put(r#","response_tags":"#);
        out.value(
            &decision.response_tags.iter().map(|(name, value)| (name, value)).collect::<BTreeMap<_, _>>(),
        );
        out.put("}");
        out.into_value().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

#[derive(Serialize)]
struct VerdictFields<'a> {
    n: u32,
    plugin: Option<&'a str>,
    kind: &'static str,
    action: &'static str,
    breaker: &'static str,
}

impl<'a> VerdictFields<'a> {
    fn of(row: &'a VerdictRow) -> Self {
        Self {
            n: row.n,
            plugin: row.plugin.as_deref(),
            kind: row.kind.as_str(),
            action: row.action.as_str(),
            breaker: row.breaker.as_str(),
        }
    }
}

#[derive(Serialize)]
struct ScoreFields<'a> {
    target: &'a str,
    router: &'a str,
    score: Option<f64>,
    reason: Option<&'a str>,
}

impl<'a> ScoreFields<'a> {
    fn of(row: &'a ScoreRow) -> Self {
        Self { target: &row.target, router: &row.router, score: row.score, reason: row.reason.as_deref() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
