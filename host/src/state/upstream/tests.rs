#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use super::*;
use crate::clock;
use crate::state::State;
use crate::state::tests::{SECOND, configuration, target, upstream};

fn cell(keys: &[&str]) -> Arc<UpstreamCell> {
    let config = configuration(vec![target(&upstream("a", "/v1", keys), "m")]);
    State::new(Arc::new(())).attach(&config, clock::now()).upstreams["a"].clone()
}

fn lease(pick: Pick) -> Lease {
    match pick {
        Pick::Lease(lease) => lease,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_least_used_credential_is_picked_and_the_first_of_equals() {
    let now = clock::now();
    let cell = cell(&["k0", "k1", "k2"]);
    let mut held: Vec<Lease> = (0..4).map(|_| lease(cell.pick(now, &[]))).collect();
    assert_eq!(held.iter().map(Lease::index).collect::<Vec<_>>(), [0, 1, 2, 0]);
    assert_eq!(held[1].key().expose_secret(), "k1");
    drop(held.remove(2));
    assert_eq!(lease(cell.pick(now, &[])).index(), 2);
    assert_eq!(cell.page(now).iter().map(|c| c.in_flight).collect::<Vec<_>>(), [2, 1, 0]);
    drop(held);
    assert!(cell.page(now).iter().all(|credential| credential.in_flight == 0));
}

#[test]
fn an_upstream_without_credentials_needs_none() {
    let (now, cell) = (clock::now(), cell(&[]));
    assert!(matches!(cell.pick(now, &[]), Pick::NoneNeeded));
    assert_eq!(cell.all_aside(now), None);
}

#[test]
fn each_credential_is_used_once_a_call() {
    let (now, cell) = (clock::now(), cell(&["k0", "k1"]));
    assert_eq!(lease(cell.pick(now, &[0])).index(), 1);
    assert!(matches!(cell.pick(now, &[1, 0]), Pick::NoneLeft));
}

#[test]
fn a_credential_set_aside_comes_back_when_its_time_is_over() {
    let (now, cell) = (clock::now(), cell(&["k0", "k1"]));
    cell.set_aside(0, now + 2 * SECOND, AsideState::RateLimited);
    cell.set_aside(0, now + SECOND, AsideState::Denied);
    cell.set_aside(7, now + SECOND, AsideState::Denied);
    assert_eq!(lease(cell.pick(now + SECOND, &[])).index(), 1, "the longer wait stays");
    assert_eq!(lease(cell.pick(now + 2 * SECOND, &[])).index(), 0);
    let aside = Aside { until: now + 2 * SECOND, state: AsideState::RateLimited };
    assert!(matches!(cell.pick(now, &[1]), Pick::AllAside(told) if told == aside));
    assert_eq!(cell.page(now)[0].aside, Some(aside));
    assert_eq!(cell.page(now + 2 * SECOND)[0].aside, None);
}

#[test]
fn of_all_set_aside_the_first_back_is_told_and_denied_only_when_all_are() {
    let now = clock::now();
    use AsideState::{Denied, Quota, RateLimited};
    for (asides, told) in [
        ([(1, Denied), (5, Quota), (3, RateLimited)], (3, RateLimited)),
        ([(1, Denied), (5, Quota), (2, Denied)], (5, Quota)),
        ([(9, Denied), (4, Denied), (6, Denied)], (4, Denied)),
    ] {
        let cell = cell(&["k0", "k1", "k2"]);
        for (index, (seconds, state)) in asides.into_iter().enumerate() {
            assert_eq!(cell.all_aside(now), None);
            cell.set_aside(index, now + seconds * SECOND, state);
        }
        let told = Aside { until: now + told.0 * SECOND, state: told.1 };
        assert_eq!(cell.all_aside(now), Some(told), "{asides:?}");
        assert!(matches!(cell.pick(now, &[]), Pick::AllAside(aside) if aside == told), "{asides:?}");
    }
}

#[test]
fn no_debug_form_shows_a_key() {
    let cell = cell(&["s3cret"]);
    let shown = format!("{:?} {:?}", cell.pick(clock::now(), &[]), cell.page(clock::now()));
    assert!(shown.contains("index") && !shown.contains("s3cret"), "{shown}");
}
