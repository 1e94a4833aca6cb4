//! One provider account: its gate, and which of its credentials is used next.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use secrecy::{ExposeSecret, SecretString};
use sluice_core::kind::FailureKind;
use sluice_core::quota::{Limits, Quota, Taken};

use super::{Gate, lock};
use crate::config;

#[cfg(test)]
mod tests;

/// Why a credential is not used for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsideState {
    /// Too many calls.
    RateLimited,
    /// Its account has nothing left.
    Quota,
    /// It was refused.
    Denied,
}

impl AsideState {
    /// Spelling on pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Quota => "quota",
            Self::Denied => "denied",
        }
    }

    /// The failure a call ends with when nothing else is left.
    pub const fn kind(self) -> FailureKind {
        match self {
            Self::RateLimited => FailureKind::RetryableRateLimit,
            Self::Quota => FailureKind::QuotaExhausted,
            Self::Denied => FailureKind::AuthDenied,
        }
    }
}

/// Until when, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aside {
    /// When it may be used again.
    pub until: Instant,
    /// Why it is not used before.
    pub state: AsideState,
}

/// Which credential a call is to use.
#[derive(Debug)]
pub enum Pick {
    /// This one.
    Lease(Lease),
    /// All it has not used yet are set aside. The one told is the first that may be used again; denied ones
    /// are told only when there are no others.
    AllAside(Aside),
    /// The call has used every one.
    NoneLeft,
    /// The upstream wants none.
    NoneNeeded,
}

/// What pages show of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CredentialPage {
    /// Position in the configuration.
    pub index: usize,
    /// Set aside, and until when; none: in use.
    pub aside: Option<Aside>,
    /// Calls using it.
    pub in_flight: u32,
}

/// An upstream in one configuration. Its gate and credentials are shared with other generations.
pub struct UpstreamCell {
    name: Arc<str>,
    gate: Arc<Gate>,
    credentials: Vec<Arc<Credential>>,
    /// Where a quota is configured.
    quota: Option<Arc<Mutex<Quota>>>,
}

/// What outlives a configuration.
pub(super) struct Kept {
    pub(super) gate: Arc<Gate>,
    pub(super) credentials: Vec<Arc<Credential>>,
    pub(super) quota: Option<Arc<Mutex<Quota>>>,
}

/// The quota of a new configuration. What was sent under the one before stays sent.
pub(super) fn keep_quota(configured: Option<Limits>, before: Option<&Kept>) -> Option<Arc<Mutex<Quota>>> {
    let limits = configured?;
    Some(match before.and_then(|before| before.quota.clone()) {
        Some(quota) => {
            lock(&quota).set(limits);
            quota
        }
        None => Arc::new(Mutex::new(Quota::new(limits))),
    })
}

/// What one attempt counts for against the quota of its upstream. Dropped, its estimate stands for a minute.
#[derive(Debug)]
pub struct QuotaUse {
    quota: Arc<Mutex<Quota>>,
    taken: Taken,
}

impl QuotaUse {
    /// It took so many tokens.
    pub fn settle(self, now: Instant, tokens: u64) {
        lock(&self.quota).settle(now, &self.taken, tokens);
    }
}

#[derive(Debug)]
pub(super) struct Credential {
    key: SecretString,
    in_flight: AtomicU32,
    aside: Mutex<Option<Aside>>,
}

/// The credentials of a new configuration: those with a key the old one had keep what is known about them,
/// but for a refusal, since the operator may have put right what it was about.
pub(super) fn keep(configured: &[config::Credential], before: Option<&Kept>) -> Vec<Arc<Credential>> {
    let known = |key: &SecretString| {
        let same = |old: &&Arc<Credential>| old.key.expose_secret() == key.expose_secret();
        before.and_then(|before| before.credentials.iter().find(same)).cloned()
    };
    configured
        .iter()
        .map(|credential| match known(&credential.key) {
            Some(old) => {
                let mut aside = lock(&old.aside);
                *aside = aside.filter(|aside| aside.state != AsideState::Denied);
                drop(aside);
                old
            }
            None => Arc::new(Credential {
                key: credential.key.clone(),
                in_flight: AtomicU32::new(0),
                aside: Mutex::new(None),
            }),
        })
        .collect()
}

impl UpstreamCell {
    pub(super) fn new(name: &Arc<str>, kept: &Kept) -> Self {
        Self {
            name: name.clone(),
            gate: kept.gate.clone(),
            credentials: kept.credentials.clone(),
            quota: kept.quota.clone(),
        }
    }

    /// An attempt of about so many tokens begins. None: no quota is configured.
    pub fn uses(&self, now: Instant, tokens: u64) -> Option<QuotaUse> {
        let quota = self.quota.clone()?;
        let taken = lock(&quota).take(now, tokens);
        Some(QuotaUse { quota, taken })
    }

    /// Share of the configured quota that is left by our own count, 0 to 1; none: none is configured.
    pub fn quota_left(&self, now: Instant) -> Option<f64> {
        lock(self.quota.as_ref()?).left(now)
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The gate of its attempts.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The credential with the fewest calls among those that are not set aside and not in `tried`; the first
    /// of equals, so that a provider's cache for one account is used.
    pub fn pick(&self, now: Instant, tried: &[usize]) -> Pick {
        if self.credentials.is_empty() {
            return Pick::NoneNeeded;
        }
        let untried = || self.credentials.iter().enumerate().filter(|(index, _)| !tried.contains(index));
        let free = untried()
            .filter(|(_, credential)| credential.aside(now).is_none())
            .min_by_key(|(_, credential)| credential.in_flight.load(Ordering::Relaxed));
        if let Some((index, credential)) = free {
            credential.in_flight.fetch_add(1, Ordering::Relaxed);
            return Pick::Lease(Lease { index, credential: credential.clone() });
        }
        first_back(untried().filter_map(|(_, credential)| credential.aside(now)))
            .map_or(Pick::NoneLeft, Pick::AllAside)
    }

    /// Why no call could be sent now, as [`Pick::AllAside`] tells it; none: one could. Takes nothing.
    pub fn all_aside(&self, now: Instant) -> Option<Aside> {
        let mut first = None;
        for credential in &self.credentials {
            // One that is not aside answers the question.
            let aside = credential.aside(now)?;
            first = first_back(first.into_iter().chain([aside]));
        }
        first
    }

    /// Does not use a credential until then. A longer wait stays.
    pub fn set_aside(&self, index: usize, until: Instant, state: AsideState) {
        if let Some(credential) = self.credentials.get(index) {
            credential.set_aside(Aside { until, state });
        }
    }

    /// For pages.
    pub fn page(&self, now: Instant) -> Vec<CredentialPage> {
        let page = |(index, credential): (usize, &Arc<Credential>)| CredentialPage {
            index,
            aside: credential.aside(now),
            in_flight: credential.in_flight.load(Ordering::Relaxed),
        };
        self.credentials.iter().enumerate().map(page).collect()
    }
}

fn first_back(asides: impl Iterator<Item = Aside>) -> Option<Aside> {
    asides.min_by_key(|aside| (aside.state == AsideState::Denied, aside.until))
}

impl Credential {
    fn aside(&self, now: Instant) -> Option<Aside> {
        lock(&self.aside).filter(|aside| now < aside.until)
    }

    fn set_aside(&self, new: Aside) {
        let mut aside = lock(&self.aside);
        if aside.is_none_or(|before| before.until <= new.until) {
            *aside = Some(new);
        }
    }
}

/// A credential in use by one call, until dropped.
#[derive(Debug)]
#[must_use = "the credential counts as unused when this is dropped"]
pub struct Lease {
    index: usize,
    credential: Arc<Credential>,
}

impl Lease {
    /// Position in the configuration the upstream's cell belongs to.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// The key itself.
    pub fn key(&self) -> &SecretString {
        &self.credential.key
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.credential.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
