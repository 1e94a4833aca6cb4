#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation ends the test")]

use std::cell::Cell;

use super::Export;
use crate::bindings::plugin::exports::sluice::policy::plugin::Guest as _;
use crate::bindings::router::exports::sluice::policy::router::Guest as _;
use crate::bindings::tagger::exports::sluice::policy::tagger::Guest as _;
use crate::log::Level;
use crate::{
    AnswerFacts, Candidate, NoSettings, Plugin, RequestFacts, Router, Tag, Tagger, TargetFacts, Vote, log,
    testing,
};

struct Steady {
    score: f64,
    calls: Cell<u32>,
}

#[derive(serde::Deserialize)]
struct Settings {
    score: f64,
}

impl Plugin for Steady {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        match targets.len() {
            0 => Err("expected targets, got none".to_owned()),
            _ => Ok(Self { score: settings.score, calls: Cell::new(0) }),
        }
    }
}

impl Router for Steady {
    fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        self.calls.set(self.calls.get() + 1);
        log::info(&format!("call {}", self.calls.get()));
        candidates.iter().map(|_| Vote::score(self.score)).collect()
    }
}

impl Tagger for Steady {
    const HEAD: bool = false;
    const RECORD: bool = true;

    fn tag(&self, _: &RequestFacts, _: &AnswerFacts) -> Vec<Tag> {
        vec![Tag::record("score", self.score.to_string())]
    }
}

mod steady {
    use super::Steady;
    crate::plugin!(Steady: Router, Tagger);
}

struct OnlyRouter;

impl Plugin for OnlyRouter {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Router for OnlyRouter {
    fn score(&self, _: &RequestFacts, _: &[Candidate]) -> Vec<Vote> {
        Vec::new()
    }
}

mod only_router {
    use super::OnlyRouter;
    crate::plugin!(OnlyRouter: Router);
}

fn targets() -> Vec<TargetFacts> {
    vec![testing::target(0, "up", "m")]
}

fn score() -> Option<f64> {
    Export::<Steady>::score(testing::request(), vec![testing::candidate(0)])[0].score
}

#[test]
fn a_plugin_asks_for_the_calls_of_its_kinds_and_no_others() {
    let both = Export::<Steady>::describe();
    assert_eq!((both.name.as_str(), both.tags_head, both.tags_record), ("sluice-sdk", false, true));
    let router = Export::<OnlyRouter>::describe();
    assert_eq!((router.tags_head, router.tags_record), (false, false));
}

#[test]
fn what_was_configured_last_decides_and_a_refusal_changes_nothing() {
    Export::<Steady>::configure(r#"{"score":0.25}"#.to_owned(), targets()).unwrap();
    assert_eq!(score(), Some(0.25));
    let refused = Export::<Steady>::configure(r#"{"score":1.0}"#.to_owned(), Vec::new());
    assert_eq!(refused, Err("expected targets, got none".to_owned()));
    let refused = Export::<Steady>::configure(r#"{"score":"x"}"#.to_owned(), targets()).unwrap_err();
    assert!(refused.starts_with("settings.score: "), "{refused}");
    assert_eq!(score(), Some(0.25));
    Export::<Steady>::configure(r#"{"score":0.75}"#.to_owned(), targets()).unwrap();
    assert_eq!(score(), Some(0.75));
    let tags = Export::<Steady>::tag(testing::request(), testing::answer());
    assert_eq!(tags, [Tag::record("score", "0.75")]);
}

#[test]
fn lines_that_are_logged_can_be_read_once() {
    Export::<Steady>::configure(r#"{"score":0.5}"#.to_owned(), targets()).unwrap();
    testing::logged();
    score();
    score();
    let line = |text: &str| (Level::Info, text.to_owned());
    assert_eq!(testing::logged(), [line("call 1"), line("call 2")]);
    assert_eq!(testing::logged(), []);
}

#[test]
#[should_panic(expected = "before the plugin was configured")]
fn a_decision_before_configure_is_a_trap() {
    score();
}
