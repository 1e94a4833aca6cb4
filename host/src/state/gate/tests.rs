#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use tokio::task::JoinSet;

use super::*;
use crate::state::tests::{SECOND, Told};

fn gate(max_in_flight: u32, queue: u32) -> (Arc<Gate>, Arc<Told>) {
    let told = Arc::new(Told::default());
    let limits = config::Gate { max_in_flight, queue, queue_wait: 5 * SECOND };
    (Arc::new(Gate::new("global", limits, told.clone())), told)
}

/// Polls once: none while it waits.
async fn look<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(out) => Poll::Ready(Some(out)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

fn far() -> Instant {
    clock::now() + 3600 * SECOND
}

fn counts(gate: &Gate) -> (u32, u32) {
    let page = gate.snapshot();
    (page.in_flight, page.queue)
}

#[tokio::test(start_paused = true)]
async fn waiters_enter_in_order_and_returning_ones_first() {
    let (gate, _) = gate(1, 8);
    let held = gate.enter(Priority::Newcomer, far()).await.unwrap();
    let mut first = pin!(gate.enter(Priority::Newcomer, far()));
    let mut second = pin!(gate.enter(Priority::Newcomer, far()));
    let mut back = pin!(gate.enter(Priority::Returning, far()));
    for waiter in [&mut first, &mut second, &mut back] {
        assert!(look(waiter).await.is_none());
    }
    assert_eq!(counts(&gate), (1, 3));
    drop(held);
    assert!(gate.try_enter(Priority::Returning).is_none(), "the permit is granted already");
    assert!(look(&mut first).await.is_none() && look(&mut second).await.is_none());
    drop(look(&mut back).await.unwrap().unwrap());
    assert!(look(&mut second).await.is_none());
    drop(look(&mut first).await.unwrap().unwrap());
    drop(look(&mut second).await.unwrap().unwrap());
    assert_eq!(counts(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_the_shorter_of_queue_wait_and_the_calls_own_time() {
    for (own_ms, waited_ms) in [(60_000, 5000), (700, 700), (0, 0)] {
        let (gate, told) = gate(1, 8);
        let _held = gate.try_enter(Priority::Newcomer).unwrap();
        told.take();
        let began = clock::now();
        let refused = gate.enter(Priority::Newcomer, began + Duration::from_millis(own_ms)).await;
        assert_eq!(refused.unwrap_err(), GateRefusal::TimedOut);
        let waited = u64::try_from((clock::now() - began).as_millis()).unwrap();
        assert!((waited_ms..=waited_ms + 1).contains(&waited), "{waited} ms, not {waited_ms}");
        assert_eq!(told.take(), [format!("global: waited {waited} ms"), "global: queue_timeout".to_owned()]);
        assert_eq!(counts(&gate), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_time_still_takes_a_free_permit() {
    let (gate, _) = gate(1, 8);
    assert!(gate.enter(Priority::Newcomer, clock::now()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once() {
    let (gate, told) = gate(1, 1);
    let _held = gate.try_enter(Priority::Newcomer).unwrap();
    let mut waiter = pin!(gate.enter(Priority::Newcomer, far()));
    assert!(look(&mut waiter).await.is_none());
    let began = clock::now();
    assert_eq!(gate.enter(Priority::Newcomer, far()).await.unwrap_err(), GateRefusal::Full);
    assert_eq!(clock::now(), began);
    assert_eq!(told.take(), ["global: waited 0 ms", "global: queue_full"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_left_is_gone_at_once_and_never_served() {
    let (gate, told) = gate(1, 8);
    let held = gate.try_enter(Priority::Newcomer).unwrap();
    let mut stays = pin!(gate.enter(Priority::Newcomer, far()));
    {
        let mut leaves = pin!(gate.enter(Priority::Newcomer, far()));
        assert!(look(&mut leaves).await.is_none());
        assert!(look(&mut stays).await.is_none());
        assert_eq!(counts(&gate), (1, 2));
    }
    assert_eq!(counts(&gate), (1, 1));
    told.take();
    drop(held);
    let permit = look(&mut stays).await.unwrap().unwrap();
    assert_eq!(counts(&gate), (1, 0));
    drop(permit);
    assert_eq!(told.take(), ["global: waited 0 ms"], "a waiter that left is no refusal");
}

#[tokio::test(start_paused = true)]
async fn a_grant_racing_a_cancel_goes_to_the_next() {
    let (gate, _) = gate(1, 8);
    let held = gate.try_enter(Priority::Newcomer).unwrap();
    let mut next = pin!(gate.enter(Priority::Newcomer, far()));
    {
        let mut leaves = pin!(gate.enter(Priority::Newcomer, far()));
        assert!(look(&mut leaves).await.is_none());
        assert!(look(&mut next).await.is_none());
        drop(held);
        // Granted, but never polled again.
        assert_eq!(counts(&gate), (1, 1));
    }
    assert_eq!(counts(&gate), (1, 0));
    assert!(look(&mut next).await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_grant_made_before_time_ran_out_is_taken_after_it() {
    let (gate, _) = gate(1, 8);
    let held = gate.try_enter(Priority::Newcomer).unwrap();
    let mut waiter = pin!(gate.enter(Priority::Newcomer, far()));
    assert!(look(&mut waiter).await.is_none());
    drop(held);
    tokio::time::advance(10 * SECOND).await;
    assert!(look(&mut waiter).await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_wakes_waiters() {
    let (gate, _) = gate(1, 8);
    let _held = gate.try_enter(Priority::Newcomer).unwrap();
    let mut waiter = pin!(gate.enter(Priority::Newcomer, far()));
    assert!(look(&mut waiter).await.is_none());
    gate.set(config::Gate { max_in_flight: 2, queue: 8, queue_wait: SECOND });
    assert!(look(&mut waiter).await.unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_permit_and_no_place_is_lost_under_load() {
    let (gate, _) = gate(3, 16);
    let running = Arc::new(AtomicU32::new(0));
    let entered = Arc::new(AtomicU32::new(0));
    let mut calls = JoinSet::new();
    for seed in 0..64 {
        let (gate, running, entered) = (gate.clone(), running.clone(), entered.clone());
        calls.spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            for _ in 0..300 {
                let priority = if random.u8(..4) == 0 { Priority::Returning } else { Priority::Newcomer };
                let mut entering = pin!(gate.enter(priority, far()));
                let patience = random.u32(..12);
                let mut outcome = None;
                for _ in 0..=patience {
                    outcome = look(&mut entering).await;
                    if outcome.is_some() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                let Some(Ok(_permit)) = outcome else { continue };
                entered.fetch_add(1, Ordering::Relaxed);
                assert!(running.fetch_add(1, Ordering::SeqCst) < 3, "more run than may");
                if random.bool() {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    assert!(entered.load(Ordering::Relaxed) > 300, "hardly anybody came in");
    assert_eq!(counts(&gate), (0, 0));
    let all: Vec<_> = std::iter::from_fn(|| gate.try_enter(Priority::Newcomer)).collect();
    assert_eq!(all.len(), 3);
}

type Entering = Pin<Box<dyn Future<Output = Result<Permit, GateRefusal>>>>;

/// Any interleaving of arrivals, polls, cancels, ends, timeouts and new limits, step by step: what is in flight is
/// what is held, by a call or by a waiter that has not looked yet, and nobody waits while a permit is free.
#[tokio::test(start_paused = true)]
async fn permits_are_conserved_through_any_interleaving() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (gate, _) = gate(random.u32(1..4), 6);
        let (mut limit, mut entering, mut held) = (gate.snapshot().limit, Vec::<Entering>::new(), Vec::new());
        for step in 0..120 {
            match random.u8(..10) {
                0..=2 => {
                    let priority = if random.bool() { Priority::Newcomer } else { Priority::Returning };
                    let gate = gate.clone();
                    let until = clock::now() + Duration::from_millis(random.u64(1..4000));
                    entering.push(Box::pin(async move { gate.enter(priority, until).await }));
                }
                3..=5 if !entering.is_empty() => {
                    let at = random.usize(..entering.len());
                    if let Some(entered) = look(&mut entering[at].as_mut()).await {
                        drop(entering.swap_remove(at));
                        held.extend(entered.ok());
                    }
                }
                // A client leaves, whether or not its place was granted by now.
                6 if !entering.is_empty() => drop(entering.swap_remove(random.usize(..entering.len()))),
                7 if !held.is_empty() => drop(held.swap_remove(random.usize(..held.len()))),
                8 => tokio::time::advance(Duration::from_millis(random.u64(..1500))).await,
                9 if random.u8(..4) == 0 => {
                    limit = random.u32(0..5);
                    gate.set(config::Gate { max_in_flight: limit, queue: 6, queue_wait: 2 * SECOND });
                }
                _ => {}
            }
            let page = gate.snapshot();
            let (in_flight, waiting) = (page.in_flight as usize, page.queue as usize);
            assert!(in_flight >= held.len(), "seed {seed}, step {step}: a permit was made from nothing");
            assert!(
                in_flight + waiting <= held.len() + entering.len(),
                "seed {seed}, step {step}: a place was lost"
            );
            assert!(
                waiting == 0 || page.in_flight >= limit,
                "seed {seed}, step {step}: a free permit and a waiter"
            );
        }
        drop((entering, held));
        assert_eq!(counts(&gate), (0, 0), "seed {seed}");
    }
}
