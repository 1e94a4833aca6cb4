#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn settings() -> Settings {
    Settings {
        consecutive: 3,
        rate: Some(RateRule { window: 20, min: 10, ratio: 0.5 }),
        open: 30 * SECOND,
        open_max: 300 * SECOND,
    }
}

fn call(breaker: &mut Breaker, lesson: Lesson, now: Instant) -> Option<Change> {
    let (ticket, _) = breaker.admit(now).expect("admitted");
    breaker.settle(ticket, lesson, now, 1.0)
}

fn opened(now: Instant) -> Breaker {
    let mut breaker = Breaker::new(settings());
    assert_eq!(call(&mut breaker, Lesson::Open, now).map(|change| change.to), Some(BreakerState::Open));
    breaker
}

#[test]
fn a_history_ends_in_the_right_state() {
    // F failure, S success, N neutral, O open at once.
    for (history, state, failures) in [
        ("", BreakerState::Closed, 0),
        ("FF", BreakerState::Closed, 2),
        ("FFF", BreakerState::Open, 3),
        ("FFNF", BreakerState::Open, 3),
        ("FFSF", BreakerState::Closed, 1),
        ("O", BreakerState::Open, 1),
        ("NNNNNNNNNNNNNNN", BreakerState::Closed, 0),
        // Half of ten: the rate rule, with never three in a row.
        ("FFSFSSFSF", BreakerState::Closed, 1),
        ("FFSFSSFSFS", BreakerState::Open, 0),
        ("FFSFSSFSFF", BreakerState::Open, 2),
        ("SFSFSFSFS", BreakerState::Closed, 0),
        ("SFSFSFSFSF", BreakerState::Open, 1),
        // Neutral results are no calls of the window.
        ("SFSFSFSFSNNNN", BreakerState::Closed, 0),
        // 9 and 10 failures among the last 20, whatever was before.
        ("SSSSSSSSSSSSSSSSSSSSSFSFSFSFSFSFSFSFSF", BreakerState::Closed, 1),
        ("SSSSSSSSSSSSSSSSSSSSSFSFSFSFSFSFSFSFSFSF", BreakerState::Open, 1),
    ] {
        let now = Instant::now();
        let mut breaker = Breaker::new(settings());
        for (at, letter) in history.chars().enumerate() {
            let lesson = match letter {
                'F' => Lesson::Failure,
                'S' => Lesson::Success,
                'O' => Lesson::Open,
                _ => Lesson::Neutral,
            };
            assert_eq!(breaker.state(), BreakerState::Closed, "{history} opened before call {at}");
            call(&mut breaker, lesson, now);
        }
        assert_eq!((breaker.state(), breaker.facts().failures), (state, failures), "{history}");
    }
}

#[test]
fn the_first_period_is_exact_and_failed_probes_double_it_to_the_cap() {
    let mut now = Instant::now();
    let mut breaker = opened(now);
    for (factor, expected) in [(1.0, 60), (1.2, 144), (1.1, 300), (1.2, 300)] {
        let until = breaker.facts().until.unwrap();
        assert_eq!(breaker.able(until - Duration::from_nanos(1)), Able::No { until: Some(until) });
        assert_eq!(breaker.able(until), Able::Probe);
        now = until + SECOND;
        let (ticket, change) = breaker.admit(now).unwrap();
        assert_eq!(change, Some(Change { from: BreakerState::Open, to: BreakerState::HalfOpen }));
        let change = breaker.settle(ticket, Lesson::Failure, now, factor);
        assert_eq!(change, Some(Change { from: BreakerState::HalfOpen, to: BreakerState::Open }));
        let period = breaker.facts().until.unwrap() - now;
        assert!(
            period.abs_diff(expected * SECOND) < Duration::from_millis(1),
            "{period:?}, not {expected} s"
        );
    }
    assert_eq!(breaker.facts().opens, 5);
    now = breaker.facts().until.unwrap();
    call(&mut breaker, Lesson::Success, now);
    call(&mut breaker, Lesson::Open, now);
    assert_eq!(breaker.facts().until, Some(now + 30 * SECOND), "a close forgets the growth");
}

#[test]
fn the_first_period_starts_when_it_opens_and_refusals_do_not_move_it() {
    let now = Instant::now();
    let mut breaker = opened(now);
    for second in 0..30 {
        let refused = breaker.admit(now + second * SECOND).unwrap_err();
        assert_eq!(refused, Able::No { until: Some(now + 30 * SECOND) });
    }
    assert!(breaker.admit(now + 30 * SECOND).is_ok());
}

#[test]
fn only_one_call_is_the_probe() {
    let now = Instant::now();
    let mut breaker = opened(now);
    let later = now + 31 * SECOND;
    let (probe, _) = breaker.admit(later).unwrap();
    assert!(probe.is_probe());
    for _ in 0..50 {
        assert_eq!(breaker.admit(later).unwrap_err(), Able::No { until: None });
    }
    assert_eq!(breaker.able(later + 1000 * SECOND), Able::No { until: None });
    let change = breaker.settle(probe, Lesson::Success, later, 1.0);
    assert_eq!(change, Some(Change { from: BreakerState::HalfOpen, to: BreakerState::Closed }));
    assert_eq!(breaker.able(later), Able::Yes);
}

#[test]
fn looking_never_takes_the_probe() {
    let now = Instant::now();
    let mut breaker = opened(now);
    let later = now + 30 * SECOND;
    for _ in 0..3 {
        assert_eq!(breaker.able(later), Able::Probe);
        assert_eq!(breaker.facts().state, BreakerState::Open);
    }
    assert!(breaker.admit(later).is_ok());
}

#[test]
fn a_neutral_probe_gives_its_slot_back() {
    let now = Instant::now();
    let mut breaker = opened(now);
    let later = now + 30 * SECOND;
    for _ in 0..3 {
        let (probe, _) = breaker.admit(later).unwrap();
        assert!(probe.is_probe());
        assert_eq!(breaker.settle(probe, Lesson::Neutral, later, 1.0), None);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.able(later), Able::Probe);
    }
    assert_eq!(
        call(&mut breaker, Lesson::Success, later).map(|change| change.to),
        Some(BreakerState::Closed)
    );
}

#[test]
fn commit_closes_half_open_and_the_rest_is_an_ordinary_call() {
    let now = Instant::now();
    let mut breaker = opened(now);
    let later = now + 30 * SECOND;
    let (mut probe, _) = breaker.admit(later).unwrap();
    let change = breaker.commit(&mut probe);
    assert_eq!(change, Some(Change { from: BreakerState::HalfOpen, to: BreakerState::Closed }));
    assert!(!probe.is_probe());
    assert_eq!(breaker.commit(&mut probe), None, "a second commit is nothing");
    assert_eq!(breaker.facts().failures, 0);
    assert_eq!(breaker.settle(probe, Lesson::Failure, later, 1.0), None);
    assert_eq!((breaker.state(), breaker.facts().failures), (BreakerState::Closed, 1));
}

#[test]
fn commit_while_closed_neither_counts_nor_resets() {
    let now = Instant::now();
    let mut breaker = Breaker::new(settings());
    for broken in 1..=3 {
        let (mut ticket, _) = breaker.admit(now).unwrap();
        assert_eq!(breaker.commit(&mut ticket), None);
        breaker.settle(ticket, Lesson::Failure, now, 1.0);
        assert_eq!(breaker.facts().failures, broken);
    }
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[test]
fn results_from_before_a_change_never_count_after_it() {
    let now = Instant::now();
    let mut breaker = Breaker::new(settings());
    let stale: Vec<Ticket> = (0..12).map(|_| breaker.admit(now).unwrap().0).collect();
    let mut stale = stale.into_iter();
    let mut late = |breaker: &mut Breaker, lesson| {
        let mut ticket = stale.next().unwrap();
        assert_eq!(breaker.commit(&mut ticket), None);
        assert_eq!(breaker.settle(ticket, lesson, now, 1.0), None);
    };
    call(&mut breaker, Lesson::Open, now);
    let open = breaker.facts();
    for lesson in [Lesson::Success, Lesson::Failure, Lesson::Open] {
        late(&mut breaker, lesson);
        assert_eq!(breaker.facts(), open, "while open: {lesson:?}");
    }
    let later = now + 30 * SECOND;
    let (probe, _) = breaker.admit(later).unwrap();
    for lesson in [Lesson::Success, Lesson::Failure, Lesson::Open, Lesson::Neutral] {
        late(&mut breaker, lesson);
        assert_eq!(breaker.able(later), Able::No { until: None }, "the probe stays out: {lesson:?}");
    }
    breaker.settle(probe, Lesson::Success, later, 1.0);
    call(&mut breaker, Lesson::Failure, later);
    for lesson in [Lesson::Success, Lesson::Failure, Lesson::Open] {
        late(&mut breaker, lesson);
        assert_eq!(breaker.facts().failures, 1, "after the close: {lesson:?}");
    }
}

#[test]
fn settings_change_in_place() {
    let now = Instant::now();
    let mut breaker = Breaker::new(settings());
    call(&mut breaker, Lesson::Failure, now);
    breaker.set(Settings { consecutive: 2, ..settings() });
    assert_eq!(breaker.state(), BreakerState::Closed, "a setting is no result");
    call(&mut breaker, Lesson::Failure, now);
    assert_eq!(breaker.state(), BreakerState::Open);
    let until = breaker.facts().until;
    breaker.set(Settings { open: 10 * SECOND, ..settings() });
    assert_eq!(breaker.facts().until, until, "a longer ceiling leaves the period alone");
    breaker.set(Settings { open: 5 * SECOND, open_max: 10 * SECOND, ..settings() });
    assert_eq!(breaker.facts().until, Some(now + 10 * SECOND));
}

#[test]
fn without_a_rate_rule_nothing_is_kept() {
    let now = Instant::now();
    let mut breaker = Breaker::new(settings());
    call(&mut breaker, Lesson::Failure, now);
    assert_eq!(breaker.facts().rate, Some(1.0));
    breaker.set(Settings { rate: None, ..settings() });
    for _ in 0..100 {
        call(&mut breaker, Lesson::Success, now);
        call(&mut breaker, Lesson::Failure, now);
    }
    assert_eq!((breaker.facts().rate, breaker.recent.len()), (None, 0));
    assert_eq!(breaker.state(), BreakerState::Closed);
}
