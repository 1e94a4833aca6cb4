//! What a route can be expected to do by its own configuration when its first choice fails, and how long that can
//! take. Pure: it looks at settings and at nothing else.

use std::time::Duration;

use sluice_core::breaker::{Breaker, RateRule, Settings};
use sluice_core::facts::BreakerState;

use super::order::{Form, Scenario};
use crate::clock;
use crate::config::{self, CommitRule, MinBudget, Route, RouteTarget};

/// Start of a gateway with its plugins, warm-up, looking around afterwards.
const AROUND: Duration = Duration::from_secs(3);
/// A round of calls that are answered.
const ANSWERED: Duration = Duration::from_millis(60);
/// For calls that meet silence which nothing ends for the others.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What calls are to end as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Each with a whole answer: another target can serve.
    Served,
    /// With a whole answer or an error that is told as one; why another target cannot serve.
    Clean(String),
}

/// The task under which a route is drilled: that of its first target, where that is kept for some.
pub fn task(route: &Route) -> Option<&str> {
    route.targets.first()?.tasks.as_ref()?.first().map(String::as_str)
}

/// Whether a target serves the calls of the drill at all.
pub fn fits(target: &RouteTarget, task: Option<&str>) -> bool {
    target.tasks.as_ref().is_none_or(|tasks| task.is_some_and(|task| tasks.iter().any(|known| known == task)))
}

/// What to expect of a route whose target `failing` fails in this way.
pub fn expect(scenario: Scenario, form: Form, route: &Route, failing: &str) -> Expect {
    if scenario == Scenario::Healthy {
        return Expect::Served;
    }
    let others: Vec<&RouteTarget> = others(route, failing).collect();
    let why = if others.is_empty() {
        "there is no other target".to_owned()
    } else if route.max_switches == 0 {
        "max_switches is 0".to_owned()
    } else if scenario == Scenario::Cut && form == Form::Stream && route.commit == CommitRule::FirstContent {
        "after the first content nothing can replace an answer".to_owned()
    } else if scenario == Scenario::Slow
        && let Some(limit) = limit(form, route, failing)
        && limit + others.iter().map(|other| floor(other)).max().unwrap_or_default() > time_to_try(route)
    {
        format!(
            "the limit of {failing} ({}) leaves no time for another in a budget of {}",
            humantime::format_duration(limit),
            humantime::format_duration(route.budget)
        )
    } else {
        return Expect::Served;
    };
    Expect::Clean(why)
}

fn others<'a>(route: &'a Route, failing: &'a str) -> impl Iterator<Item = &'a RouteTarget> {
    let task = task(route);
    route.targets.iter().filter(move |target| *target.target.key != *failing && fits(target, task))
}

fn floor(target: &RouteTarget) -> Duration {
    match target.min_budget {
        MinBudget::Fixed(time) | MinBudget::P95 { floor: time } => time,
    }
}

fn time_to_try(route: &Route) -> Duration {
    route.budget - route.reserve.min(route.budget / 4)
}

/// After how long of silence a target is left for another.
fn limit(form: Form, route: &Route, target: &str) -> Option<Duration> {
    let target = route.targets.iter().find(|known| *known.target.key == *target)?;
    Some(if form == Form::Stream { target.first_content.min(target.attempt) } else { target.attempt })
}

/// Most attempts of one call: what the targets that may be tried allow, each with its retries and credentials.
pub fn attempts_max(route: &Route) -> usize {
    let retries = (route.retry.upstream + route.retry.rate_limit) as usize;
    let of = |target: &RouteTarget| 1 + retries + target.target.upstream.credentials.len().saturating_sub(1);
    let mut each: Vec<usize> = route.targets.iter().map(of).collect();
    each.sort_unstable_by(|a, b| b.cmp(a));
    each.iter().take(1 + route.max_switches as usize).sum()
}

/// How many counted failures in a row open a breaker that has just seen so many successes; none: not within `most`.
pub fn opens_after(breaker: &config::Breaker, successes: usize, most: usize) -> Option<usize> {
    let rate = breaker.rate.map(|rate| RateRule { window: rate.window, min: rate.min, ratio: rate.ratio });
    let settings =
        Settings { consecutive: breaker.consecutive, rate, open: breaker.open, open_max: breaker.open_max };
    let (mut model, now) = (Breaker::new(settings), clock::now());
    let mut one = |lesson| {
        let (ticket, _) = model.admit(now).ok()?;
        model.settle(ticket, lesson, now, 1.0);
        Some(model.facts().state)
    };
    for _ in 0..successes {
        one(sluice_core::breaker::Lesson::Success)?;
    }
    (1..=most).find(|_| one(sluice_core::breaker::Lesson::Failure) == Some(BreakerState::Open))
}

/// How many calls are made in a scenario. Where silence costs each of them its wait, because no breaker spares the
/// later ones, no more than wait within a minute.
pub fn calls(
    scenario: Scenario,
    form: Form,
    route: &Route,
    breaker: &config::Breaker,
    (requests, concurrency): (usize, usize),
) -> usize {
    let Some(silence) = silence(form, route, breaker, (requests, concurrency)) else { return requests };
    if scenario != Scenario::Slow || silence.spared {
        return requests;
    }
    let rounds = SILENCE_MAX.as_millis() / silence.wait.as_millis().max(1);
    requests.min(concurrency.saturating_mul(usize::try_from(rounds).unwrap_or(usize::MAX).max(1)))
}

/// What silence of the first target comes to.
struct Silence {
    /// How long whoever meets it waits.
    wait: Duration,
    /// Calls that meet it before a breaker opens.
    meet: usize,
    /// A breaker opens, and spares the others.
    spared: bool,
}

fn silence(
    form: Form,
    route: &Route,
    breaker: &config::Breaker,
    (requests, concurrency): (usize, usize),
) -> Option<Silence> {
    let first = route.targets.iter().find(|target| fits(target, task(route)))?;
    let own = limit(form, route, &first.target.key)?;
    let served = expect(Scenario::Slow, form, route, &first.target.key) == Expect::Served;
    // A deadline that comes before its own limit blames nobody.
    let opens = opens_after(breaker, concurrency, requests).filter(|_| own <= time_to_try(route));
    Some(Silence {
        wait: if served { own } else { route.budget },
        meet: opens.unwrap_or(requests),
        spared: opens.is_some(),
    })
}

/// The most that one scenario can take on a machine that has the time.
pub fn at_most(
    scenario: Scenario,
    form: Form,
    route: &Route,
    breaker: &config::Breaker,
    much: (usize, usize),
) -> Duration {
    let rounds = |calls: usize| u32::try_from(calls.div_ceil(much.1)).unwrap_or(u32::MAX);
    let all = rounds(calls(scenario, form, route, breaker, much));
    // A rate limit without a hint is never sat out.
    let pauses = route.retry.backoff_max * route.retry.upstream;
    match (scenario, silence(form, route, breaker, much)) {
        (Scenario::Healthy, _) | (_, None) => AROUND + ANSWERED * all,
        (Scenario::Slow, Some(silence)) => {
            // Once more whoever probes.
            let waits = rounds(silence.meet).saturating_add(1).min(all);
            AROUND + ANSWERED * all + (silence.wait + pauses) * waits
        }
        _ => AROUND + (ANSWERED + pauses) * all,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn config(route: &str, top: &str) -> Config {
        let text = format!(
            "upstreams: {{ a: {{ base_url: 'http://h', credentials: ['env:A', 'env:B'], models: {{ m: {{}}, n: {{}} }} }} }}\n\
             routes: {{ r: {{ {route} }} }}\n{top}\n"
        );
        config::parse(&text, Path::new("c.yaml"), &|name| Some(name.to_owned())).unwrap().config
    }

    #[test]
    fn another_target_is_expected_to_serve_only_where_the_configuration_lets_it() {
        use Form::{Plain, Stream};
        use Scenario::{Cut, Healthy, RateLimited, Slow, Unavailable};
        let two = "targets: [a/m, a/n]";
        let short = "targets: [a/m, a/n], budget: 30s, first_content: 3s";
        let whole = "targets: [a/m, a/n], commit: complete";
        for (route, scenario, form, served) in [
            (two, Unavailable, Stream, true),
            (two, RateLimited, Plain, true),
            (two, Slow, Stream, true),
            (two, Slow, Plain, true),
            (two, Cut, Plain, true),
            (two, Cut, Stream, false),
            (whole, Cut, Stream, true),
            (short, Slow, Stream, true),
            (short, Slow, Plain, false),
            ("targets: [a/m, a/n], budget: 60s, attempt: 59s", Slow, Plain, true),
            ("targets: [a/m, a/n], budget: 60s, attempt: 59500ms", Slow, Plain, false),
            ("targets: [a/m]", Unavailable, Stream, false),
            ("targets: [a/m]", Healthy, Stream, true),
            ("targets: [a/m, a/n], max_switches: 0", Unavailable, Plain, false),
            ("targets: [a/m, { target: a/n, tasks: [t] }]", Unavailable, Plain, false),
            (
                "targets: [{ target: a/m, tasks: [t] }, { target: a/n, tasks: [u, t] }]",
                Unavailable,
                Plain,
                true,
            ),
        ] {
            let config = config(route, "");
            let got = expect(scenario, form, &config.routes["r"], "a/m");
            assert_eq!(got == Expect::Served, served, "{route} {scenario} {form:?}: {got:?}");
        }
    }

    #[test]
    fn a_breaker_is_expected_to_open_when_it_does() {
        for (top, successes, opens) in [
            ("", 10, Some(3)),
            ("breaker: { consecutive: 1 }", 0, Some(1)),
            ("breaker: { consecutive: 1000 }", 0, Some(10)),
            ("breaker: { consecutive: 1000 }", 10, Some(10)),
            ("breaker: { consecutive: 1000, rate: { enabled: false } }", 0, None),
        ] {
            assert_eq!(opens_after(&config("targets: [a/m]", top).breaker, successes, 100), opens, "{top}");
        }
    }

    #[test]
    fn attempts_are_bounded_by_switches_retries_and_credentials() {
        for (route, most) in [
            ("targets: [a/m]", 3),
            ("targets: [a/m, a/n]", 6),
            ("targets: [a/m, a/n], max_switches: 0", 3),
            ("targets: [a/m, a/n], retry: { upstream: 2, rate_limit: 0 }", 8),
        ] {
            assert_eq!(attempts_max(&config(route, "").routes["r"]), most, "{route}");
        }
    }

    #[test]
    fn silence_takes_as_long_as_the_limits_of_those_who_meet_it() {
        let off = "breaker: { consecutive: 1000, rate: { enabled: false } }";
        let two = "targets: [a/m, a/n]";
        for (route, top, form, count, secs) in [
            (two, "", Form::Stream, 100, 63),
            (two, "", Form::Plain, 100, 123),
            ("targets: [a/m]", "", Form::Plain, 100, 243),
            (two, off, Form::Plain, 10, 63),
            (two, off, Form::Stream, 20, 63),
            ("targets: [a/m, a/n], budget: 30s", "", Form::Plain, 20, 63),
            ("targets: [a/m], budget: 2s", "", Form::Plain, 100, 23),
            ("targets: [a/m], budget: 10m", "", Form::Plain, 100, 1203),
        ] {
            let config = config(route, top);
            let (route_, breaker) = (&config.routes["r"], &config.breaker);
            assert_eq!(calls(Scenario::Slow, form, route_, breaker, (100, 10)), count, "{route} {form:?}");
            let most = at_most(Scenario::Slow, form, route_, breaker, (100, 10));
            assert_eq!(most.as_secs(), secs, "{route} {form:?}");
            assert_eq!(calls(Scenario::Cut, form, route_, breaker, (100, 10)), 100);
        }
    }
}
