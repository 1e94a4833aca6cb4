#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use proptest::prelude::*;

use super::*;

const MIDNIGHT: u64 = 20_000 * 24 * 60 * 60;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn money(units: f64) -> Money {
    Money::units(units)
}

#[test]
fn prices_are_exact_and_nothing_overflows() {
    // Tokens, price per million, units.
    for (tokens, price, units) in [
        (1_000_000, 2.5, 2.5),
        (1, 0.0375, 0.000_000_037_5),
        (3, 0.1, 0.000_000_3),
        (0, 10.0, 0.0),
        (1_000, 0.0, 0.0),
        (1_000, -1.0, 0.0),
        (1_000, f64::NAN, 0.0),
    ] {
        assert_eq!(Money::of_tokens(tokens, price), money(units), "{tokens} at {price}");
    }
    let most = Money::of_tokens(u64::MAX, f64::MAX);
    assert_eq!(most.plus(most), most);
    assert_eq!(Money::ZERO.minus(most), Money::ZERO);
}

#[test]
fn a_minute_is_told_as_it_is() {
    let start = Instant::now();
    let at = |t: u64| Now { at: start + ms(t), wall: Duration::ZERO };
    let limits = Limits { requests: Some(2), tokens: Some(100), day: None };
    let mut allowance = Allowance::new(limits);
    let need = |tokens| Need { tokens, cost: Money::ZERO };
    let first = allowance.take(at(0), need(60)).unwrap();
    let shown = |limit, left, resets| Some(Shown { limit, left, resets: ms(resets) });
    assert_eq!(allowance.requests(at(0).at), shown(2, 1, 60_000));
    assert_eq!(allowance.tokens(at(500).at), shown(100, 40, 59_500));
    // Tokens are short, requests are not.
    let short = |t| Err(Refusal::Tokens(Short::For(ms(t))));
    assert_eq!(allowance.take(at(10_000), need(41)).map(drop), short(50_000));
    assert_eq!(allowance.requests(at(10_000).at), shown(2, 1, 50_000));
    // More than there ever is.
    assert_eq!(allowance.take(at(10_000), need(101)).map(drop), Err(Refusal::Tokens(Short::Never)));
    // The estimate was too high, and what it was too high by is free at once.
    allowance.settle(at(11_000), first, need(10));
    assert_eq!(allowance.tokens(at(11_000).at), shown(100, 90, 49_000));
    let second = allowance.take(at(20_000), need(90)).unwrap();
    // Both are short: the longer wait is told.
    let both = allowance.take(at(30_000), need(95)).map(drop);
    assert_eq!(both, short(50_000));
    assert_eq!(allowance.take(at(30_000), need(0)).map(drop), Err(Refusal::Requests(Short::For(ms(30_000)))));
    // It was far too low: what was missing counts from now on, and nothing below nothing is told.
    allowance.settle(at(31_000), second, need(290));
    assert_eq!(allowance.tokens(at(31_000).at), shown(100, 0, 60_000));
    assert_eq!(allowance.take(at(81_000), need(1)).map(drop), short(10_000));
    assert_eq!(allowance.tokens(at(91_000).at), shown(100, 100, 0));
}

#[test]
fn new_limits_apply_to_what_was_taken_before_there_were_any() {
    let now = Now { at: Instant::now(), wall: Duration::from_secs(MIDNIGHT) };
    let mut allowance = Allowance::new(Limits::default());
    assert_eq!((allowance.requests(now.at), allowance.tokens(now.at)), (None, None));
    let need = Need { tokens: 70, cost: money(1.0) };
    let done = allowance.take(now, need).unwrap();
    let running = allowance.take(now, need).unwrap();
    allowance.settle(now, done, need);
    allowance.set(Limits { requests: Some(3), tokens: Some(150), day: Some(money(2.5)) });
    assert_eq!(allowance.requests(now.at).map(|shown| shown.left), Some(1));
    assert_eq!(allowance.tokens(now.at).map(|shown| shown.left), Some(10));
    let half = Need { tokens: 5, cost: money(0.6) };
    assert_eq!(allowance.take(now, half).map(drop), Err(Refusal::Day(Short::For(ms(1000)))));
    allowance.settle(now, running, Need { tokens: 70, cost: money(0.1) });
    assert!(allowance.take(now, half).is_ok());
    allowance.set(Limits::default());
    assert!(allowance.take(now, Need { tokens: u64::MAX, cost: money(1e9) }).is_ok());
}

#[test]
fn a_day_ends_at_midnight_utc_and_a_clock_that_jumps_gives_nothing_twice() {
    let wall = |seconds: i64| Duration::from_secs(MIDNIGHT.checked_add_signed(seconds).unwrap());
    let mut days = Days::new(Some(money(10.0)));
    days.settle(wall(-1), Money::ZERO, money(10.0));
    assert_eq!(
        days.fits(wall(-1), Money::ZERO),
        Err(Short::For(ms(1000))),
        "nothing is left, not even for nothing"
    );
    assert_eq!(days.fits(wall(0), money(10.0)), Ok(()));
    assert_eq!(days.fits(wall(0), money(10.5)), Err(Short::Never));
    days.settle(wall(0), Money::ZERO, money(9.0));
    // Back over midnight and forth again, a year ahead and back.
    for seconds in [-5, 5, 366 * 86_400, 2 * 86_400, -5, 5] {
        let spent = match seconds {
            -5 => 10.0,
            5 => 9.0,
            _ => 0.0,
        };
        assert_eq!(days.of(wall(seconds)).0, money(spent), "{seconds}");
    }
    days.settle(wall(366 * 86_400), Money::ZERO, money(10.0));
    assert_eq!(days.fits(wall(7), money(1.0)), Ok(()), "a day that never was holds nobody up");
    assert_eq!(days.fits(wall(7), money(1.5)), Err(Short::For(Duration::from_secs(86_393))));
}

/// What a call does: how long after the one before, its estimate, what it really was, and how many others end
/// before it does.
fn calls() -> impl Strategy<Value = Vec<(u64, u64, u64, bool)>> {
    let gap = prop_oneof![0u64..200, 0u64..5_000, 50_000u64..70_000];
    prop::collection::vec((gap, 0u64..60, 0u64..90, any::<bool>()), 1..120)
}

proptest! {
    /// Against the list of everything that was let in.
    #[test]
    fn no_sixty_seconds_have_more_than_the_limit_and_no_wait_is_longer_than_needed(
        gaps in prop::collection::vec((0u64..4_000, 0u64..40), 1..200),
        limit in 1u64..120,
    ) {
        let start = Instant::now();
        let mut minute = Minute::new(Some(limit));
        let (mut at, mut let_in) = (0, Vec::<(u64, u64)>::new());
        for (gap, amount) in gaps {
            at += gap;
            let now = start + ms(at);
            let within = |last: u64, list: &[(u64, u64)]| -> u64 {
                list.iter().filter(|(t, _)| t + last > at).map(|(_, amount)| amount).sum()
            };
            match minute.fits(now, amount) {
                Ok(()) => {
                    minute.take(now, amount);
                    let_in.push((at, amount));
                    prop_assert!(within(60_000, &let_in) <= limit);
                }
                Err(Short::Never) => prop_assert!(amount > limit),
                Err(Short::For(wait)) => {
                    prop_assert!(within(61_000, &let_in) + amount > limit, "refused without need");
                    prop_assert!(!wait.is_zero() && wait <= minute::MINUTE);
                    let mut later = Minute::new(Some(limit));
                    for (t, amount) in &let_in {
                        later.take(start + ms(*t), *amount);
                    }
                    prop_assert_eq!(later.fits(now + wait, amount), Ok(()), "the wait was too short");
                }
            }
            prop_assert!(minute.left(now).unwrap() <= limit);
            prop_assert!(minute.entries() <= 62);
        }
    }

    /// Whatever is estimated, settled early or late, or given back: what counts in the end is what it was.
    #[test]
    fn what_is_taken_and_settled_is_conserved(calls in calls(), limit in 40u32..200) {
        let start = Instant::now();
        let limits = Limits { requests: Some(40), tokens: Some(limit), day: Some(money(20.0)) };
        let mut allowance = Allowance::new(limits);
        let (mut at, mut running, mut spent) = (0, Vec::new(), Money::ZERO);
        let cost = |tokens: u64| Money::of_tokens(tokens, 10_000.0);
        let wall = Duration::from_secs(MIDNIGHT);
        for (gap, estimate, real, ends) in calls {
            at += gap;
            let now = Now { at: start + ms(at), wall };
            let before = (allowance.requests(now.at), allowance.tokens(now.at), allowance.days.of(wall));
            match allowance.take(now, Need { tokens: estimate, cost: cost(estimate) }) {
                Ok(taken) => {
                    let (done, reserved) = allowance.days.of(wall);
                    prop_assert!(done.plus(reserved) <= money(20.0), "overdrawn");
                    running.push((taken, estimate, real));
                }
                Err(_) => {
                    let after = (allowance.requests(now.at), allowance.tokens(now.at), allowance.days.of(wall));
                    prop_assert_eq!(before, after, "a refusal took something");
                }
            }
            if ends && !running.is_empty() {
                let (taken, _, real) = running.remove(0);
                spent = spent.plus(cost(real));
                allowance.settle(now, taken, Need { tokens: real, cost: cost(real) });
            }
            prop_assert!(allowance.tokens(now.at).unwrap().left <= u64::from(limit));
            let reserved = running.iter().fold(Money::ZERO, |sum, (_, estimate, _)| sum.plus(cost(*estimate)));
            prop_assert_eq!(allowance.days.of(wall), (spent, reserved));
        }
        let now = Now { at: start + ms(at), wall };
        for (taken, ..) in running {
            allowance.give_back(now, taken);
        }
        prop_assert_eq!(allowance.days.of(wall), (spent, Money::ZERO));
        let over = now.at + minute::MINUTE;
        prop_assert_eq!(allowance.tokens(over).unwrap().left, u64::from(limit));
        prop_assert_eq!((allowance.tokens.used(), allowance.requests(over).unwrap().left), (0, 40));
    }

    /// Within one minute the sums are plain arithmetic.
    #[test]
    fn what_counts_within_a_minute_is_what_the_calls_were(
        calls in prop::collection::vec((0u64..1_000, 0u64..50, 0u64..90, 0u8..3), 1..50),
    ) {
        let start = Instant::now();
        let mut allowance = Allowance::new(Limits::default());
        let (mut at, mut used, mut requests) = (0, 0, 0);
        let wall = Duration::from_secs(MIDNIGHT);
        for (gap, estimate, real, how) in calls {
            at += gap;
            let now = Now { at: start + ms(at), wall };
            let taken = allowance.take(now, Need { tokens: estimate, cost: Money::ZERO }).unwrap();
            let later = Now { at: now.at + ms(gap), wall };
            if how == 0 {
                allowance.give_back(later, taken);
            } else {
                allowance.settle(later, taken, Need { tokens: real, cost: Money::ZERO });
                (used, requests) = (used + real, requests + 1);
            }
            prop_assert_eq!((allowance.tokens.used(), allowance.requests.used()), (used, requests));
        }
    }
}
