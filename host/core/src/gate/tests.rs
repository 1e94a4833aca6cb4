#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use proptest::prelude::*;

use super::*;

fn gate(max_in_flight: u32, queue: u32) -> Gate<&'static str> {
    Gate::new(Limits { max_in_flight, queue })
}

#[test]
fn returning_calls_go_ahead_of_newcomers_and_each_line_is_fifo() {
    let mut gate = gate(1, 8);
    assert!(gate.try_enter(Priority::Newcomer));
    let mut ids = Vec::new();
    for (priority, name) in
        [(Priority::Newcomer, "n1"), (Priority::Newcomer, "n2"), (Priority::Returning, "r1")]
    {
        assert!(!gate.try_enter(priority));
        ids.push(gate.enqueue(priority, name).unwrap());
    }
    assert!(!gate.claim(ids[0]), "nothing was granted yet");
    for (name, id) in [("r1", ids[2]), ("n1", ids[0]), ("n2", ids[1])] {
        assert_eq!(gate.leave(), Some(name));
        assert!(gate.claim(id) && !gate.claim(id));
    }
    assert_eq!((gate.leave(), gate.in_flight(), gate.waiting()), (None, 0, 0));
}

#[test]
fn a_free_permit_is_not_taken_past_a_waiter() {
    let mut gate = gate(1, 8);
    assert!(gate.try_enter(Priority::Newcomer));
    gate.enqueue(Priority::Newcomer, "first").unwrap();
    assert_eq!(gate.leave(), Some("first"));
    assert!(!gate.try_enter(Priority::Newcomer), "it is the waiter's, claimed or not");
}

#[test]
fn the_queue_is_bounded_and_a_full_one_turns_no_returning_call_away() {
    let mut gate = gate(1, 2);
    assert!(gate.try_enter(Priority::Newcomer));
    gate.enqueue(Priority::Newcomer, "n1").unwrap();
    gate.enqueue(Priority::Newcomer, "n2").unwrap();
    assert_eq!(gate.enqueue(Priority::Newcomer, "n3"), Err(Full));
    gate.enqueue(Priority::Returning, "r1").unwrap();
    assert_eq!(gate.enqueue(Priority::Returning, "r2"), Err(Full));
    assert_eq!(gate.waiting(), 3);
}

#[test]
fn a_queue_of_none_refuses_at_once() {
    let mut gate = gate(1, 0);
    assert!(gate.try_enter(Priority::Newcomer));
    assert!(!gate.try_enter(Priority::Newcomer));
    assert_eq!(gate.enqueue(Priority::Newcomer, "n1"), Err(Full));
}

#[test]
fn a_cancelled_grant_goes_to_the_next() {
    let mut gate = gate(1, 8);
    assert!(gate.try_enter(Priority::Newcomer));
    let first = gate.enqueue(Priority::Newcomer, "first").unwrap();
    let second = gate.enqueue(Priority::Newcomer, "second").unwrap();
    let third = gate.enqueue(Priority::Newcomer, "third").unwrap();
    assert_eq!(gate.cancel(second), None);
    assert_eq!(gate.leave(), Some("first"));
    assert_eq!(gate.cancel(first), Some("third"));
    assert_eq!((gate.in_flight(), gate.waiting()), (1, 0));
    assert_eq!(gate.cancel(first), None, "a second cancel is nothing");
    assert!(gate.claim(third));
}

#[test]
fn limits_change_in_place() {
    let mut gate = gate(3, 8);
    for _ in 0..3 {
        assert!(gate.try_enter(Priority::Newcomer));
    }
    gate.enqueue(Priority::Newcomer, "n1").unwrap();
    gate.enqueue(Priority::Newcomer, "n2").unwrap();
    assert_eq!(gate.set(Limits { max_in_flight: 1, queue: 8 }), Vec::<&str>::new());
    assert_eq!((gate.leave(), gate.leave()), (None, None), "calls above the limit finish first");
    assert_eq!(gate.in_flight(), 1);
    assert_eq!(
        gate.set(Limits { max_in_flight: 3, queue: 0 }),
        ["n1", "n2"],
        "waiters stay when the queue shrinks"
    );
    assert_eq!(gate.in_flight(), 3);
}

#[derive(Debug, Clone)]
enum Step {
    Arrive(Priority),
    Claim(usize),
    Cancel(usize),
    Leave,
    Set(Limits),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![3 => Just(Priority::Newcomer), 1 => Just(Priority::Returning)];
    prop_oneof![
        6 => priority.prop_map(Step::Arrive),
        3 => (0_usize..16).prop_map(Step::Claim),
        2 => (0_usize..16).prop_map(Step::Cancel),
        4 => Just(Step::Leave),
        1 => (0_u32..5, 0_u32..5).prop_map(|(max_in_flight, queue)| Step::Set(Limits { max_in_flight, queue })),
    ]
}

/// Every call by its own number: where it is, as an outside observer sees it.
#[derive(Default)]
struct Seen {
    running: usize,
    granted: Vec<(u32, WaiterId)>,
    returning: Vec<(u32, WaiterId)>,
    newcomers: Vec<(u32, WaiterId)>,
}

impl Seen {
    /// The one woken must be the head of the lines.
    fn woken(&mut self, call: u32) {
        let line = if self.returning.is_empty() { &mut self.newcomers } else { &mut self.returning };
        assert_eq!(line.first().map(|(first, _)| *first), Some(call), "out of turn");
        self.granted.push(line.remove(0));
    }
}

proptest! {
    #[test]
    fn any_history_keeps_limit_order_and_every_grant(steps in prop::collection::vec(step(), 1..200)) {
        let mut limits = Limits { max_in_flight: 2, queue: 4 };
        let mut gate = Gate::new(limits);
        let mut seen = Seen::default();
        for (call, step) in (0_u32..).zip(steps) {
            let before = gate.in_flight();
            match step {
                Step::Arrive(priority) => {
                    if gate.try_enter(priority) {
                        prop_assert!(seen.returning.is_empty());
                        prop_assert!(priority == Priority::Returning || seen.newcomers.is_empty());
                        seen.running += 1;
                    } else if let Ok(id) = gate.enqueue(priority, call) {
                        match priority {
                            Priority::Newcomer => seen.newcomers.push((call, id)),
                            Priority::Returning => seen.returning.push((call, id)),
                        }
                        prop_assert!(seen.newcomers.len() <= limits.queue as usize || priority == Priority::Returning);
                    }
                }
                Step::Claim(at) if !seen.granted.is_empty() => {
                    let (_, id) = seen.granted.remove(at % seen.granted.len());
                    prop_assert!(gate.claim(id));
                    seen.running += 1;
                }
                Step::Cancel(at) => {
                    let all = [&seen.granted[..], &seen.returning[..], &seen.newcomers[..]].concat();
                    if let Some((call, id)) = all.get(at % all.len().max(1)).copied() {
                        for line in [&mut seen.granted, &mut seen.returning, &mut seen.newcomers] {
                            line.retain(|(waiting, _)| *waiting != call);
                        }
                        if let Some(next) = gate.cancel(id) {
                            seen.woken(next);
                        }
                    }
                }
                Step::Leave if seen.running > 0 => {
                    seen.running -= 1;
                    if let Some(next) = gate.leave() {
                        seen.woken(next);
                    }
                }
                Step::Set(new) => {
                    limits = new;
                    for next in gate.set(new) {
                        seen.woken(next);
                    }
                }
                Step::Claim(_) | Step::Leave => {}
            }
            let waiting = seen.returning.len() + seen.newcomers.len();
            prop_assert_eq!(gate.waiting(), waiting);
            prop_assert_eq!(gate.in_flight() as usize, seen.running + seen.granted.len(), "a permit was lost or made");
            prop_assert!(gate.in_flight() <= limits.max_in_flight.max(before), "above the limit");
            prop_assert!(waiting == 0 || gate.in_flight() >= limits.max_in_flight, "a permit is free and somebody waits");
        }
        for (_, id) in [seen.returning, seen.newcomers].concat() {
            prop_assert_eq!(gate.cancel(id), None);
        }
        for (_, id) in seen.granted {
            prop_assert_eq!(gate.cancel(id), None);
        }
        for _ in 0..seen.running {
            prop_assert_eq!(gate.leave(), None);
        }
        prop_assert_eq!((gate.in_flight(), gate.waiting()), (0, 0));
    }
}
