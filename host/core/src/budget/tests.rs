#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use proptest::prelude::*;

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn the_deadline_keeps_a_reserve_of_at_most_a_quarter() {
    let arrival = Instant::now();
    // configured, reserve, caller's wish: total, arrival to deadline.
    for (configured, reserve, caller, total, deadline) in [
        (120_000, 300, None, 120_000, 119_700),
        (1000, 300, None, 1000, 750),
        (1200, 300, None, 1200, 900),
        (3000, 300, Some(1000), 1000, 750),
        (3000, 300, Some(60_000), 3000, 2700),
        (3000, 0, Some(1), 1, 1),
        (3000, 300, Some(u64::MAX), 3000, 2700),
    ] {
        let budget = Budget::new(arrival, ms(configured), ms(reserve), caller.map(ms));
        let told = (budget.total(), budget.deadline() - arrival);
        assert_eq!(told, (ms(total), ms(deadline)), "{configured} {reserve} {caller:?}");
    }
}

#[test]
fn a_budget_without_end_does_not_overflow() {
    let now = Instant::now();
    let budget = Budget::new(now, Duration::MAX, Duration::MAX, Some(Duration::MAX));
    assert!(budget.left(now) > ms(1000));
    assert_eq!(budget.attempt(now, Duration::MAX, None).fires(now, false), budget.deadline());
}

#[test]
fn p95_raises_the_floor_and_never_lowers_it() {
    for (p95, needed) in [(None, 450), (Some(100), 450), (Some(900), 900)] {
        assert_eq!(min_budget(ms(450), p95.map(ms)), ms(needed));
    }
}

#[test]
fn blame_falls_only_on_a_target_that_had_its_own_full_limit() {
    let now = Instant::now();
    let budget = Budget::new(now, ms(2500), ms(0), None);
    // begun at, own limit: fires at, blamed then, blamed at the deadline.
    for (begun, own, fires, blamed, blamed_at_deadline) in [
        (0, 1000, 1000, true, true),
        (2000, 1000, 2500, false, false),
        (1500, 1000, 2500, true, true),
        (1501, 1000, 2500, false, false),
        (0, 60_000, 2500, false, false),
    ] {
        let clock = budget.attempt(now + ms(begun), ms(own), None);
        let first = clock.fires(now + ms(begun), false);
        assert_eq!(first, now + ms(fires), "begun at {begun}");
        assert_eq!(clock.fires(first, false), budget.deadline(), "let run on");
        assert_eq!(clock.target_to_blame(first, false), blamed, "begun at {begun}");
        assert_eq!(clock.target_to_blame(budget.deadline(), false), blamed_at_deadline, "begun at {begun}");
    }
}

#[test]
fn the_first_content_of_a_held_answer_has_a_limit_of_its_own_until_it_comes() {
    let now = Instant::now();
    let budget = Budget::new(now, ms(5000), ms(0), None);
    let clock = budget.attempt(now, ms(2000), Some(ms(300)));
    // at, content: fires next, to blame.
    for (at, content, fires, blamed) in [
        (0, false, 300, false),
        (0, true, 2000, false),
        (300, false, 2000, true),
        (300, true, 2000, false),
        (2000, true, 5000, true),
        (2000, false, 5000, true),
    ] {
        let at = now + ms(at);
        assert_eq!(clock.fires(at, content), now + ms(fires), "{:?} {content}", at - now);
        assert_eq!(clock.target_to_blame(at, content), blamed, "{:?} {content}", at - now);
    }
}

#[test]
fn a_callers_budget_is_a_positive_whole_number() {
    for (value, expected) in [
        ("1", Some(1)),
        ("2500", Some(2500)),
        ("007", Some(7)),
        ("99999999999999999999999", Some(u64::MAX)),
        ("", None),
        ("0", None),
        ("00", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1s", None),
        (" 1", None),
        ("1e3", None),
        ("١", None),
    ] {
        assert_eq!(parse_budget_ms(value), expected.map(ms), "{value:?}");
    }
}

#[test]
fn callers_are_told_whole_seconds_from_1_to_60() {
    for (wait, told) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (3500, 4), (60_000, 60), (86_400_000, 60)] {
        assert_eq!(retry_after_seconds(ms(wait)), told, "{wait} ms");
    }
    assert_eq!(retry_after_seconds(Duration::from_nanos(3_000_000_001)), 4);
    assert_eq!(retry_after_seconds(Duration::MAX), 60);
}

#[test]
fn pauses_double_to_the_cap_and_are_halved_at_most() {
    for (n, random, expected) in [
        (0, 0.0, 100),
        (0, 1.0, 200),
        (0, 0.5, 150),
        (1, 1.0, 400),
        (3, 1.0, 1600),
        (4, 1.0, 2000),
        (4, 0.0, 1000),
        (99, 1.0, 2000),
    ] {
        assert_eq!(pause(n, ms(200), ms(2000), random), ms(expected), "retry {n}, random {random}");
    }
    assert!(pause(u32::MAX, Duration::MAX, Duration::MAX, 1.0) <= FAR);
}

proptest! {
    #[test]
    fn what_is_left_never_exceeds_the_budget_and_only_shrinks(
        configured in 0_u64..200_000, reserve in 0_u64..200_000, caller in proptest::option::of(0_u64..400_000),
        own in 0_u64..200_000, mut moments in prop::collection::vec(0_u64..500_000, 1..20),
    ) {
        let start = Instant::now();
        let arrival = start + ms(100_000);
        let budget = Budget::new(arrival, ms(configured), ms(reserve), caller.map(ms));
        prop_assert!(budget.total() <= ms(configured));
        prop_assert!(budget.deadline() >= arrival);
        prop_assert!(budget.deadline() - arrival >= budget.total() * 3 / 4);
        moments.sort_unstable();
        let mut last = budget.total();
        for moment in moments {
            let now = start + ms(moment);
            let left = budget.left(now);
            prop_assert!(left <= last);
            prop_assert!(now < arrival || now + left <= budget.deadline().max(now));
            let fires = budget.attempt(now, ms(own), None).fires(now, false);
            prop_assert!(fires <= budget.deadline().max(now) && (fires <= now + ms(own) || own == 0));
            last = left;
        }
    }
}
