//! What the gateway told about the calls of a part, read from the entries of `/debug/decisions` as they are shown to
//! anybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use sluice_core::kind::{FailureKind, Outcome};
use sluice_core::verdict::BreakerEffect;

use super::judge::Told;
use crate::config::Route;
use crate::telemetry::decisions::Entry;

/// One entry, as far as promises are about it.
#[derive(Debug, Deserialize)]
pub struct Shown {
    request_id: String,
    upstream: Option<String>,
    served_model: Option<String>,
    is_fallback: bool,
    outcome: String,
    attempts: Vec<Attempt>,
    verdicts: Vec<Verdict>,
}

#[derive(Debug, Deserialize)]
struct Attempt {
    n: u32,
    target: String,
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Verdict {
    n: u32,
    breaker: String,
}

/// Reads entries.
///
/// # Errors
/// One is not what `/debug/decisions` shows.
pub fn read(entries: &[Entry]) -> Result<Vec<Shown>, serde_json::Error> {
    entries.iter().map(|entry| serde_json::from_value(serde_json::to_value(entry)?)).collect()
}

/// The target that has served most of these calls, of equals the first in configured order, and how often; the
/// first of the route where nobody has.
pub fn first_choice(calls: &[Shown], route: &Route) -> (Arc<str>, usize) {
    let served = |target: &str| {
        let by = |call: &&Shown| {
            let named = call.upstream.as_deref().zip(call.served_model.as_deref());
            named.is_some_and(|(upstream, model)| target.split_once('/') == Some((upstream, model)))
        };
        calls.iter().filter(by).count()
    };
    let targets = route.targets.iter().map(|target| (target.target.key.clone(), served(&target.target.key)));
    // The last of equals is the greatest to `max_by_key`, so the order is turned round.
    let most = targets.rev().max_by_key(|(_, count)| *count);
    most.unwrap_or_else(|| (route.name.clone(), 0))
}

/// What was told about calls whose id begins with `name`.
pub fn told(calls: &[Shown], name: &str) -> BTreeMap<String, Told> {
    let ours = calls.iter().filter(|call| call.request_id.starts_with(name));
    ours.filter_map(|call| Some((call.request_id.clone(), of(call)?))).collect()
}

/// None: in words that the gateway does not have.
fn of(call: &Shown) -> Option<Told> {
    let target =
        |n: u32| call.attempts.iter().find(|attempt| attempt.n == n).map(|a| a.target.as_str().into());
    let lessons = call.verdicts.iter().filter_map(|row| Some((target(row.n)?, lesson(&row.breaker)?)));
    let attempts = call.attempts.iter().map(|attempt| {
        let kind = match &attempt.kind {
            None => None,
            Some(kind) => Some(*FailureKind::ALL.iter().find(|known| known.as_str() == kind)?),
        };
        Some((attempt.target.as_str().into(), kind))
    });
    Some(Told {
        outcome: *Outcome::ALL.iter().find(|known| known.as_str() == call.outcome)?,
        fallback: call.is_fallback,
        attempts: attempts.collect::<Option<_>>()?,
        lessons: lessons.collect(),
    })
}

fn lesson(word: &str) -> Option<BreakerEffect> {
    let all = [BreakerEffect::Count, BreakerEffect::Ignore, BreakerEffect::Open];
    all.into_iter().find(|known| known.as_str() == word)
}
