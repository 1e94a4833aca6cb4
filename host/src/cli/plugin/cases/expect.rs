//! What a case expects, and where an answer differs. Only what is written is compared: a field that is left out may be
//! anything, `null` means that there is none.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use sluice_core::facts::{Sink, Tag, Vote};
use sluice_core::verdict::{Action, BreakerEffect, Verdict};

use super::shape::{Kind, Question};
use crate::plugin::Said;

/// Scores that differ by less are the same.
const CLOSE: f64 = 1e-9;

/// What should come, for the kind that is asked.
#[derive(Debug)]
pub enum Expect {
    /// Of a router.
    Router {
        /// One for each candidate.
        votes: Option<Vec<ExpectVote>>,
        /// The targets, best first, without the excluded ones.
        order: Option<Vec<u32>>,
    },
    /// Of a classifier; none: no opinion.
    Classifier(Option<ExpectVerdict>),
    /// Of a tagger: by sink, name and value; none: no such tag.
    Tagger {
        /// Response headers.
        headers: BTreeMap<String, Option<String>>,
        /// Record fields.
        record: BTreeMap<String, Option<String>>,
        /// No further tags than these.
        only: bool,
    },
}

/// A field that tells `null` from being left out.
type Written<T> = Option<Option<T>>;

fn written<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Written<T>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fields {
    votes: Option<Vec<ExpectVote>>,
    order: Option<Vec<u32>>,
    #[serde(default, deserialize_with = "written")]
    verdict: Written<ExpectVerdict>,
    headers: Option<BTreeMap<String, Option<String>>>,
    record: Option<BTreeMap<String, Option<String>>>,
    only: Option<bool>,
}

/// `vote`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectVote {
    #[serde(default, deserialize_with = "written")]
    score: Written<f64>,
    #[serde(default, deserialize_with = "written")]
    reason: Written<String>,
}

/// `verdict`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectVerdict {
    kind: Option<Kind>,
    action: Option<ExpectAction>,
    #[serde(default, deserialize_with = "written")]
    retry_after_ms: Written<u32>,
    breaker: Option<ExpectBreaker>,
    #[serde(default, deserialize_with = "written")]
    cool_down_ms: Written<u32>,
    #[serde(default, deserialize_with = "written")]
    client_status: Written<u16>,
}

#[derive(Debug, Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum ExpectAction {
    GiveUp,
    RetrySame,
    Switch,
}

#[derive(Debug, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum ExpectBreaker {
    Count,
    Ignore,
    Open,
}

impl Fields {
    /// For this question; fields of another kind are mistakes.
    pub(super) fn of(self, question: &Question) -> Result<Expect, String> {
        let Self { votes, order, verdict, headers, record, only } = self;
        let of_router = votes.is_some() || order.is_some();
        let of_tagger = headers.is_some() || record.is_some() || only.is_some();
        match (question.candidates(), of_router, verdict, of_tagger) {
            (Some(candidates), true, None, false) => {
                if let Some(votes) = votes.as_ref().filter(|votes| votes.len() != candidates.len()) {
                    return Err(format!(
                        "expected {} votes, one for each candidate; got {}",
                        candidates.len(),
                        votes.len()
                    ));
                }
                Ok(Expect::Router { votes, order })
            }
            (Some(_), ..) => Err("expect: expected `votes` or `order`, as a router is asked".to_owned()),
            (None, false, Some(verdict), false) => Ok(Expect::Classifier(verdict)),
            (None, false, None, true) => Ok(Expect::Tagger {
                headers: headers.unwrap_or_default(),
                record: record.unwrap_or_default(),
                only: only.unwrap_or(false),
            }),
            (None, ..) => {
                Err("expect: expected `verdict` of a classifier, or `headers`, `record` and `only` of a \
                               tagger, as it is asked"
                    .to_owned())
            }
        }
    }
}

impl Expect {
    /// Where the answer differs, one line for each place; empty: nowhere.
    pub fn differences(&self, question: &Question, said: &Said) -> Vec<String> {
        let mut found = Differences(Vec::new());
        match (self, said) {
            (Self::Router { votes, order }, Said::Votes(given)) => {
                let candidates = question.candidates().unwrap_or_default();
                for (at, (expected, got)) in votes.iter().flatten().zip(given).enumerate() {
                    found.vote(at, expected, got);
                }
                if let Some(expected) = order {
                    found.compare("order", expected, &by_score(&candidates, given));
                }
            }
            (Self::Classifier(None), Said::Verdict(Some(_))) => found.add("verdict", &"null", &"an opinion"),
            (Self::Classifier(Some(_)), Said::Verdict(None)) => found.add("verdict", &"an opinion", &"null"),
            (Self::Classifier(None), Said::Verdict(None)) => {}
            (Self::Classifier(Some(expected)), Said::Verdict(Some(got))) => found.verdict(expected, got),
            (Self::Tagger { headers, record, only }, Said::Tags(tags)) => {
                found.tags("headers", headers, *only, |sink| sink != Sink::Record, tags);
                found.tags("record", record, *only, |sink| sink != Sink::Header, tags);
            }
            _ => found.add("answer", &"one of the kind that was asked", &"another"),
        }
        found.0
    }
}

/// The targets in the order a gateway would try them.
fn by_score(candidates: &[u32], votes: &[Vote]) -> Vec<u32> {
    let mut scored: Vec<(f64, u32)> =
        candidates.iter().zip(votes).filter_map(|(target, vote)| Some((vote.score?, *target))).collect();
    scored.sort_by(|one, next| next.0.total_cmp(&one.0));
    scored.into_iter().map(|(_, target)| target).collect()
}

struct Differences(Vec<String>);

impl Differences {
    fn add(&mut self, place: &str, expected: &dyn std::fmt::Display, got: &dyn std::fmt::Display) {
        self.0.push(format!("{place}: expected {expected}, got {got}"));
    }

    fn compare<T: PartialEq + serde::Serialize>(&mut self, place: &str, expected: &T, got: &T) {
        if expected != got {
            self.add(place, &json!(expected), &json!(got));
        }
    }

    fn written<T: PartialEq + serde::Serialize>(
        &mut self,
        place: &str,
        expected: &Written<T>,
        got: &Option<T>,
    ) {
        if let Some(expected) = expected {
            self.compare(place, expected, got);
        }
    }

    fn vote(&mut self, at: usize, expected: &ExpectVote, got: &Vote) {
        let same = match (expected.score, got.score) {
            (Some(Some(expected)), Some(got)) => (expected - got).abs() < CLOSE,
            (None, _) | (Some(None), None) => true,
            (Some(_), _) => false,
        };
        if !same {
            self.add(&format!("votes[{at}].score"), &json!(expected.score.flatten()), &json!(got.score));
        }
        self.written(&format!("votes[{at}].reason"), &expected.reason, &got.reason);
    }

    fn verdict(&mut self, expected: &ExpectVerdict, got: &Verdict) {
        if let Some(kind) = expected.kind {
            self.compare("verdict.kind", &kind.0.as_str(), &got.kind.as_str());
        }
        let (action, wait) = match got.action {
            Action::GiveUp => (ExpectAction::GiveUp, None),
            Action::RetrySame(wait) => (ExpectAction::RetrySame, wait.map(millis)),
            Action::Switch => (ExpectAction::Switch, None),
        };
        if expected.action.is_some_and(|expected| expected != action) {
            let name = |action| match action {
                Some(ExpectAction::GiveUp) => "give_up",
                Some(ExpectAction::RetrySame) => "retry_same",
                Some(ExpectAction::Switch) | None => "switch",
            };
            self.compare("verdict.action", &name(expected.action), &got.action.as_str());
        }
        self.written("verdict.retry_after_ms", &expected.retry_after_ms, &wait);
        if let Some(breaker) = expected.breaker {
            let breaker = match breaker {
                ExpectBreaker::Count => BreakerEffect::Count,
                ExpectBreaker::Ignore => BreakerEffect::Ignore,
                ExpectBreaker::Open => BreakerEffect::Open,
            };
            self.compare("verdict.breaker", &breaker.as_str(), &got.breaker.as_str());
        }
        self.written("verdict.cool_down_ms", &expected.cool_down_ms, &got.cool_down.map(millis));
        self.written("verdict.client_status", &expected.client_status, &got.client_status);
    }

    fn tags(
        &mut self,
        place: &str,
        expected: &BTreeMap<String, Option<String>>,
        only: bool,
        goes: impl Fn(Sink) -> bool,
        tags: &[Tag],
    ) {
        // Of two with one name the later one is written.
        let got: BTreeMap<&String, &String> =
            tags.iter().filter(|tag| goes(tag.sink)).map(|tag| (&tag.name, &tag.value)).collect();
        for (name, value) in expected {
            self.compare(&format!("{place}.{name}"), &value.as_ref(), &got.get(name).copied());
        }
        for (name, value) in got.iter().filter(|(name, _)| only && !expected.contains_key(**name)) {
            self.add(&format!("{place}.{name}"), &"no further tag", &json!(value));
        }
    }
}

fn millis(time: std::time::Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// A whole answer, in the words of a case.
pub fn said(said: &Said) -> Value {
    match said {
        Said::Votes(votes) => {
            let vote = |vote: &Vote| json!({"score": vote.score, "reason": vote.reason});
            json!({"votes": votes.iter().map(vote).collect::<Vec<_>>()})
        }
        Said::Verdict(verdict) => json!({"verdict": verdict.as_ref().map(|verdict| {
            let wait = if let Action::RetrySame(wait) = verdict.action { wait.map(millis) } else { None };
            json!({"kind": verdict.kind.as_str(), "action": verdict.action.as_str(), "retry_after_ms": wait,
                "breaker": verdict.breaker.as_str(), "cool_down_ms": verdict.cool_down.map(millis),
                "client_status": verdict.client_status})
        })}),
        Said::Tags(tags) => {
            let of = |goes: fn(Sink) -> bool| {
                tags.iter()
                    .filter(|tag| goes(tag.sink))
                    .map(|tag| (tag.name.clone(), tag.value.clone()))
                    .collect::<BTreeMap<_, _>>()
            };
            json!({"headers": of(|sink| sink != Sink::Record), "record": of(|sink| sink != Sink::Header)})
        }
    }
}
