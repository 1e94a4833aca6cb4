//! The machine against whoever counts from outside what it does: whatever happens in whatever order, a request ends
//! once, and within every allowance.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test may panic")]

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::kind::FailureKind;
use crate::retry_budget::{RetryBudget, Settings};
use crate::verdict::BreakerEffect;

pub(super) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) fn verdict(kind: FailureKind, action: Action) -> Verdict {
    Verdict { kind, action, breaker: BreakerEffect::Ignore, cool_down: None, client_status: None }
}

/// A failure, as the test knows it: which attempt or refusal it was, and what it means.
#[derive(Debug, Clone)]
pub(super) struct Failure(pub usize, pub Verdict);

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

/// The time, the retry budget, and what was seen from outside, counted without a look into the machine.
struct Seen {
    now: Instant,
    budget: RetryBudget,
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
}

impl Seen {
    fn end(&mut self) -> State {
        self.ends += 1;
        State::Ended
    }

    fn fails(&mut self, kind: FailureKind, action: Action) -> Failure {
        self.failures += 1;
        Failure(self.failures, verdict(kind, action))
    }

    /// Lets a target be left, or kept, after a failure of this kind. `leave` is given the time, the outlook and
    /// what there is to pay with.
    fn leaves(
        &mut self,
        kind: FailureKind,
        world: &World,
        leave: impl FnOnce(Instant, &Outlook, &mut dyn FnMut() -> bool) -> After<Failure>,
    ) -> State {
        let (now, budget, mut paid) = (self.now, &mut self.budget, None);
        let mut pay = || {
            while world.emptied && budget.take(now) {}
            *paid.insert(budget.take(now))
        };
        let after = leave(now, &world.outlook, &mut pay);
        self.paid += u32::from(paid == Some(true));
        self.after(after, kind, world, paid)
    }

    /// What a failure led to, held against what is allowed.
    fn after(
        &mut self,
        after: After<Failure>,
        kind: FailureKind,
        world: &World,
        paid: Option<bool>,
    ) -> State {
        let takes = decide::takes_from_budget(kind);
        let left = self.deadline.saturating_duration_since(self.now);
        match after {
            After::Retry(pausing) => {
                let due = takes.then_some(true);
                assert_eq!(paid, due, "a retry is paid for when its kind takes from the budget");
                assert!(pausing.pause() < left, "a pause that the deadline cuts short");
                assert!(world.outlook.may_wait || pausing.pause().is_zero(), "a wait where there is none");
                self.retries(pausing, world)
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

    fn retries(&mut self, pausing: Pausing<Failure>, world: &World) -> State {
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
        let allowed = self.rules.retries;
        assert!(self.retries.rate_limit <= allowed.rate_limit && self.retries.upstream <= allowed.upstream);
        State::Pausing(pausing)
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

/// Lets one thing happen.
fn step(state: State, event: &Event, seen: &mut Seen) -> State {
    match (state, event) {
        (state @ (State::Ended | State::Committed), Event::ClientLeft) => state,
        (_, Event::ClientLeft) => seen.end(),
        (state, Event::Wait(wait)) => {
            seen.now += ms(*wait);
            state
        }
        (State::Choosing(choosing), event) => choosing_step(choosing, event, seen),
        (State::Entering(entering), event) => entering_step(entering, event, seen),
        (State::Attempting(attempting), event) => attempting_step(attempting, event, seen),
        (State::Pausing(pausing), Event::PauseOver) => {
            seen.now += pausing.pause();
            State::Entering(pausing.over())
        }
        (state @ (State::Pausing(_) | State::Ended | State::Committed), _) => state,
    }
}

fn choosing_step(choosing: Choosing<Failure>, event: &Event, seen: &mut Seen) -> State {
    let Event::Chosen(position) = event else { return State::Choosing(choosing) };
    match choosing.choose(*position) {
        Ok(entering) => {
            assert!(!seen.chosen.contains(&entering.position()), "a target is chosen twice");
            assert!(!entering.course().is_untried(entering.position()));
            seen.chosen.push(entering.position());
            seen.retries = RetriesLeft::default();
            State::Entering(entering)
        }
        Err(_) => seen.end(),
    }
}

fn entering_step(entering: Entering<Failure>, event: &Event, seen: &mut Seen) -> State {
    match event {
        Event::Granted { own } => match entering.granted(seen.now, ms(*own), None) {
            Some(attempting) => {
                assert!(seen.now < seen.deadline, "an attempt past the deadline");
                seen.attempts += 1;
                State::Attempting(attempting)
            }
            None => {
                assert!(seen.now >= seen.deadline);
                seen.end()
            }
        },
        Event::Skipped(world) => {
            let kind = entering.course().last().map(|failure| failure.1.kind);
            seen.leaves(kind.unwrap_or(FailureKind::GatewaySaturated), world, |now, outlook, pay| {
                entering.skipped(now, outlook, pay)
            })
        }
        Event::Saturated(world) => {
            let kind = FailureKind::GatewaySaturated;
            let failure = seen.fails(kind, Action::Switch);
            seen.leaves(kind, world, |now, outlook, pay| entering.refused(now, failure, outlook, pay))
        }
        _ => State::Entering(entering),
    }
}

fn attempting_step(attempting: Attempting<Failure>, event: &Event, seen: &mut Seen) -> State {
    match event {
        Event::Failed(kind, action, world) => {
            let failure = seen.fails(*kind, *action);
            seen.leaves(*kind, world, |now, outlook, pay| attempting.failed(now, failure, outlook, pay))
        }
        Event::Clock(world) => clock_step(attempting, world, seen),
        Event::Commits => {
            attempting.commits();
            seen.ends += 1;
            State::Committed
        }
        _ => State::Attempting(attempting),
    }
}

/// The next clock of the attempt fires.
fn clock_step(attempting: Attempting<Failure>, world: &World, seen: &mut Seen) -> State {
    let fires = attempting.fires(seen.now, false);
    assert!(fires <= seen.deadline, "a clock that fires past the deadline");
    assert!(fires > seen.now || fires == seen.deadline, "a limit that fires again");
    seen.now = fires.max(seen.now);
    let could = seen.switches < seen.rules.max_switches && world.outlook.budget_allows && world.outlook.next;
    match attempting.out_of_time(seen.now, false, || world.outlook) {
        Some(OutOfTime { by_deadline: true, .. }) => {
            assert!(seen.now >= seen.deadline);
            seen.end()
        }
        Some(OutOfTime { by_deadline: false, limit_over }) => {
            assert!(seen.now < seen.deadline && limit_over && could, "cut off with nowhere to go");
            State::Attempting(attempting)
        }
        None => {
            assert!(seen.now < seen.deadline && !could, "it could have been replaced");
            State::Attempting(attempting)
        }
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
        let mut seen = Seen {
            now: start, budget: RetryBudget::new(settings, start), rules, deadline: time.deadline(), ends: 0,
            switches: 0, attempts: 0, credential_retries: 0, chosen: Vec::new(), retries: RetriesLeft::default(),
            failures: 0, paid: 0,
        };
        let mut state = State::Choosing(Choosing::new(time, rules, targets));
        for event in &events {
            let (attempts, over) = (seen.attempts, matches!(state, State::Committed | State::Ended));
            state = step(state, event, &mut seen);
            prop_assert!(!over || (seen.attempts == attempts && matches!(state, State::Committed | State::Ended)));
            prop_assert_eq!(seen.ends, u32::from(matches!(state, State::Committed | State::Ended)));
        }
        // Whoever is left when nothing more happens leaves.
        if !matches!(state, State::Committed) {
            state = step(state, &Event::ClientLeft, &mut seen);
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
