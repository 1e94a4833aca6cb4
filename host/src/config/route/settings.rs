//! The keys of a route that `defaults` has too. Maps inside a route (`retry`) fall back key by key.

use std::time::Duration;

use crate::config::checked::{CommitRule, MinBudget, OnMalformed, Retry};
use crate::config::field::{Field, Map, SOME};
use crate::config::plugin_names::RoutePlugins;

/// The keys of a route but `targets`, each there or not.
#[derive(Default)]
pub(in crate::config) struct Settings {
    pub(super) budget: Option<Duration>,
    pub(super) reserve: Option<Duration>,
    pub(super) connect: Option<Duration>,
    pub(super) attempt: Option<Duration>,
    pub(super) first_content: Option<Duration>,
    pub(super) min_budget: Option<LeastBudget>,
    pub(super) min_budget_floor: Option<Duration>,
    pub(super) idle: Option<OrOff>,
    pub(super) stream_max: Option<OrOff>,
    pub(super) keep_alive: Option<OrOff>,
    pub(super) client_write: Option<OrOff>,
    pub(super) commit: Option<CommitRule>,
    pub(super) max_switches: Option<u32>,
    pub(super) retry: RetrySettings,
    pub(super) on_malformed: Option<OnMalformed>,
    pub(super) plugins: RoutePlugins,
}

#[derive(Default)]
pub(super) struct RetrySettings {
    upstream: Option<u32>,
    rate_limit: Option<u32>,
    max_wait: Option<Duration>,
    backoff: Option<Duration>,
    backoff_max: Option<Duration>,
}

/// A time after which something ends.
#[derive(Clone, Copy)]
pub(super) enum OrOff {
    /// `off`
    Off,
    After(Duration),
}

/// What has to be left of a budget for a target to be tried.
#[derive(Clone, Copy)]
pub(super) enum LeastBudget {
    /// `p95`: what it mostly takes.
    P95,
    Fixed(Duration),
}

impl Settings {
    pub(in crate::config) fn read(m: &Map<'_>) -> Self {
        Self {
            budget: m.get("budget").duration(SOME),
            reserve: m.get("reserve").duration(Duration::ZERO),
            connect: m.get("connect").duration(SOME),
            attempt: m.get("attempt").duration(SOME),
            first_content: m.get("first_content").duration(SOME),
            min_budget: LeastBudget::read(&m.get("min_budget")),
            min_budget_floor: m.get("min_budget_floor").duration(Duration::ZERO),
            idle: OrOff::read(&m.get("idle")),
            stream_max: OrOff::read(&m.get("stream_max")),
            keep_alive: OrOff::read(&m.get("keep_alive")),
            client_write: OrOff::read(&m.get("client_write")),
            commit: m
                .get("commit")
                .choice(&[("first_content", CommitRule::FirstContent), ("complete", CommitRule::Complete)]),
            max_switches: m.get("max_switches").count(0..=8),
            retry: m.get("retry").map(|m| RetrySettings {
                upstream: m.get("upstream").count(0..=3),
                rate_limit: m.get("rate_limit").count(0..=3),
                max_wait: m.get("max_wait").duration(Duration::ZERO),
                backoff: m.get("backoff").duration(Duration::ZERO),
                backoff_max: m.get("backoff_max").duration(Duration::ZERO),
            }),
            on_malformed: m
                .get("on_malformed")
                .choice(&[("drop", OnMalformed::Drop), ("fail", OnMalformed::Fail)]),
            plugins: m.get("plugins").map(RoutePlugins::read),
        }
    }

    /// These, and where they say nothing the others.
    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            budget: self.budget.or(other.budget),
            reserve: self.reserve.or(other.reserve),
            connect: self.connect.or(other.connect),
            attempt: self.attempt.or(other.attempt),
            first_content: self.first_content.or(other.first_content),
            min_budget: self.min_budget.or(other.min_budget),
            min_budget_floor: self.min_budget_floor.or(other.min_budget_floor),
            idle: self.idle.or(other.idle),
            stream_max: self.stream_max.or(other.stream_max),
            keep_alive: self.keep_alive.or(other.keep_alive),
            client_write: self.client_write.or(other.client_write),
            commit: self.commit.or(other.commit),
            max_switches: self.max_switches.or(other.max_switches),
            retry: RetrySettings {
                upstream: self.retry.upstream.or(other.retry.upstream),
                rate_limit: self.retry.rate_limit.or(other.retry.rate_limit),
                max_wait: self.retry.max_wait.or(other.retry.max_wait),
                backoff: self.retry.backoff.or(other.retry.backoff),
                backoff_max: self.retry.backoff_max.or(other.retry.backoff_max),
            },
            on_malformed: self.on_malformed.or(other.on_malformed),
            plugins: self.plugins.or(&other.plugins),
        }
    }

    /// What a target needs that says this itself.
    pub(super) fn min_budget(&self, own: Option<LeastBudget>) -> MinBudget {
        let floor = self.min_budget_floor.unwrap_or(Duration::from_millis(450));
        match own.or(self.min_budget) {
            Some(LeastBudget::Fixed(fixed)) => MinBudget::Fixed(fixed),
            Some(LeastBudget::P95) => MinBudget::P95 { floor },
            None => MinBudget::Fixed(Duration::from_millis(450)),
        }
    }
}

impl RetrySettings {
    pub(super) fn checked(&self) -> Retry {
        let backoff = self.backoff.unwrap_or(Duration::from_millis(200));
        Retry {
            upstream: self.upstream.unwrap_or(0),
            rate_limit: self.rate_limit.unwrap_or(1),
            max_wait: self.max_wait.unwrap_or(Duration::from_secs(5)),
            backoff,
            backoff_max: self.backoff_max.unwrap_or(Duration::from_secs(2)).max(backoff),
        }
    }
}

impl OrOff {
    fn read(field: &Field<'_>) -> Option<Self> {
        let what = "a duration such as 30s (a whole number and ms, s, m or h) or off";
        field.duration_or(("off", Self::Off), Self::After, what, SOME)
    }

    /// None: there is no end to it.
    pub(super) const fn time(self) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::After(time) => Some(time),
        }
    }
}

impl LeastBudget {
    pub(super) fn read(field: &Field<'_>) -> Option<Self> {
        let what = "a duration such as 30s (a whole number and ms, s, m or h) or p95";
        field.duration_or(("p95", Self::P95), Self::Fixed, what, Duration::ZERO)
    }
}
