#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

use super::model::{Failure, ms, verdict};
use super::*;
use crate::kind::FailureKind;

fn course(retries: u32) -> (Budget, Choosing<Failure>) {
    let budget = Budget::new(Instant::now(), ms(8000), ms(300), None);
    let rules = Rules {
        max_switches: 1,
        retries: RetriesLeft { rate_limit: 0, upstream: retries },
        wait_max: ms(1000),
        backoff: ms(100),
        backoff_max: ms(500),
    };
    (budget, Choosing::new(budget, rules, 2))
}

const AHEAD: Outlook =
    Outlook { other_credential: false, budget_allows: true, may_wait: true, next: true, random: 1.0 };

fn broken() -> Failure {
    Failure(1, verdict(FailureKind::RetryableUpstream, Action::RetrySame(None)))
}

#[test]
fn a_retry_that_finds_its_target_refusing_becomes_the_switch_it_stood_for() {
    let (budget, choosing) = course(1);
    let now = budget.arrival();
    let attempting = choosing.choose(Some(0)).unwrap().granted(now, ms(1000), None).unwrap();
    let After::Retry(pausing) = attempting.failed(now, broken(), &AHEAD, || true) else { panic!("no retry") };
    assert_eq!(pausing.pause(), ms(100));
    let after = pausing.over().skipped(now, &AHEAD, || true);
    let After::Switch(to) = after else { panic!("no switch") };
    let attempting = to.choose(Some(1)).unwrap().granted(now, ms(1000), None).unwrap();
    let after = attempting.failed(now, broken(), &AHEAD, || true);
    assert!(matches!(after, After::Retry(_)), "another target has retries of its own");
}

#[test]
fn a_target_that_refuses_before_anything_was_tried_costs_nothing() {
    let (budget, choosing) = course(0);
    let entering = choosing.choose(Some(0)).unwrap();
    let After::Skip(to) = entering.skipped(budget.arrival(), &AHEAD, || panic!("nothing to pay")) else {
        panic!("no skip")
    };
    let attempting = to.choose(Some(1)).unwrap().granted(budget.arrival(), ms(1000), None).unwrap();
    assert!(matches!(attempting.failed(budget.arrival(), broken(), &AHEAD, || true), After::Switch(_)));
}

#[test]
fn a_retry_budget_that_others_emptied_meanwhile_is_not_overdrawn() {
    let (budget, choosing) = course(0);
    let attempting = choosing.choose(Some(0)).unwrap().granted(budget.arrival(), ms(1000), None).unwrap();
    let after = attempting.failed(budget.arrival(), broken(), &AHEAD, || false);
    assert!(matches!(after, After::End { budget_denied: true, .. }));
}

#[test]
fn with_nobody_left_the_last_failure_is_told() {
    let (budget, choosing) = course(0);
    assert!(matches!(course(0).1.choose(None), Err(None)));
    let attempting = choosing.choose(Some(0)).unwrap().granted(budget.arrival(), ms(1000), None).unwrap();
    let After::Switch(to) = attempting.failed(budget.arrival(), broken(), &AHEAD, || true) else {
        panic!("no switch")
    };
    assert!(
        matches!(to.choose(Some(0)), Err(Some(Failure(1, _)))),
        "a target that was left is not gone back to"
    );
}
