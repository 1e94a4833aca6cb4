//! The admin pages: what they say and how it is spelled, from plain snapshots that the admin handler fills.
//!
//! Pure: no state is read here and no clock. Times are times left, or moments that the snapshot holds. Where
//! a page is a yes or no (`/readyz`), the status is decided here too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use serde::{Serialize, Serializer};
use sluice_core::facts::{BreakerState, PluginKind};
use sluice_core::kind::FailureKind;

use crate::clock::whole_ms;
use crate::plugin::PluginStatus;
use crate::telemetry::decisions::{Entry, Found};
use crate::telemetry::log::line::rfc3339;
use crate::telemetry::names::closed;

/// A finished page; its content type is `application/json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Status.
    pub status: StatusCode,
    /// JSON.
    pub body: String,
}

impl Page {
    pub(super) fn of(status: StatusCode, shape: &impl Serialize) -> Self {
        match serde_json::to_string(shape) {
            Ok(body) => Self { status, body },
            // The shapes have text keys only, so this does not happen; an empty 200 would be a lie.
            Err(_) => Self { status: StatusCode::INTERNAL_SERVER_ERROR, body: "{}".into() },
        }
    }
}

/// `/livez`.
pub fn livez() -> Page {
    #[derive(Serialize)]
    struct Livez {
        status: &'static str,
    }
    Page::of(StatusCode::OK, &Livez { status: "ok" })
}

closed! {
    /// Why the gateway is not ready.
    NotReady {
        /// No target of any route can take a call.
        NoTarget = "no_target",
        /// It is going away.
        Draining = "draining",
        /// It has not begun to serve.
        Starting = "starting",
        /// A plugin without which calls are to be denied does not run.
        Plugin = "plugin",
    }
}

closed! {
    /// Why a target cannot take a call.
    BlockedBy {
        /// Its breaker.
        Open = "open",
        /// A cool-down.
        Cooling = "cooling",
        /// Every credential of its upstream is set aside.
        NoCredential = "no_credential",
    }
}

/// `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readyz {
    /// Why not; none: ready.
    pub reason: Option<NotReady>,
    /// Number of able targets of each route.
    pub routes: BTreeMap<Arc<str>, usize>,
    /// Targets that cannot take a call.
    pub blocked: Vec<Blocked>,
}

/// A target that cannot take a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// `upstream/model`.
    #[serde(serialize_with = "text")]
    pub target: Arc<str>,
    /// Why.
    pub why: BlockedBy,
    /// How long still; none: nobody knows.
    #[serde(rename = "until_ms", serialize_with = "maybe_ms")]
    pub until: Option<Duration>,
}

/// `/readyz`: 200 or 503.
pub fn readyz(readyz: &Readyz) -> Page {
    let ready = readyz.reason.is_none();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Page::of(status, readyz)
}

impl Serialize for Readyz {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape<'a> {
            ready: bool,
            reason: Option<NotReady>,
            routes: BTreeMap<&'a str, usize>,
            blocked: &'a [Blocked],
        }
        let routes = self.routes.iter().map(|(name, able)| (&**name, *able)).collect();
        let ready = self.reason.is_none();
        Shape { ready, reason: self.reason, routes, blocked: &self.blocked }.serialize(to)
    }
}

/// `/debug/upstreams`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Upstreams {
    /// The moment that this is of, so that a reader whose clock is wrong can tell how long ago something was.
    #[serde(serialize_with = "time")]
    pub now: SystemTime,
    /// Release that runs.
    pub version: &'static str,
    /// What `/readyz` says at this moment.
    pub readiness: Readyz,
    /// Every target, in configured order.
    pub targets: Vec<TargetRow>,
    /// Every upstream.
    pub upstreams: Vec<UpstreamRow>,
    /// Every gate.
    pub gates: Vec<GateRow>,
    /// The store of records; none: there is none.
    pub records: Option<RecordsRow>,
}

/// The store of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RecordsRow {
    /// Since when its database takes nothing; none: it does.
    #[serde(serialize_with = "maybe_time")]
    pub away_since: Option<SystemTime>,
    /// Records that wait in its spool.
    pub spooled: u64,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetRow {
    /// `upstream/model`.
    #[serde(serialize_with = "text")]
    pub target: Arc<str>,
    /// Its upstream.
    #[serde(serialize_with = "text")]
    pub upstream: Arc<str>,
    /// Its model.
    #[serde(serialize_with = "text")]
    pub model: Arc<str>,
    /// Routes that list it, sorted.
    #[serde(serialize_with = "texts")]
    pub routes: Vec<Arc<str>>,
    /// It can take a call.
    pub able: bool,
    /// Its breaker.
    pub breaker: BreakerRow,
    /// Left of its cool-down; zero: none.
    #[serde(rename = "cooldown_ms", serialize_with = "ms")]
    pub cooldown: Duration,
    /// The failure it cools down after.
    #[serde(serialize_with = "maybe_kind")]
    pub cooldown_kind: Option<FailureKind>,
    /// Attempts running.
    pub in_flight: u32,
    /// Share of answered attempts in the last minute; none: no samples.
    pub success_rate_1m: Option<f64>,
    /// To commit.
    pub latency_ms: Percentiles,
    /// To first content.
    pub first_content_ms: Percentiles,
    /// Share of the provider's quota left; none: not known.
    pub quota_left: Option<f64>,
}

/// A breaker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BreakerRow {
    /// Its state.
    #[serde(serialize_with = "breaker_state")]
    pub state: BreakerState,
    /// Counted failures in a row.
    pub failures: u32,
    /// Failure rate over its window; none: too few results.
    pub rate: Option<f64>,
    /// When it opened last.
    #[serde(serialize_with = "maybe_time")]
    pub opened_at: Option<SystemTime>,
    /// Until it may be probed; none: not open.
    #[serde(rename = "until_ms", serialize_with = "maybe_ms")]
    pub until: Option<Duration>,
    /// How often it opened.
    pub opens: u64,
}

/// Percentiles in milliseconds; none: no samples.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: Option<f64>,
    /// 95th.
    pub p95: Option<f64>,
    /// 99th.
    pub p99: Option<f64>,
}

/// One upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpstreamRow {
    /// Its name.
    #[serde(serialize_with = "text")]
    pub upstream: Arc<str>,
    /// Its gate.
    pub gate: UpstreamGate,
    /// Its credentials, by number only.
    pub credentials: Vec<CredentialRow>,
}

/// The gate of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UpstreamGate {
    /// Permits given.
    pub in_flight: u32,
    /// Permits there are.
    pub limit: u32,
    /// Waiting.
    pub queue: u32,
    /// How many may wait.
    pub queue_limit: u32,
}

closed! {
    /// State of a credential.
    CredentialState {
        /// Used.
        Ok = "ok",
        /// Resting after a rate limit.
        RateLimited = "rate_limited",
        /// Its account has nothing left.
        Quota = "quota",
        /// It was refused.
        Denied = "denied",
    }
}

/// One credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CredentialRow {
    /// Position in the configuration, from 0.
    pub index: usize,
    /// Its state.
    pub state: CredentialState,
    /// How long it stays set aside; none: it is not.
    #[serde(rename = "until_ms", serialize_with = "maybe_ms")]
    pub until: Option<Duration>,
    /// Attempts that use it.
    pub in_flight: u32,
}

/// One gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateRow {
    /// `global`, `upstream:NAME`, `target:NAME/MODEL`, `caller:NAME`.
    #[serde(serialize_with = "text")]
    pub gate: Arc<str>,
    /// Permits given.
    pub in_flight: u32,
    /// Permits there are.
    pub limit: u32,
    /// Waiting.
    pub queue: u32,
}

/// `/debug/upstreams`.
pub fn upstreams(upstreams: &Upstreams) -> Page {
    Page::of(StatusCode::OK, upstreams)
}

/// `/debug/plugins`: each file of the folder, also the rejected, and the bundled ones. `replaced` are the kinds whose
/// bundled plugin no route asks; it answers in the place of those that fail and of nobody else. `folder` says why the
/// folder as a whole is not what runs.
pub fn plugins(
    generation: u64,
    folder: Option<String>,
    plugins: &[PluginStatus],
    replaced: &[PluginKind],
) -> Page {
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        status: &'a PluginStatus,
        replaced: bool,
    }
    #[derive(Serialize)]
    struct Shape<'a> {
        generation: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        plugins: Vec<Row<'a>>,
    }
    let is_replaced = |PluginStatus { file, kinds, .. }: &PluginStatus| {
        file.is_none() && replaced.iter().any(|kind| kinds.contains(&kind.as_str()))
    };
    let plugins = plugins.iter().map(|status| Row { status, replaced: is_replaced(status) }).collect();
    Page::of(StatusCode::OK, &Shape { generation, folder, plugins })
}

/// `/debug/decisions`: the entries in the order given, which is newest first, and the cursor after them.
pub fn decisions(found: &Found) -> Page {
    #[derive(Serialize)]
    struct Shape<'a> {
        decisions: &'a [Entry],
        next: &'a str,
    }
    Page::of(StatusCode::OK, &Shape { decisions: &found.entries, next: &found.next })
}

fn text<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

fn texts<S: Serializer>(texts: &[Arc<str>], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(texts.iter().map(|text| &**text))
}

fn time<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*at))
}

fn ms<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(whole_ms(*time))
}

fn maybe_ms<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(whole_ms).serialize(to)
}

fn maybe_time<S: Serializer>(at: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    at.map(rfc3339).serialize(to)
}

fn breaker_state<S: Serializer>(state: &BreakerState, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(state.as_str())
}

fn maybe_kind<S: Serializer>(kind: &Option<FailureKind>, to: S) -> Result<S::Ok, S::Error> {
    kind.map(FailureKind::as_str).serialize(to)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
