#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Barrier, OnceLock};
use std::task::Poll;

use super::*;
use crate::state::tests::{GATE, SECOND, Told, solo};

fn opened(now: Instant) -> (Arc<TargetCell>, Arc<Told>) {
    let told = Arc::new(Told::default());
    let cell = solo(told.clone());
    cell.admit(now).unwrap().open(now);
    told.take();
    (cell, told)
}

#[test]
fn every_change_is_told_once() {
    let now = clock::now();
    let told = Arc::new(Told::default());
    let cell = solo(told.clone());
    for _ in 0..3 {
        cell.admit(now).unwrap().failure(now);
    }
    let later = now + 30 * SECOND;
    cell.admit(later).unwrap().neutral();
    cell.admit(later).unwrap().failure(later);
    let until = cell.page(later).breaker.until.unwrap();
    assert!((60 * SECOND..=72 * SECOND).contains(&(until - later)), "doubled, times 1.0 to 1.2");
    let mut probe = cell.admit(until).unwrap();
    probe.commit();
    probe.commit();
    probe.success(until);
    assert_eq!(
        told.take(),
        [
            "a/m: closed to open",
            "a/m: open to half_open",
            "a/m: half_open to open",
            "a/m: open to half_open",
            "a/m: half_open to closed"
        ]
    );
}

#[test]
fn a_target_that_is_open_and_cooling_says_open_until_both_are_over() {
    let now = clock::now();
    let (cell, _) = opened(now);
    let (open_end, kind) = (now + 30 * SECOND, FailureKind::RetryableRateLimit);
    assert_eq!(cell.able(now), Able::Open { until: Some(open_end) });
    cell.cool(now + 10 * SECOND, kind);
    assert_eq!(cell.able(now), Able::Open { until: Some(open_end) });
    cell.cool(now + 40 * SECOND, kind);
    cell.cool(now + 20 * SECOND, FailureKind::ModelUnavailable);
    assert_eq!(cell.able(now), Able::Open { until: Some(now + 40 * SECOND) }, "the longer cool-down stays");
    let cooling = Able::Cooling { until: now + 40 * SECOND, kind };
    assert_eq!(cell.able(open_end), cooling);
    assert_eq!(cell.admit(open_end).unwrap_err(), cooling);
    assert_eq!(cell.able(now + 40 * SECOND), Able::Probe, "and cooling took no probe");
}

#[test]
fn a_cool_down_leaves_the_breaker_alone() {
    let now = clock::now();
    let cell = solo(Arc::new(()));
    for _ in 0..2 {
        cell.admit(now).unwrap().failure(now);
    }
    cell.cool(now + SECOND, FailureKind::RetryableRateLimit);
    assert!(matches!(cell.able(now), Able::Cooling { .. }));
    let page = cell.page(now + SECOND);
    assert_eq!((page.able, page.breaker.failures, page.cooling), (Able::Yes, 2, None));
    cell.admit(now + SECOND).unwrap().failure(now + SECOND);
    assert_eq!(cell.page(now + SECOND).breaker.state, BreakerState::Open);
}

#[test]
fn of_many_calls_at_once_one_is_the_probe() {
    let now = clock::now();
    let (cell, _) = opened(now);
    let (later, together) = (now + 30 * SECOND, Barrier::new(16));
    let tickets: Vec<_> = std::thread::scope(|scope| {
        let call = || {
            together.wait();
            cell.admit(later)
        };
        let calls: Vec<_> = (0..16).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let refused = tickets.iter().filter(|ticket| matches!(ticket, Err(Able::Open { until: None }))).count();
    assert_eq!(refused, 15);
    assert!(tickets.iter().flatten().all(Ticket::is_probe));
}

#[test]
fn the_probe_slot_is_free_after_every_way_a_call_can_end() {
    let now = clock::now();
    let later = now + 30 * SECOND;
    type Way = fn(Ticket, Instant);
    let ways: [(&str, Way, BreakerState); 8] = [
        ("dropped", |ticket, _| drop(ticket), BreakerState::HalfOpen),
        ("neutral", |ticket, _| ticket.neutral(), BreakerState::HalfOpen),
        (
            "unwound",
            |ticket, _| {
                let panicked = std::thread::spawn(move || {
                    let _held = ticket;
                    std::panic::resume_unwind(Box::new(()));
                });
                assert!(panicked.join().is_err());
            },
            BreakerState::HalfOpen,
        ),
        ("failed", |ticket, now| ticket.failure(now), BreakerState::Open),
        ("opened", |ticket, now| ticket.open(now), BreakerState::Open),
        ("succeeded", |ticket, now| ticket.success(now), BreakerState::Closed),
        (
            "committed, then dropped",
            |mut ticket, _| {
                ticket.commit();
            },
            BreakerState::Closed,
        ),
        (
            "ran over its limit, then served all the same",
            |mut ticket, now| {
                assert!(ticket.runs_over(now) && !ticket.is_probe());
                ticket.commit();
                ticket.success(now + 40 * SECOND);
            },
            BreakerState::Open,
        ),
    ];
    for (way, end, state) in ways {
        let (cell, _) = opened(now);
        end(cell.admit(later).unwrap(), later);
        assert_eq!(cell.page(later).breaker.state, state, "{way}");
        assert!(cell.admit(later + 100 * SECOND).is_ok(), "{way}");
    }
}

#[test]
fn a_call_that_is_no_probe_is_judged_by_its_end_however_long_it_runs() {
    let now = clock::now();
    for (end, failures) in
        [(Ticket::failure as fn(Ticket, Instant), 2), (Ticket::success, 0), (|ticket, _| drop(ticket), 1)]
    {
        let cell = solo(Arc::new(()));
        cell.admit(now).unwrap().failure(now);
        let mut ticket = cell.admit(now).unwrap();
        assert!(!ticket.runs_over(now));
        assert_eq!(cell.page(now).breaker.failures, 1);
        end(ticket, now);
        assert_eq!(cell.page(now).breaker.failures, failures);
    }
}

#[tokio::test(start_paused = true)]
async fn queued_calls_hear_of_a_breaker_that_opens_and_of_a_cool_down() {
    let now = clock::now();
    for refuse in [
        (|cell: &TargetCell, now| cell.admit(now).unwrap().open(now)) as fn(&TargetCell, Instant),
        |cell, now| cell.cool(now + SECOND, FailureKind::RetryableRateLimit),
    ] {
        let cell = solo(Arc::new(()));
        let mut queued = pin!(cell.refusing());
        let pending = poll_fn(|cx| Poll::Ready(queued.as_mut().poll(cx).is_pending())).await;
        assert!(pending, "nothing refuses yet");
        cell.admit(now).unwrap().failure(now);
        assert!(poll_fn(|cx| Poll::Ready(queued.as_mut().poll(cx).is_pending())).await);
        refuse(&cell, now);
        tokio::time::timeout(SECOND, queued).await.expect("told while waiting");
        tokio::time::timeout(SECOND, cell.refusing()).await.expect("told when it comes late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queued_probe_is_not_refused_by_its_own_breaker() {
    let now = clock::now();
    let (cell, _) = opened(now);
    let _probe = cell.admit(now + 30 * SECOND).unwrap();
    assert!(tokio::time::timeout(SECOND, cell.refusing()).await.is_err());
}

#[test]
fn a_router_is_told_numbers() {
    let now = clock::now();
    let cell = solo(Arc::new(()));
    let fresh = cell.candidate_numbers(now);
    assert_eq!(
        (fresh.health, fresh.samples, fresh.in_flight, fresh.capacity),
        (1.0, 0, 0, GATE.max_in_flight)
    );
    assert_eq!((fresh.latency_p95_ms, fresh.first_content_p95_ms, fresh.quota_left), (None, None, None));
    assert_eq!((cell.p95_to_commit(now), cell.last_failure_kind()), (None, None));

    for ok in [true, true, true, false] {
        cell.observe_result(now, ok);
    }
    cell.observe_commit(now, Duration::from_millis(100), None);
    cell.observe_commit(now, Duration::from_millis(100), Some(Duration::from_millis(50)));
    cell.observe_quota(now, 0.25);
    cell.observe_failure(FailureKind::RetryableTimeout);
    cell.admit(now).unwrap().failure(now);
    cell.cool(now + 2 * SECOND, FailureKind::RetryableRateLimit);
    let running = cell.run();
    let busy = cell.candidate_numbers(now);
    assert_eq!((busy.health, busy.samples, busy.in_flight, busy.failures), (0.75, 4, 1, 1));
    assert_eq!((busy.latency_p50_ms, busy.first_content_p50_ms), (Some(100.0), Some(50.0)));
    assert_eq!((busy.quota_left, busy.cool_down_ms), (Some(0.25), 2000));
    assert_eq!(cell.p95_to_commit(now), Some(Duration::from_millis(100)));
    assert_eq!(cell.last_failure_kind(), Some(FailureKind::RetryableTimeout));
    drop(running);
    let later = cell.candidate_numbers(now + 60 * SECOND);
    assert_eq!((later.in_flight, later.quota_left, later.cool_down_ms), (0, None, 0));
}

#[test]
fn a_router_sees_a_breaker_that_would_probe_as_half_open() {
    let now = clock::now();
    let (cell, _) = opened(now);
    assert_eq!(cell.candidate_numbers(now).breaker, BreakerState::Open);
    assert_eq!(cell.candidate_numbers(now + 30 * SECOND).breaker, BreakerState::HalfOpen);
    assert_eq!(cell.page(now + 30 * SECOND).breaker.state, BreakerState::Open, "looking changes nothing");
}

/// Looks back into the cell it is told about.
#[derive(Default)]
struct Nosy {
    cell: OnceLock<Arc<TargetCell>>,
    free: Mutex<Vec<bool>>,
}

impl StateWatch for Nosy {
    fn breaker_changed(&self, _: &Arc<str>, _: BreakerState, _: BreakerState) {
        let free = self.cell.get().unwrap().kept.inner.try_lock().is_ok();
        lock(&self.free).push(free);
    }
    fn gate_waited(&self, _: &str, _: Duration) {}
    fn gate_refused(&self, _: &str, _: crate::state::GateRefusal) {}
}

#[test]
fn the_watch_is_told_outside_of_the_lock() {
    let now = clock::now();
    let nosy = Arc::new(Nosy::default());
    let cell = solo(nosy.clone());
    nosy.cell.set(cell.clone()).ok().unwrap();
    cell.admit(now).unwrap().open(now);
    cell.admit(now + 30 * SECOND).unwrap().commit();
    assert_eq!(*lock(&nosy.free), [true, true, true]);
}

#[test]
fn any_mix_of_calls_leaves_a_target_that_can_be_called() {
    let now = clock::now();
    let cell = solo(Arc::new(()));
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let cell = &cell;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for step in 0..2000 {
                    let now = now + step * SECOND;
                    let Ok(mut ticket) = cell.admit(now) else {
                        continue;
                    };
                    let _running = cell.run();
                    if random.bool() {
                        ticket.commit();
                    }
                    match random.u8(..5) {
                        0 => ticket.success(now),
                        1 | 2 => ticket.failure(now),
                        3 => ticket.open(now),
                        _ => drop(ticket),
                    }
                }
            });
        }
    });
    let after = now + 10_000 * SECOND;
    assert_eq!(cell.page(after).in_flight, 0);
    assert!(cell.admit(after).is_ok());
}
