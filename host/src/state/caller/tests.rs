#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use sluice_core::allowance::{Limits, Money};

use super::super::tests::configuration;
use super::super::{Cells, Priority, State};
use super::*;

fn caller(name: &str, tokens: Option<u32>, in_flight: u32) -> Arc<config::Caller> {
    Arc::new(config::Caller {
        name: name.into(),
        key: config::KeyHash::of(name.as_bytes()),
        routes: None,
        gate: config::Gate { max_in_flight: in_flight, queue: 0, queue_wait: std::time::Duration::ZERO },
        limits: Limits { requests: Some(3), tokens, day: Some(Money::units(1.0)) },
    })
}

fn attach(state: &State, callers: Vec<Arc<config::Caller>>) -> Cells {
    state.attach(&config::Config { callers, ..configuration(Vec::new()) }, clock::now())
}

fn need(tokens: u64) -> Need {
    Need { tokens, cost: Money::ZERO }
}

fn left(cell: &CallerCell) -> [Option<u64>; 2] {
    cell.shown().map(|shown| shown.map(|shown| shown.left))
}

#[test]
fn a_reload_keeps_what_a_caller_has_used_and_changes_its_limits_in_place() {
    let state = State::new(Arc::new(()));
    let before = attach(&state, vec![caller("gone", None, 1), caller("a", Some(100), 2)]);
    let cell = before.callers[1].clone();
    cell.spend(need(60)).unwrap().settle(need(50));
    let running = cell.spend(need(30)).unwrap();
    let permits = [cell.gate().try_enter(Priority::Newcomer), cell.gate().try_enter(Priority::Newcomer)];
    assert!(permits.iter().all(Option::is_some));
    // Another place, another key, other limits: the same caller.
    let after = attach(&state, vec![caller("a", Some(90), 1), caller("new", Some(90), 1)]);
    assert!(Arc::ptr_eq(&after.callers[0], &cell));
    assert_eq!(
        (left(&after.callers[0]), left(&after.callers[1])),
        ([Some(1), Some(10)], [Some(3), Some(90)])
    );
    drop(permits);
    let one = cell.gate().try_enter(Priority::Newcomer);
    assert!(one.is_some() && cell.gate().try_enter(Priority::Newcomer).is_none(), "the lowered limit");
    running.settle(need(0));
    assert_eq!(left(&cell), [Some(1), Some(40)]);
    // A name that is gone starts anew when it comes back.
    attach(&state, vec![caller("new", Some(90), 1)]);
    assert_eq!(left(&attach(&state, vec![caller("a", Some(90), 1)]).callers[0]), [Some(3), Some(90)]);
}

#[test]
fn what_is_taken_and_dropped_is_given_back_whole() {
    let cell = attach(&State::new(Arc::new(())), vec![caller("a", Some(100), 1)]).callers[0].clone();
    drop(cell.spend(Need { tokens: 100, cost: Money::units(1.0) }).unwrap());
    assert_eq!(left(&cell), [Some(3), Some(100)]);
    assert!(cell.spend(Need { tokens: 1, cost: Money::units(1.0) }).is_ok(), "the money too");
}
