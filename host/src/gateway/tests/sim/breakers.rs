//! What the breakers did, by what each exchange found of them, and by their counters.

use super::judge::{AT_ONCE, series};
use super::net::Exchange;
use super::*;
use crate::state::Able;
use sluice_core::facts::BreakerState;

/// From the right to an attempt to its request: a connection, and another where a kept one turns out dead.
const ON_ITS_WAY: Duration = CONNECT.saturating_mul(2).saturating_add(AT_ONCE);

/// Everything that is wrong with the breakers.
pub(super) fn all(run: &Run, wrong: &mut Vec<String>) {
    for (upstream, page) in run.targets.iter().enumerate() {
        let name = ["a", "b", "c"][upstream];
        let own: Vec<&Exchange> = run.exchanges.iter().filter(|e| e.upstream == upstream).collect();
        admitted(&own, wrong);
        probes(&own, wrong);
        if page.in_flight > 0 || page.able == (Able::Open { until: None }) {
            wrong.push(format!("{name} is still in use when all is over: {page:?}"));
        }
        turns(run, name, wrong);
    }
    let opened = series(run, "sluice_breaker_transitions_total");
    if opened.iter().all(|(series, turns)| !series.contains("\"open\"") || *turns == 0.0) {
        wrong.push("no breaker opened: the run shows nothing".to_owned());
    }
}

/// Nothing is asked of a target that has failed too often.
fn admitted(exchanges: &[&Exchange], wrong: &mut Vec<String>) {
    for exchange in exchanges {
        let breaker = exchange.breaker;
        let open_for = breaker.opened_at.map(|opened| exchange.begun.saturating_duration_since(opened));
        let late = match breaker.state {
            BreakerState::Closed => breaker.failures >= CONSECUTIVE,
            BreakerState::Open => open_for > Some(ON_ITS_WAY),
            BreakerState::HalfOpen => false,
        };
        if late {
            wrong.push(format!("an exchange that the breaker should have refused: {exchange:?}"));
        }
    }
}

/// A half-open breaker lets one exchange through at a time.
fn probes(exchanges: &[&Exchange], wrong: &mut Vec<String>) {
    // What is asked a second time on another connection was admitted long before.
    let fresh = |exchange: &&&Exchange| {
        let before = exchanges.iter().filter(|other| other.request_id == exchange.request_id);
        !before.into_iter().any(|other| other.redialled && other.begun < exchange.begun)
    };
    let half_open = exchanges.iter().filter(|exchange| exchange.breaker.state == BreakerState::HalfOpen);
    let probes: Vec<&&Exchange> = half_open.filter(fresh).collect();
    for pair in probes.windows(2) {
        let [one, next] = pair else { continue };
        let same = one.breaker.opens == next.breaker.opens;
        if same && one.ended.is_none_or(|ended| ended > next.begun + AT_ONCE) {
            wrong.push(format!("two probes at once: {one:?} {next:?}"));
        }
    }
}

/// A breaker that is open becomes half-open before it is anything else.
fn turns(run: &Run, name: &str, wrong: &mut Vec<String>) {
    let target = format!("target=\"{name}/m\"");
    let all = series(run, "sluice_breaker_transitions_total");
    let to = |state: &str| -> f64 {
        let state = format!("\"{state}\"");
        all.iter().filter(|(s, _)| s.contains(&target) && s.contains(&state)).map(|(_, turns)| turns).sum()
    };
    let (opened, half_opened, closed) = (to("open"), to("half_open"), to("closed"));
    if !(half_opened..=half_opened + 1.0).contains(&opened) || closed > half_opened {
        wrong.push(format!("{name}: {opened} times open, {half_opened} half-open, {closed} closed"));
    }
}
