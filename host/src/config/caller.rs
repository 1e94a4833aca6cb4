//! `callers`: who may call, with which key, where and how much. A key is kept as its hash alone, so that nothing
//! behind this module could show it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use sluice_core::allowance::{self, Money};

use super::checked::{Config, Gate};
use super::field::{Field, Map};
use super::{suggest, top};

/// Most callers: each request is compared with all of them.
const CALLERS_MAX: usize = 4096;
/// A key that is shorter can be guessed.
const KEY_MIN: usize = 16;
/// Permits of a caller without a limit: as many as the largest gate has.
const NO_LIMIT: u32 = 1_000_000;

/// One caller.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Its name, which may be shown.
    pub name: Arc<str>,
    /// What its key is recognised by.
    pub key: KeyHash,
    /// Routes it may call; none: all.
    pub routes: Option<Vec<Arc<str>>>,
    /// Its gate.
    pub gate: Gate,
    /// What it may take in a minute and on a day.
    pub limits: allowance::Limits,
}

impl Caller {
    /// Whether it may call a route.
    #[must_use]
    pub fn may_call(&self, route: &str) -> bool {
        self.routes.as_ref().is_none_or(|routes| routes.iter().any(|name| **name == *route))
    }
}

/// SHA-256 of a key. Blank in every `Debug`, since a weak key can be found from it.
#[derive(Clone, Copy)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Of a key.
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// From 64 hexadecimal digits.
    fn from_hex(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<_>>()?;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        if digits.len() == 64 { bytes.try_into().ok().map(Self) } else { None }
    }

    /// Whether both are of one key. Takes as long wherever they differ.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let differ = self.0.iter().zip(&other.0).fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash")
    }
}

/// What callers are read against.
pub(super) struct Known<'a> {
    pub(super) gates: Gate,
    /// Names of the routes, also of those with mistakes.
    pub(super) routes: &'a [&'a str],
}

pub(super) fn read_all(field: &Field<'_>, known: &Known<'_>) -> Vec<Arc<Caller>> {
    if !field.is_set() {
        return Vec::new();
    }
    let items = field.list().unwrap_or_default();
    if items.len() > CALLERS_MAX {
        field.error(format!("there may be at most {CALLERS_MAX} callers"));
    }
    let mut taken = Taken::default();
    let items = items.iter().take(CALLERS_MAX);
    items.filter_map(|item| item.map(|m| read(m, known, &mut taken)).map(Arc::new)).collect()
}

/// Names and keys of the callers so far.
#[derive(Default)]
struct Taken {
    names: HashSet<String>,
    keys: HashSet<[u8; 32]>,
}

fn read(m: &Map<'_>, known: &Known<'_>, taken: &mut Taken) -> Option<Caller> {
    let name = name(&m.require("name"), taken);
    let key = key(m, taken);
    let routes = routes(&m.get("routes"), known.routes);
    let gate = Gate {
        max_in_flight: m.get("max_in_flight").count(1..=1_000_000).unwrap_or(NO_LIMIT),
        queue: m.get("queue").count(0..=1_000_000).unwrap_or(known.gates.queue),
        queue_wait: m.get("queue_wait").duration(Duration::ZERO).unwrap_or(known.gates.queue_wait),
    };
    let limits = allowance::Limits {
        requests: m.get("requests_per_minute").count(1..=1_000_000_000),
        tokens: m.get("tokens_per_minute").count(1..=1_000_000_000),
        day: day(&m.get("budget_per_day")),
    };
    Some(Caller { name: name?, key: key?, routes, gate, limits })
}

fn name(field: &Field<'_>, taken: &mut Taken) -> Option<Arc<str>> {
    let name = field.text("the name of a caller")?;
    if !top::is_short_name(name) {
        field.error("the name of a caller is 1 to 64 characters of A-Z a-z 0-9 _ -");
        return None;
    }
    if !taken.names.insert(name.to_owned()) {
        field.error("another caller has this name");
    }
    Some(name.into())
}

/// The one of two ways in which a key is given.
fn key(m: &Map<'_>, taken: &mut Taken) -> Option<KeyHash> {
    let (plain, hashed) = (m.get("key"), m.get("key_sha256"));
    let of = match (plain.is_set(), hashed.is_set()) {
        (true, true) => {
            hashed.error("give either \"key\" or \"key_sha256\"");
            return None;
        }
        (false, false) => {
            m.needs("missing key \"key\" (a secret by reference) or \"key_sha256\"");
            return None;
        }
        (true, false) => &plain,
        (false, true) => &hashed,
    };
    let hash = if hashed.is_set() { sha256(&hashed)? } else { secret(&plain)? };
    if !taken.keys.insert(hash.0) {
        of.error("another caller has this key");
    }
    Some(hash)
}

fn secret(field: &Field<'_>) -> Option<KeyHash> {
    let credential = field.credential()?;
    let key = credential.key.expose_secret();
    if key.len() < KEY_MIN {
        field.warn(format!("the key is shorter than {KEY_MIN} characters: it can be guessed"));
    }
    Some(KeyHash::of(key.as_bytes()))
}

fn sha256(field: &Field<'_>) -> Option<KeyHash> {
    let hash = field.maybe_text().and_then(KeyHash::from_hex);
    if hash.is_none() {
        field.error("expected the SHA-256 of the key as 64 hexadecimal digits");
    }
    hash
}

fn routes(field: &Field<'_>, known: &[&str]) -> Option<Vec<Arc<str>>> {
    if !field.is_set() {
        return None;
    }
    let items = field.list()?;
    if items.is_empty() {
        field.error("expected at least one route; leave it out for all of them");
    }
    let mut names: Vec<Arc<str>> = Vec::new();
    for item in items {
        let Some(name) = item.text("the name of a route") else { continue };
        if !known.contains(&name) {
            item.error(format!("there is no such route{}", suggest::hint(name, known.iter().copied())));
        } else if names.iter().any(|known| **known == *name) {
            item.error("the route is in the list already");
        } else {
            names.push(name.into());
        }
    }
    Some(names)
}

fn day(field: &Field<'_>) -> Option<Money> {
    let budget = field.decimal(0.0..=1_000_000.0)?;
    if budget == 0.0 {
        field.error("must be more than 0; leave it out for no budget");
    }
    Some(Money::units(budget))
}

/// What has no price costs nothing, and a budget does not hold for it.
pub(super) fn warn_of_free(field: &Field<'_>, config: &Config) {
    let items = field.list().unwrap_or_default();
    // Where one has mistakes there is nothing to warn of yet.
    if items.len() != config.callers.len() {
        return;
    }
    for (item, caller) in items.iter().zip(&config.callers) {
        let routes = config.routes.values().filter(|route| caller.may_call(&route.name));
        let may = routes.flat_map(|route| &route.targets);
        let free = may.map(|target| &target.target).find(|target| target.facts.price.is_none());
        if let (Some(_), Some(free)) = (caller.limits.day, free) {
            item.warn(format!("budget_per_day does not hold for a target without a price: {}", free.key));
        }
    }
}
