use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn budget(ratio: f64, min_per_second: u32, now: Instant) -> RetryBudget {
    RetryBudget::new(Settings { ratio, min_per_second, window: 10 * SECOND }, now)
}

fn take_all(budget: &mut RetryBudget, now: Instant) -> u32 {
    let mut taken = 0;
    while taken < 100_000 && budget.take(now) {
        taken += 1;
    }
    taken
}

#[test]
fn extras_are_a_share_of_the_calls_and_at_least_the_floor() {
    let now = Instant::now();
    for (ratio, min, calls, allowed) in [
        (0.2, 10, 0, 100),
        (0.2, 10, 500, 100),
        (0.2, 10, 1000, 200),
        (0.2, 0, 0, 0),
        (0.2, 0, 4, 0),
        (0.2, 0, 5, 1),
        (0.0, 0, 1000, 0),
        (0.0, 1, 1000, 10),
        (1.0, 0, 7, 7),
    ] {
        let mut budget = budget(ratio, min, now);
        for _ in 0..calls {
            budget.call(now);
        }
        assert_eq!(budget.has(now), allowed > 0);
        assert_eq!(take_all(&mut budget, now), allowed, "{ratio} {min} {calls}");
        assert!(!budget.has(now));
    }
}

#[test]
fn what_was_taken_comes_back_with_time() {
    let start = Instant::now();
    let mut budget = budget(0.0, 1, start);
    assert_eq!(take_all(&mut budget, start), 10);
    assert_eq!(take_all(&mut budget, start + 9 * SECOND), 0);
    assert_eq!(take_all(&mut budget, start + 10 * SECOND), 10);
}

#[test]
fn looking_takes_nothing() {
    let now = Instant::now();
    let mut budget = RetryBudget::new(Settings { ratio: 0.0, min_per_second: 1, window: SECOND }, now);
    assert!(budget.has(now) && budget.has(now) && budget.take(now) && !budget.has(now));
}

#[test]
fn settings_change_in_place() {
    let now = Instant::now();
    let mut budget = budget(0.0, 1, now);
    assert_eq!(take_all(&mut budget, now), 10);
    budget.set(Settings { ratio: 0.0, min_per_second: 2, window: 10 * SECOND }, now);
    assert_eq!(take_all(&mut budget, now), 10, "what was taken stays taken");
    budget.set(Settings { ratio: 0.0, min_per_second: 2, window: 20 * SECOND }, now);
    assert_eq!(take_all(&mut budget, now), 40, "another window starts anew");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Calls(u16),
    Take,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0_u16..30).prop_map(Step::Calls),
        6 => Just(Step::Take),
        2 => (0_u64..1500).prop_map(Step::Wait),
        1 => (5000_u64..12_000).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Against a list of everything that ever happened. The window is a ring of 20 slots, so what it covers is
    /// known to one slot of half a second; within that the two must agree.
    #[test]
    fn extras_never_exceed_their_share_in_any_window(
        ratio in 0.0_f64..=1.0, floor in 0_u32..3, steps in prop::collection::vec(step(), 1..150),
    ) {
        let start = Instant::now();
        let mut budget = budget(ratio, floor, start);
        let (mut now, mut calls, mut extras) = (start, Vec::new(), Vec::new());
        let within = |list: &[Instant], span: Duration, now: Instant| {
            list.iter().filter(|at| now - **at <= span).count() as f64
        };
        let (narrow, wide) = (10 * SECOND - SECOND / 2, 10 * SECOND);
        let allowance = |calls: f64| (ratio * calls).max(f64::from(floor) * 10.0);
        for step in steps {
            match step {
                Step::Calls(n) => (0..n).for_each(|_| {
                    budget.call(now);
                    calls.push(now);
                }),
                Step::Wait(ms) => now += Duration::from_millis(ms),
                Step::Take => {
                    let promised = budget.has(now);
                    let taken = budget.take(now);
                    prop_assert_eq!(promised, taken);
                    if taken {
                        extras.push(now);
                        prop_assert!(within(&extras, narrow, now) <= allowance(within(&calls, wide, now)));
                    } else {
                        let more = within(&extras, wide, now) + 1.0;
                        prop_assert!(more > allowance(within(&calls, narrow, now)), "one was left");
                    }
                }
            }
        }
    }
}
