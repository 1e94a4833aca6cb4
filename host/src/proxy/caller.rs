//! Who calls, and whether it may: the key, the route, the limits.
//!
//! A key is looked for before the body is read. Of a request with several, `authorization` counts, then
//! `x-api-key`, then `api-key`: the ones that clients of the usual providers send.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_core::allowance::{Money, Need, Refusal, Short};
use sluice_core::budget::retry_after_seconds;

use super::admit::{Shut, pass};
use super::call::Call;
use super::error::{CallerLimit, Failure};
use super::settle::Ledger;
use crate::config::{self, KeyHash};
use crate::generation::Generation;
use crate::state::{CallerCell, Spending};

/// A longer key is nobody's.
const KEY_MAX: usize = 4096;

/// A caller whose key was recognised.
#[derive(Clone)]
pub(super) struct Known {
    /// Its settings.
    pub config: Arc<config::Caller>,
    cell: Arc<CallerCell>,
}

/// Who calls; none: callers have no keys.
///
/// # Errors
/// They have, and this one sent none of them.
pub(super) fn identify(generation: &Generation, headers: &HeaderMap) -> Result<Option<Known>, Failure> {
    let callers = &generation.config.callers;
    if callers.is_empty() {
        return Ok(None);
    }
    let key = presented(headers);
    let sent = Some(key).filter(|key| !key.is_empty() && key.len() <= KEY_MAX);
    let sent = sent.ok_or(Failure::InvalidApiKey { sent: !key.is_empty() })?;
    let hash = KeyHash::of(sent);
    // All of them are looked at, so that time tells nothing of which one it was.
    let pairs = callers.iter().zip(&generation.cells.callers);
    let found = pairs.fold(None, |found, pair| if pair.0.key.is(&hash) { Some(pair) } else { found });
    let (config, cell) = found.ok_or(Failure::InvalidApiKey { sent: true })?;
    Ok(Some(Known { config: config.clone(), cell: cell.clone() }))
}

/// The caller of a name, as though its key had come; none: there is no such caller.
pub(super) fn named(generation: &Generation, name: &str) -> Option<Known> {
    let mut pairs = generation.config.callers.iter().zip(&generation.cells.callers);
    let (config, cell) = pairs.find(|(config, _)| *config.name == *name)?;
    Some(Known { config: config.clone(), cell: cell.clone() })
}

/// The key of a request; empty: none, or one that cannot be read.
fn presented(headers: &HeaderMap) -> &[u8] {
    let one = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        values.next().map(|value| if values.next().is_some() { &[] } else { value.as_bytes() })
    };
    if let Some(value) = one(AUTHORIZATION) {
        let (scheme, key) = value.split_at(value.len().min("bearer ".len()));
        return if scheme.eq_ignore_ascii_case(b"bearer ") { key.trim_ascii() } else { &[] };
    }
    let bare = [HeaderName::from_static("x-api-key"), HeaderName::from_static("api-key")];
    bare.into_iter().find_map(one).unwrap_or_default().trim_ascii()
}

/// Whether the caller may use a route.
///
/// # Errors
/// It may not.
pub(super) fn may_call(ledger: &Ledger, route: &str) -> Result<(), Failure> {
    let may = ledger.caller.as_ref().is_none_or(|caller| caller.config.may_call(route));
    if may { Ok(()) } else { Err(Failure::RouteNotAllowed) }
}

/// Takes what the call is likely to use of its caller's limits, and a place among the calls of the caller.
///
/// # Errors
/// A limit of the caller, or the end of the call.
pub(super) async fn enter(call: &mut Call) -> Result<Option<Spending>, Failure> {
    let Some(caller) = call.ledger.caller.clone() else { return Ok(None) };
    let spending = caller.cell.spend(estimate(call)).map_err(refused)?;
    call.own = Some(pass(call, caller.cell.gate()).await.map_err(|shut| match shut {
        Shut::Draining => Failure::Draining,
        Shut::Deadline => Failure::BudgetExhausted,
        Shut::Gate(_) => {
            let wait = Some(std::time::Duration::from_secs(1));
            Failure::CallerLimit { of: CallerLimit::InFlight, wait }
        }
    })?);
    Ok(Some(spending))
}

/// The input as it was estimated and, where the request limits it, the whole output, at the price of the
/// dearest target.
fn estimate(call: &Call) -> Need {
    let (input, output) = call.estimate();
    let targets = call.route.targets.iter();
    let dearest = targets.map(|target| cost(&target.config.target, input, output)).max();
    Need { tokens: input.saturating_add(output), cost: dearest.unwrap_or_default() }
}

/// What tokens cost at a target. Without a price: nothing.
pub(super) fn cost(target: &config::Target, input: u64, output: u64) -> Money {
    target.facts.price.map_or(Money::ZERO, |price| {
        Money::of_tokens(input, price.input).plus(Money::of_tokens(output, price.output))
    })
}

fn refused(refusal: Refusal) -> Failure {
    let wait = |short| match short {
        Short::Never => None,
        Short::For(wait) => Some(wait),
    };
    match refusal {
        Refusal::Requests(short) => Failure::CallerLimit { of: CallerLimit::Requests, wait: wait(short) },
        Refusal::Tokens(short) => Failure::CallerLimit { of: CallerLimit::Tokens, wait: wait(short) },
        Refusal::Day(short) => Failure::CallerBudget { wait: wait(short) },
    }
}

const LIMIT_HEADERS: [[&str; 3]; 2] = [
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
    ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
];

impl Known {
    /// Says how the caller stands with its limits a minute, in the words of the usual providers.
    pub fn add_limits(&self, head: &mut HeaderMap) {
        for (names, shown) in LIMIT_HEADERS.iter().zip(self.cell.shown()) {
            let Some(shown) = shown else { continue };
            let resets = if shown.resets.is_zero() { 0 } else { retry_after_seconds(shown.resets) };
            let values = [shown.limit.into(), shown.left.into(), seconds(resets)];
            for (name, value) in names.iter().zip(values) {
                head.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

fn seconds(seconds: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("{seconds}s")).unwrap_or_else(|_| HeaderValue::from_static("0s"))
}

#[cfg(test)]
mod tests;
