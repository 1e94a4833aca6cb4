//! One row of the demo: what it shows, and what of it was not as promised.
//!
//! Cells tell what was seen, whatever it was; the mark comes from the checks alone.

use std::fmt::{Debug, Display};
use std::time::Duration;

use super::stage::Stage;
use crate::rig::client::Answer;

/// A row while its scenario is played, and afterwards.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Its number.
    pub number: u8,
    /// What it is about.
    pub title: &'static str,
    /// What was asked.
    pub asked: Vec<String>,
    /// What the upstreams did.
    pub upstreams: Vec<String>,
    /// What the client got.
    pub client: Vec<String>,
    /// Who served.
    pub served: Vec<String>,
    /// What the gateway told about it.
    pub events: Vec<String>,
    /// Checks made.
    pub checks: usize,
    /// What was not as promised.
    pub wrong: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

impl Row {
    /// A row in which nothing was checked yet.
    pub fn new(number: u8, title: &'static str) -> Self {
        Self { number, title, ..Self::default() }
    }

    /// Everything was as promised, and something was checked.
    pub fn is_right(&self) -> bool {
        self.checks > 0 && self.wrong.is_empty()
    }

    /// Checks one thing; `what` says what was promised.
    pub fn check(&mut self, what: impl Display, right: bool) {
        self.checks += 1;
        if !right {
            self.wrong.push(what.to_string());
        }
    }

    /// Checks one value.
    pub fn equal<T: PartialEq + Debug>(&mut self, what: impl Display, got: T, expected: T) {
        self.checks += 1;
        if got != expected {
            self.wrong.push(format!("{what}: expected {expected:?}, got {got:?}"));
        }
    }

    /// Checks what the headers say about who served, and notes it.
    pub fn served_by(&mut self, answer: &Answer, target: &str, route: &str) {
        let (upstream, model) = target.split_once('/').unwrap_or((target, ""));
        self.equal("status", answer.status, 200);
        self.equal("x-sluice-upstream", answer.header("x-sluice-upstream"), upstream);
        self.equal("x-sluice-served-model", answer.header("x-sluice-served-model"), model);
        self.equal("x-sluice-route", answer.header("x-sluice-route"), route);
        let degraded = if route == "fallback" { "true" } else { "false" };
        self.equal("x-sluice-degraded", answer.header("x-sluice-degraded"), degraded);
        self.check("x-request-id is there", !answer.header("x-request-id").is_empty());
    }

    /// Checks that an answer is an error in OpenAI's shape, with the request id of its header.
    pub fn refused_with(&mut self, answer: &Answer, status: u16, code: &str) {
        let error = answer.json()["error"].clone();
        self.equal(format!("status of {code}"), answer.status, status);
        self.equal("error.code", answer.code().as_str(), code);
        self.equal(format!("content-type of {code}"), answer.header("content-type"), "application/json");
        let texts = error["message"].is_string() && error["type"].is_string() && error.get("param").is_some();
        self.check(format!("{code} has message, type and param"), texts);
        let id = error["request_id"].as_str().unwrap_or_default();
        self.check(
            format!("{code} carries the request id of its header"),
            !id.is_empty() && id == answer.header("x-request-id"),
        );
    }

    /// Checks how many calls each upstream has had.
    pub fn calls(&mut self, stage: &Stage, primary: u64, backup: u64) {
        self.equal("calls at the primary", stage.primary.stats().requests, primary);
        self.equal("calls at the backup", stage.backup.stats().requests, backup);
    }

    /// Checks that an event about a target was told so often.
    pub fn told(&mut self, stage: &Stage, event: &str, about: &str, times: usize) {
        self.equal(format!("{event} of {about}"), stage.sink.count(event, about), times);
    }

    /// Notes what the upstreams have seen and what the gateway has told. `status`: the one HTTP error they gave.
    pub fn note(&mut self, stage: &Stage, status: &str) {
        let (primary, backup) = (stage.primary.stats(), stage.backup.stats());
        for (name, stats) in [("primary", primary), ("backup", backup)] {
            let name_of =
                |act: &'static str| if act == "status" { status.to_owned() } else { act.to_owned() };
            let mut acts: Vec<String> = stats
                .by_behaviour
                .iter()
                .map(|(act, count)| format!("{count}×\u{a0}{}", name_of(act)))
                .collect();
            if acts.is_empty() {
                acts.push("not called".to_owned());
            }
            self.upstreams.push(format!("{name}: {}", acts.join(", ")));
        }
        let mut told: Vec<(String, usize)> = Vec::new();
        for (event, about) in stage.sink.events() {
            let text = format!("{event}\u{a0}{about}");
            match told.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => told.push((text, 1)),
            }
        }
        let counted =
            |(text, count): (String, usize)| if count == 1 { text } else { format!("{text}\u{a0}×{count}") };
        self.events.extend(told.into_iter().map(counted));
    }
}
