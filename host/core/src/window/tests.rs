use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn samples_leave_after_a_minute() {
    let start = Instant::now();
    let mut rate = SuccessRate::new(start);
    assert_eq!(rate.last_minute(start).share(), None);
    // At second 0 one failure, at second 30 three successes.
    rate.record(start, false);
    for _ in 0..3 {
        rate.record(start + 30 * SECOND, true);
    }
    for (at, all, marked) in [(30, 4, 3), (59, 4, 3), (60, 3, 3), (89, 3, 3), (90, 0, 0), (100_000, 0, 0)] {
        assert_eq!(rate.last_minute(start + at * SECOND), Tally { all, marked }, "at {at} s");
    }
}

#[test]
fn a_slot_is_reused_empty() {
    let start = Instant::now();
    let mut window = Window::<4>::new(4 * SECOND, start);
    for at in 0..40 {
        window.add(start + at * SECOND, Tally { all: 1, marked: 0 });
        assert_eq!(u64::from(window.sum(start + at * SECOND).all), u64::from(at + 1).min(4), "at {at} s");
    }
    // A gap longer than the ring.
    window.add(start + 1000 * SECOND, Tally { all: 1, marked: 1 });
    assert_eq!(window.sum(start + 1000 * SECOND), Tally { all: 1, marked: 1 });
}

#[test]
fn the_sum_is_that_of_the_slots_however_they_pass() {
    let start = Instant::now();
    let mut window = Window::<4>::new(4 * SECOND, start);
    let mut at = 0;
    for step in (0..500u32).map(|n| n * 7919 % 11 % 7) {
        at += step;
        let now = start + at * SECOND;
        window.add(now, Tally { all: step + 1, marked: step });
        let sum = window.sum(now);
        let all = |field: fn(&Tally) -> u32| window.slots.iter().map(field).sum::<u32>();
        assert_eq!((sum.all, sum.marked), (all(|slot| slot.all), all(|slot| slot.marked)), "at {at} s");
    }
}

#[test]
fn a_clock_read_late_counts_in_the_newest_slot() {
    let start = Instant::now();
    let mut window = Window::<4>::new(4 * SECOND, start);
    window.add(start + 10 * SECOND, Tally { all: 1, marked: 0 });
    window.add(start + 2 * SECOND, Tally { all: 1, marked: 0 });
    assert_eq!(window.sum(start).all, 2);
    assert_eq!(window.sum(start + 13 * SECOND).all, 2);
    assert_eq!(window.sum(start + 14 * SECOND).all, 0);
}

#[test]
fn a_window_of_no_length_still_works() {
    let start = Instant::now();
    let mut window = Window::<4>::new(Duration::ZERO, start);
    window.add(start, Tally { all: 1, marked: 1 });
    assert_eq!(window.sum(start).share(), Some(1.0));
    assert_eq!(window.sum(start + SECOND).share(), None);
}
