#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::kind::FailureKind;
use crate::retry_budget::{RetryBudget, Settings};
use crate::verdict::BreakerEffect;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A failure, as the test knows it: which attempt or refusal it was, and what it means.
#[derive(Debug, Clone)]
struct Failure(usize, Verdict);

impl AsRef<Verdict> for Failure {
    fn as_ref(&self) -> &Verdict {
        &self.1
    }
}

/// Something that happens. What the request's state has no transition for cannot happen to it, and passes.
#[derive(Debug, Clone)]
enum Event {
    Chosen(Option<usize>),
    Granted { own: u64 },
    Skipped(World),
    Saturated(World),
    Failed(FailureKind, Action, World),
    Clock(World),
    Commits,
    PauseOver,
    ClientLeft,
    Wait(u64),
}

/// The part of an outlook that the request does not decide, and whether others empty the retry budget between
/// the look and the payment.
#[derive(Debug, Clone)]
struct World {
    outlook: Outlook,
    emptied: bool,
}

enum State {
    Choosing(Choosing<Failure>),
    Entering(Entering<Failure>),
    Attempting(Attempting<Failure>),
    Pausing(Pausing<Failure>),
    Committed,
    Ended,
}

/// What was seen from outside, counted without a look into the machine.
struct Seen {
    rules: Rules,
    deadline: Instant,
    ends: u32,
    switches: u32,
    attempts: u32,
    credential_retries: u32,
    chosen: Vec<usize>,
    /// Of the running stay.
    retries: RetriesLeft,
    /// Failures so far.
    failures: usize,
    paid: u32,
    asked_to_pay: u32,
}

impl Seen {
    fn end(&mut self) -> State {
        self.ends += 1;
        State::Ended
    }

    /// What a failure led to, held against what is allowed.
    fn after(
        &mut self,
        after: After<Failure>,
        kind: FailureKind,
        world: &World,
        now: Instant,
        paid: Option<bool>,
    ) -> State {
        let takes = decide::takes_from_budget(kind);
        let left = self.deadline.saturating_duration_since(now);
        self.asked_to_pay += u32::from(paid.is_some());
        self.paid += u32::from(paid == Some(true));
        match after {
            After::Retry(pausing) => {
                assert_eq!(
                    paid,
                    takes.then_some(true),
                    "a retry is paid for when its kind takes from the budget"
                );
                assert!(pausing.pause() < left, "a pause that the deadline cuts short");
                assert!(world.outlook.may_wait || pausing.pause().is_zero(), "a wait where there is none");
                assert_eq!(pausing.failure().0, self.failures);
                match pausing.paid_by() {
                    RetryAllowance::Credential => {
                        assert!(world.outlook.other_credential && pausing.pause().is_zero());
                        self.credential_retries += 1;
                    }
                    RetryAllowance::RateLimit => {
                        assert!(pausing.pause() <= self.rules.wait_max);
                        self.retries.rate_limit += 1;
                    }
                    RetryAllowance::Upstream => self.retries.upstream += 1,
                }
                let Rules { retries, .. } = self.rules;
                assert!(
                    self.retries.rate_limit <= retries.rate_limit
                        && self.retries.upstream <= retries.upstream
                );
                State::Pausing(pausing)
            }
            After::Switch(to) => {
                assert_eq!(paid, takes.then_some(true), "a switch is paid for");
                assert!(world.outlook.next, "a switch needs somewhere to go");
                assert_eq!(to.course().last().unwrap().0, self.failures);
                self.switches += 1;
                assert!(self.switches <= self.rules.max_switches, "{} switches", self.switches);
                State::Choosing(to)
            }
            After::Skip(to) => {
                assert_eq!((paid, self.retries), (None, RetriesLeft::default()));
                State::Choosing(to)
            }
            After::End { failure, budget_denied } => {
                assert_eq!(failure.0, self.failures, "the last failure is the last word");
                assert!(paid != Some(true), "an end costs nothing");
                assert!(!budget_denied || paid == Some(false) || (takes && !world.outlook.budget_allows));
                self.end()
            }
        }
    }
}

fn world() -> impl Strategy<Value = World> {
    let likely = || prop::bool::weighted(0.9);
    let world = (any::<bool>(), likely(), likely(), likely(), 0.0_f64..=1.0, prop::bool::weighted(0.1));
    world.prop_map(|(other_credential, budget_allows, may_wait, next, random, emptied)| World {
        outlook: Outlook { other_credential, budget_allows, may_wait, next, random },
        emptied,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let action = prop_oneof![
        1 => Just(Action::GiveUp),
        4 => Just(Action::Switch),
        10 => prop::option::weighted(0.8, 0_u64..600).prop_map(|wait| Action::RetrySame(wait.map(ms))),
    ];
    let kind = prop_oneof![
        3 => Just(FailureKind::RetryableUpstream),
        3 => Just(FailureKind::RetryableRateLimit),
        2 => select(FailureKind::ALL),
    ];
    prop_oneof![
        20 => prop::option::weighted(0.97, 0_usize..6).prop_map(Event::Chosen),
        30 => (0_u64..4000).prop_map(|own| Event::Granted { own }),
        2 => world().prop_map(Event::Skipped),
        2 => world().prop_map(Event::Saturated),
        30 => (kind, action, world()).prop_map(|(kind, action, world)| Event::Failed(kind, action, world)),
        4 => world().prop_map(Event::Clock),
        2 => Just(Event::Commits),
        30 => Just(Event::PauseOver),
        1 => Just(Event::ClientLeft),
        4 => (0_u64..900).prop_map(Event::Wait),
    ]
}

fn rules() -> impl Strategy<Value = Rules> {
    (0_u32..4, 0_u32..3, 0_u32..3, 100_u64..2500).prop_map(|(max_switches, rate_limit, upstream, wait)| {
        Rules {
            max_switches,
            retries: RetriesLeft { rate_limit, upstream },
            wait_max: ms(wait),
            backoff: ms(100),
            backoff_max: ms(500),
        }
    })
}

fn verdict(kind: FailureKind, action: Action) -> Verdict {
    Verdict { kind, action, breaker: BreakerEffect::Ignore, cool_down: None, client_status: None }
}

/// Lets one thing happen.
fn step(state: State, event: &Event, seen: &mut Seen, now: &mut Instant, budget: &mut RetryBudget) -> State {
    let paid = std::cell::Cell::new(None);
    let mut pay = |world: &World| {
        while world.emptied && budget.take(*now) {}
        let taken = budget.take(*now);
        paid.set(Some(taken));
        taken
    };
    match (state, event) {
        (state @ (State::Ended | State::Committed), Event::ClientLeft) => state,
        (_, Event::ClientLeft) => seen.end(),
        (State::Choosing(choosing), Event::Chosen(position)) => match choosing.choose(*position) {
            Ok(entering) => {
                assert!(!seen.chosen.contains(&entering.position()), "a target is chosen twice");
                assert!(!entering.course().is_untried(entering.position()));
                seen.chosen.push(entering.position());
                seen.retries = RetriesLeft::default();
                State::Entering(entering)
            }
            Err(_) => seen.end(),
        },
        (State::Entering(entering), Event::Granted { own }) => match entering.granted(*now, ms(*own), None) {
            Some(attempting) => {
                assert!(*now < seen.deadline, "an attempt past the deadline");
                seen.attempts += 1;
                State::Attempting(attempting)
            }
            None => {
                assert!(*now >= seen.deadline);
                seen.end()
            }
        },
        (State::Entering(entering), Event::Skipped(world)) => {
            let kind = entering.course().last().map(|failure| failure.1.kind);
            let after = entering.skipped(*now, &world.outlook, || pay(world));
            seen.after(after, kind.unwrap_or(FailureKind::GatewaySaturated), world, *now, paid.get())
        }
        (State::Entering(entering), Event::Saturated(world)) => {
            seen.failures += 1;
            let kind = FailureKind::GatewaySaturated;
            let failure = Failure(seen.failures, verdict(kind, Action::Switch));
            let after = entering.refused(*now, failure, &world.outlook, || pay(world));
            seen.after(after, kind, world, *now, paid.get())
        }
        (State::Attempting(attempting), Event::Failed(kind, action, world)) => {
            seen.failures += 1;
            let failure = Failure(seen.failures, verdict(*kind, *action));
            let after = attempting.failed(*now, failure, &world.outlook, || pay(world));
            seen.after(after, *kind, world, *now, paid.get())
        }
        (State::Attempting(attempting), Event::Clock(world)) => {
            *now = attempting.fires(*now, false).max(*now);
            assert!(*now <= seen.deadline.max(*now));
            let could =
                seen.switches < seen.rules.max_switches && world.outlook.budget_allows && world.outlook.next;
            match attempting.out_of_time(*now, false, || world.outlook) {
                Some(OutOfTime { by_deadline: true, .. }) => {
                    assert!(*now >= seen.deadline);
                    seen.end()
                }
                Some(OutOfTime { by_deadline: false, limit_over }) => {
                    assert!(*now < seen.deadline && limit_over && could, "cut off with nowhere to go");
                    State::Attempting(attempting)
                }
                None => {
                    assert!(*now < seen.deadline && !could, "it could have been replaced");
                    State::Attempting(attempting)
                }
            }
        }
        (State::Attempting(attempting), Event::Commits) => {
            attempting.commits();
            seen.ends += 1;
            State::Committed
        }
        (State::Pausing(pausing), Event::PauseOver) => {
            *now += pausing.pause();
            State::Entering(pausing.over())
        }
        (state, Event::Wait(wait)) => {
            *now += ms(*wait);
            state
        }
        (state, _) => state,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]
    #[test]
    fn any_order_of_events_ends_once_within_every_allowance(
        rules in rules(), targets in 0_usize..6, total in 1_u64..20_000, floor in 0_u32..5,
        events in prop::collection::vec(event(), 0..200),
    ) {
        let start = Instant::now();
        let time = Budget::new(start, ms(total), ms(300), None);
        let settings = Settings { ratio: 0.0, min_per_second: floor, window: ms(10_000) };
        let mut budget = RetryBudget::new(settings, start);
        let mut now = start;
        let mut seen = Seen {
            rules, deadline: time.deadline(), ends: 0, switches: 0, attempts: 0, credential_retries: 0,
            chosen: Vec::new(), retries: RetriesLeft::default(), failures: 0, paid: 0, asked_to_pay: 0,
        };
        let mut state = State::Choosing(Choosing::new(time, rules, targets));
        for event in &events {
            let (attempts, over) = (seen.attempts, matches!(state, State::Committed | State::Ended));
            state = step(state, event, &mut seen, &mut now, &mut budget);
            prop_assert!(!over || (seen.attempts == attempts && matches!(state, State::Committed | State::Ended)));
            prop_assert_eq!(seen.ends, u32::from(matches!(state, State::Committed | State::Ended)));
        }
        // Whoever is left when nothing more happens leaves.
        if !matches!(state, State::Committed) {
            state = step(state, &Event::ClientLeft, &mut seen, &mut now, &mut budget);
        }
        prop_assert!(matches!(state, State::Committed | State::Ended));
        prop_assert_eq!(seen.ends, 1, "ended exactly once");
        let stays = u32::try_from(seen.chosen.len()).unwrap();
        let per_stay = 1 + rules.retries.rate_limit + rules.retries.upstream;
        prop_assert!(seen.attempts <= stays * per_stay + seen.credential_retries, "{} attempts", seen.attempts);
        prop_assert!(seen.chosen.iter().all(|position| *position < targets));
        prop_assert!(seen.paid <= floor * 10, "the retry budget is exceeded");
    }
}

fn course(retries: u32) -> (Budget, Choosing<Failure>) {
    let budget = Budget::new(Instant::now(), ms(8000), ms(300), None);
    let rules = Rules {
        max_switches: 1,
        retries: RetriesLeft { rate_limit: 0, upstream: retries },
        wait_max: ms(1000),
        backoff: ms(100),
        backoff_max: ms(500),
    };
    (budget, Choosing::new(budget, rules, 2))
}

const AHEAD: Outlook =
    Outlook { other_credential: false, budget_allows: true, may_wait: true, next: true, random: 1.0 };

fn broken() -> Failure {
    Failure(1, verdict(FailureKind::RetryableUpstream, Action::RetrySame(None)))
}

#[test]
fn a_retry_that_finds_its_target_refusing_becomes_the_switch_it_stood_for() {
    let (budget, choosing) = course(1);
    let now = budget.arrival();
    let attempting = choosing.choose(Some(0)).unwrap().granted(now, ms(1000), None).unwrap();
    let After::Retry(pausing) = attempting.failed(now, broken(), &AHEAD, || true) else { panic!("no retry") };
    assert_eq!(pausing.pause(), ms(100));
    let after = pausing.over().skipped(now, &AHEAD, || true);
    let After::Switch(to) = after else { panic!("no switch") };
    let attempting = to.choose(Some(1)).unwrap().granted(now, ms(1000), None).unwrap();
    let after = attempting.failed(now, broken(), &AHEAD, || true);
    assert!(matches!(after, After::Retry(_)), "another target has retries of its own");
}

#[test]
fn a_target_that_refuses_before_anything_was_tried_costs_nothing() {
    let (budget, choosing) = course(0);
    let entering = choosing.choose(Some(0)).unwrap();
    let After::Skip(to) = entering.skipped(budget.arrival(), &AHEAD, || panic!("nothing to pay")) else {
        panic!("no skip")
    };
    let attempting = to.choose(Some(1)).unwrap().granted(budget.arrival(), ms(1000), None).unwrap();
    assert!(matches!(attempting.failed(budget.arrival(), broken(), &AHEAD, || true), After::Switch(_)));
}

#[test]
fn a_retry_budget_that_others_emptied_meanwhile_is_not_overdrawn() {
    let (budget, choosing) = course(0);
    let attempting = choosing.choose(Some(0)).unwrap().granted(budget.arrival(), ms(1000), None).unwrap();
    let after = attempting.failed(budget.arrival(), broken(), &AHEAD, || false);
    assert!(matches!(after, After::End { budget_denied: true, .. }));
}

#[test]
fn with_nobody_left_the_last_failure_is_told() {
    let (budget, choosing) = course(0);
    assert!(matches!(course(0).1.choose(None), Err(None)));
    let attempting = choosing.choose(Some(0)).unwrap().granted(budget.arrival(), ms(1000), None).unwrap();
    let After::Switch(to) = attempting.failed(budget.arrival(), broken(), &AHEAD, || true) else {
        panic!("no switch")
    };
    assert!(
        matches!(to.choose(Some(0)), Err(Some(Failure(1, _)))),
        "a target that was left is not gone back to"
    );
}
