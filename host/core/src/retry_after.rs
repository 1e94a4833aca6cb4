//! What an upstream says about when to come back, and about how much of its quota is left, in every form
//! that is in use: `retry-after` and its millisecond relatives, `x-ratelimit-*`, `ratelimit-*` and
//! `anthropic-ratelimit-*`; as seconds, spans like `1m30s`, dates and moments of the Unix epoch.
//!
//! Nothing in a header is trusted: what cannot be read is as if it were not there, and waits are clamped.

use std::time::{Duration, SystemTime};

mod value;

#[cfg(test)]
mod tests;

/// Quotas told apart in one answer; more are ignored.
const MAX_QUOTAS: usize = 16;

/// Headers that say it outright, the most exact one first.
const DIRECT: [(&str, Unit); 3] =
    [("retry-after-ms", Unit::Millis), ("x-ms-retry-after-ms", Unit::Millis), ("retry-after", Unit::Any)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Millis,
    Any,
}

/// The wait asked for by an answer with these headers (names in any case), at most `max`.
///
/// A header that says it outright wins. Else the quota that is most used up is the one that refused, and its
/// reset is waited for; where that cannot be told, the latest reset is. A wait of nothing, or until a moment
/// that is over, is no hint: none.
pub fn hint<'a, I>(headers: I, wall: SystemTime, max: Duration) -> Option<Duration>
where
    I: Iterator<Item = (&'a str, &'a str)> + Clone,
{
    let direct = DIRECT.iter().find_map(|(name, unit)| {
        headers.clone().filter(|(header, _)| header.eq_ignore_ascii_case(name)).find_map(|(_, value)| {
            match unit {
                Unit::Millis => value::millis(value),
                Unit::Any => value::wait(value, wall),
            }
        })
    });
    direct.or_else(|| reset(headers, wall)).map(|wait| wait.min(max)).filter(|wait| !wait.is_zero())
}

/// Share of the quota that is left, 0 to 1: that of the scarcest one of which both what remains and the limit
/// are told.
pub fn quota_left<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Option<f64> {
    quotas(headers, None).iter().filter_map(Quota::share).min_by(f64::total_cmp)
}

fn reset<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>, wall: SystemTime) -> Option<Duration> {
    let quotas = quotas(headers, Some(wall));
    let scarcity = |quota: &Quota<'_>| match (quota.remaining, quota.share()) {
        (Some(0.0), _) => 0.0,
        (_, share) => share.unwrap_or(1.0),
    };
    let timed = || quotas.iter().filter_map(|quota| quota.reset.map(|reset| (scarcity(quota), reset)));
    let scarcest = timed().map(|(scarcity, _)| scarcity).min_by(f64::total_cmp)?;
    timed().filter(|(scarcity, _)| *scarcity <= scarcest).map(|(_, reset)| reset).max()
}

/// One quota, such as requests or tokens, as its headers tell it.
#[derive(Debug)]
struct Quota<'a> {
    family: Family,
    /// Lower-case comparison is up to the reader: header names are.
    name: &'a str,
    limit: Option<f64>,
    remaining: Option<f64>,
    reset: Option<Duration>,
}

impl Quota<'_> {
    fn share(&self) -> Option<f64> {
        let (limit, remaining) = (self.limit?, self.remaining?);
        (limit > 0.0).then(|| (remaining / limit).clamp(0.0, 1.0))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `x-ratelimit-FIELD-NAME`
    Prefixed,
    /// `ratelimit-FIELD`
    Plain,
    /// `anthropic-ratelimit-NAME-FIELD`
    Anthropic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Limit,
    Remaining,
    Reset,
}

const FIELDS: [(&str, Field); 3] =
    [("limit", Field::Limit), ("remaining", Field::Remaining), ("reset", Field::Reset)];

/// The quotas of an answer; resets are read only with a wall clock.
fn quotas<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>, wall: Option<SystemTime>) -> Vec<Quota<'a>> {
    let mut quotas: Vec<Quota<'a>> = Vec::new();
    for (header, value) in headers {
        let Some((family, name, field)) = part(header) else {
            continue;
        };
        let known = quotas.iter().position(|q| q.family == family && q.name.eq_ignore_ascii_case(name));
        let at = match known {
            Some(at) => at,
            None if quotas.len() >= MAX_QUOTAS => continue,
            None => {
                quotas.push(Quota { family, name, limit: None, remaining: None, reset: None });
                quotas.len() - 1
            }
        };
        let quota = &mut quotas[at];
        match field {
            Field::Limit => quota.limit = value::count(value).or(quota.limit),
            Field::Remaining => quota.remaining = value::count(value).or(quota.remaining),
            Field::Reset => quota.reset = wall.and_then(|wall| value::wait(value, wall)).or(quota.reset),
        }
    }
    quotas
}

/// Takes a header name apart.
fn part(header: &str) -> Option<(Family, &str, Field)> {
    // Most headers of an answer are told by their first letter to be none of these.
    if !header.starts_with(['x', 'X', 'r', 'R', 'a', 'A']) {
        return None;
    }
    if let Some(rest) = strip(header, "x-ratelimit-") {
        let (field, name) = leading(rest)?;
        return Some((Family::Prefixed, name, field));
    }
    if let Some(rest) = strip(header, "anthropic-ratelimit-") {
        let (name, field) = rest.rsplit_once('-')?;
        return Some((Family::Anthropic, name, named(field)?));
    }
    Some((Family::Plain, "", named(strip(header, "ratelimit-")?)?))
}

/// `reset-tokens` is the reset of `tokens`, `reset` that of the one without a name.
fn leading(rest: &str) -> Option<(Field, &str)> {
    let (field, name) = rest.split_once('-').unwrap_or((rest, ""));
    Some((named(field)?, name))
}

fn named(text: &str) -> Option<Field> {
    FIELDS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, field)| *field)
}

fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}
