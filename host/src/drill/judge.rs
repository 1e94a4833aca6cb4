//! Whether what was promised was kept. Pure: it is given what callers read, what the gateway told and counted, what
//! stand-ins saw, and compares.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluice_core::kind::{FailureKind, Outcome};
use sluice_core::verdict::BreakerEffect;

use super::expect::{Expect, attempts_max, opens_after};
use super::load::Call;
use super::order::Form;
use super::reading::Reading;
use crate::config::{Breaker, Route};
use crate::rig::Metrics;

#[cfg(test)]
mod tests;

/// A machine that is busy with other things is not held against the gateway up to here.
const LATE: Duration = Duration::from_millis(500);
/// Calls named under one promise.
const SHOWN: usize = 3;

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its name, one of a fixed set.
    pub promise: &'static str,
    /// What was expected and what came.
    pub text: String,
    /// A request that shows it.
    pub request_id: Option<String>,
}

/// What the gateway told about one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// How it ended.
    pub outcome: Outcome,
    /// Served by, or last tried at, another than the first choice.
    pub fallback: bool,
    /// Target and failure of each attempt; none: it served.
    pub attempts: Vec<(Arc<str>, Option<FailureKind>)>,
    /// What breakers were to learn: the target and the lesson.
    pub lessons: Vec<(Arc<str>, BreakerEffect)>,
}

/// Everything that is known of one scenario.
pub struct Facts<'a> {
    /// In which form.
    pub form: Form,
    /// The route.
    pub route: &'a Route,
    /// `breaker`.
    pub breaker: &'a Breaker,
    /// Calls at a time.
    pub concurrency: usize,
    /// The target that fails.
    pub failing: Arc<str>,
    /// What calls are to end as.
    pub expect: Expect,
    /// Successes of the failing target before it failed.
    pub warmed: usize,
    /// What callers read.
    pub calls: &'a [Call],
    /// What the gateway told, by request id.
    pub told: &'a BTreeMap<String, Told>,
    /// What the gateway counted before.
    pub before: &'a Metrics,
    /// What it counted after.
    pub after: &'a Metrics,
    /// What stand-ins saw meanwhile.
    pub seen: &'a BTreeMap<Arc<str>, u64>,
    /// Places still taken at the end, at gates and at stand-ins.
    pub left: u64,
}

impl Facts<'_> {
    /// By how much a counter grew.
    pub fn grew(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let grown = self.after.sum(name, labels) - self.before.sum(name, labels);
        // Counters are whole and small; what is none is seen as a difference.
        grown.round().max(0.0) as u64
    }

    fn calls_of(&self, is: impl Fn(&Call) -> bool) -> Vec<&Call> {
        self.calls.iter().filter(|call| is(call)).collect()
    }
}

/// Every promise that was not kept.
pub fn judge(facts: &Facts<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    answers(facts, &mut broken);
    served(facts, &mut broken);
    budget(facts, &mut broken);
    attempts(facts, &mut broken);
    fallbacks(facts, &mut broken);
    outcomes(facts, &mut broken);
    failures(facts, &mut broken);
    breakers(facts, &mut broken);
    if facts.left > 0 {
        let text = format!("{} places are still taken though every call has ended", facts.left);
        broken.push(Broken { promise: "rest", text, request_id: None });
    }
    broken
}

/// `N of M calls: WHAT`, with the first of them.
fn of_calls(
    promise: &'static str,
    facts: &Facts<'_>,
    bad: &[&Call],
    what: impl Fn(&Call) -> String,
) -> Option<Broken> {
    let first = bad.first()?;
    let mut texts: Vec<String> = Vec::new();
    for text in bad.iter().map(|call| what(call)) {
        if !texts.contains(&text) && texts.len() < SHOWN {
            texts.push(text);
        }
    }
    let text = format!("{} of {} calls: {}", bad.len(), facts.calls.len(), texts.join("; "));
    Some(Broken { promise, text, request_id: Some(first.id.clone()) })
}

/// Every answer is complete or a clean error.
fn answers(facts: &Facts<'_>, broken: &mut Vec<Broken>) {
    let bad = facts.calls_of(|call| matches!(call.reading, Reading::Broken(_)));
    broken.extend(of_calls("answers", facts, &bad, |call| match &call.reading {
        Reading::Broken(why) => format!("neither whole nor a clean error, but {why}"),
        _ => String::new(),
    }));
}

/// No error where another target can serve. What the retry budget forbade is not held against it.
fn served(facts: &Facts<'_>, broken: &mut Vec<Broken>) {
    let bad = facts.calls_of(|call| matches!(call.reading, Reading::Refused(_) | Reading::Interrupted(_)));
    let forbidden = facts.grew("sluice_retry_budget_denied_total", &[]);
    if facts.expect == Expect::Served && bad.len() as u64 > forbidden {
        broken.extend(of_calls("served", facts, &bad, |call| match &call.reading {
            Reading::Refused(code) | Reading::Interrupted(code) => {
                format!("an error ({code}) though another target could serve")
            }
            _ => String::new(),
        }));
    }
}

/// No head after the budget, no plain answer either.
fn budget(facts: &Facts<'_>, broken: &mut Vec<Broken>) {
    let time = |call: &Call| if facts.form == Form::Plain { call.took } else { call.head };
    let late = facts.calls_of(|call| time(call).is_some_and(|time| time > facts.route.budget + LATE));
    broken.extend(of_calls("budget", facts, &late, |call| {
        let ms = time(call).unwrap_or_default().as_millis();
        format!("{ms} ms, in a budget of {} ms", facts.route.budget.as_millis())
    }));
}

/// No more attempts than switches, retries and credentials allow.
fn attempts(facts: &Facts<'_>, broken: &mut Vec<Broken>) {
    let most = attempts_max(facts.route);
    let tried = |call: &Call| facts.told.get(&call.id).map_or(0, |told| told.attempts.len());
    let bad = facts.calls_of(|call| tried(call) > most);
    broken.extend(of_calls("attempts", facts, &bad, |call| {
        format!("{} attempts, at most {most} are configured", tried(call))
    }));
}

/// Tags, records and metrics agree on who was served by another than the first choice.
fn fallbacks(facts: &Facts<'_>, broken: &mut Vec<Broken>) {
    let tagged = |call: &Call| call.tag.as_deref().map(|tag| tag == "fallback");
    let told = |call: &Call| facts.told.get(&call.id).map(|told| told.fallback);
    let bad = facts.calls_of(|call| tagged(call).is_some_and(|tagged| told(call) != Some(tagged)));
    broken.extend(of_calls("fallbacks", facts, &bad, |call| {
        format!("the answer's tag says fallback: {:?}, its record: {:?}", tagged(call), told(call))
    }));
    let whole = |call: &&Call| call.reading == Reading::Whole && told(call) == Some(true);
    let count = facts.calls.iter().filter(whole).count() as u64;
    let counted = facts.grew("sluice_requests_total", &[("outcome", Outcome::FallbackSuccess.as_str())]);
    if count != counted {
        let text = format!(
            "{count} calls were served by another target, /metrics counts {counted} fallback_success"
        );
        broken.push(Broken { promise: "fallbacks", text, request_id: None });
    }
}

/// Each call is in the records and on `/metrics`, once, as what it was.
fn outcomes(facts: &Facts<'_>, broken: &mut Vec<Broken>) {
    let told = |call: &Call| facts.told.get(&call.id).map(|told| told.outcome);
    let fits = |call: &Call| match (&call.reading, told(call)) {
        (Reading::Whole, Some(Outcome::Success | Outcome::FallbackSuccess))
        | (Reading::Interrupted(_), Some(Outcome::Interrupted))
        | (Reading::Broken(_), Some(_)) => true,
        (Reading::Refused(_), Some(outcome)) => !matches!(
            outcome,
            Outcome::Success | Outcome::FallbackSuccess | Outcome::Interrupted | Outcome::ClientCancelled
        ),
        _ => false,
    };
    let bad = facts.calls_of(|call| !fits(call));
    broken.extend(of_calls("outcomes", facts, &bad, |call| match told(call) {
        Some(outcome) => format!("recorded as {outcome}, the caller had {:?}", call.reading),
        None => "without a record".to_owned(),
    }));
    for outcome in Outcome::ALL {
        let records = facts.told.values().filter(|told| told.outcome == *outcome).count() as u64;
        let counted = facts.grew("sluice_requests_total", &[("outcome", outcome.as_str())]);
        if records != counted {
            let text = format!("{records} records of {outcome}, /metrics counts {counted}");
            broken.push(Broken { promise: "outcomes", text, request_id: None });
        }
    }
}

/// Records, metrics and stand-ins agree on attempts and failures of each target.
fn failures(facts: &Facts<'_>, broken: &mut Vec<Broken>) {
    let mut note = |text| broken.push(Broken { promise: "failures", text, request_id: None });
    let all = || facts.told.values().flat_map(|told| &told.attempts);
    for (target, seen) in facts.seen {
        let tried = all().filter(|(at, _)| at == target).count() as u64;
        let counted = facts.grew("sluice_attempts_total", &[("target", target)]);
        if tried != counted || tried != *seen {
            note(format!(
                "{target}: {tried} attempts in the records, {counted} on /metrics, {seen} seen by its stand-in"
            ));
        }
        for kind in FailureKind::ALL {
            let failed = all().filter(|(at, failure)| at == target && *failure == Some(*kind)).count() as u64;
            let labels = [("target", &**target), ("kind", kind.as_str())];
            let counted = facts.grew("sluice_attempt_failures_total", &labels);
            if failed != counted {
                note(format!("{target}: {failed} {kind} in the records, {counted} on /metrics"));
            }
        }
    }
}

/// Breakers open when the configuration says so, spare whoever is open, and leave the healthy alone.
fn breakers(facts: &Facts<'_>, broken: &mut Vec<Broken>) {
    let mut note = |text| broken.push(Broken { promise: "breaker", text, request_id: None });
    let grew = |target: &str, to: &str| {
        facts.grew("sluice_breaker_transitions_total", &[("target", target), ("to", to)])
    };
    let lessons = |target: &str, lesson: BreakerEffect| {
        let all = facts.told.values().flat_map(|told| &told.lessons);
        all.filter(|(at, learnt)| **at == *target && *learnt == lesson).count()
    };
    for target in facts.seen.keys() {
        let (opened, half, closed) =
            (grew(target, "open"), grew(target, "half_open"), grew(target, "closed"));
        let counted = lessons(target, BreakerEffect::Count);
        let told_to_open = lessons(target, BreakerEffect::Open);
        let is_failing = *target == facts.failing;
        let limit = opens_after(facts.breaker, if is_failing { facts.warmed } else { 0 }, counted.max(1));
        let must = is_failing && limit.is_some_and(|limit| counted >= limit);
        if must && opened == 0 {
            note(format!("{target}: {counted} counted failures and no successes, and it did not open"));
        }
        if counted == 0 && told_to_open == 0 && opened > 0 {
            note(format!("{target}: it opened {opened} times without a counted failure"));
        }
        // Whoever was under way when it opened, then one probe at a time.
        if let Some(limit) = limit.filter(|_| must && told_to_open == 0) {
            let most = (limit - 1 + facts.concurrency) as u64 * (1 + closed) + half;
            if counted as u64 > most {
                note(format!(
                    "{target}: {counted} counted failures, at most {most} before it had to spare it"
                ));
            }
        }
    }
}
