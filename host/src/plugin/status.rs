//! What `/debug/plugins` says: one entry for each file of the folder, and one for each bundled plugin.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;

use super::loaded::Plugin;
use super::options::PluginOptions;
use super::rejection::{Reason, Rejection};

/// `state` of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PluginState {
    /// What is in the file runs.
    Active,
    /// Nothing of it runs.
    Rejected,
    /// An older version runs.
    LastGood,
    /// It is loaded and not asked for now.
    SetAside,
    /// Switched off by its sidecar.
    Disabled,
    /// Its file is gone.
    Removed,
}

impl PluginState {
    /// Every value, in order of declaration.
    pub const ALL: [Self; 6] =
        [Self::Active, Self::Rejected, Self::LastGood, Self::SetAside, Self::Disabled, Self::Removed];

    /// Spelling for metrics and pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Rejected => "rejected",
            Self::LastGood => "last_good",
            Self::SetAside => "set_aside",
            Self::Disabled => "disabled",
            Self::Removed => "removed",
        }
    }
}

/// The last refusal of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectionStatus {
    /// Its reason.
    #[serde(serialize_with = "spelled")]
    pub reason: Reason,
    /// What was expected and what came.
    pub message: String,
    /// SHA-256 of the refused bytes in hex; none: they could not be read.
    pub digest: Option<String>,
    /// When, RFC 3339.
    pub at: String,
}

impl RejectionStatus {
    /// Of now.
    pub fn new(rejection: &Rejection, digest: Option<&str>, at: SystemTime) -> Self {
        Self {
            reason: rejection.reason(),
            message: rejection.to_string(),
            digest: digest.map(str::to_owned),
            at: time(at),
        }
    }
}

// serde hands a reference.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn spelled<S: serde::Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.as_str())
}

/// One entry of the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PluginStatus {
    /// File name without its ending, or the name of a bundled plugin.
    pub name: String,
    /// File name; none: bundled.
    pub file: Option<String>,
    /// What it is asked for; empty when nothing of it ever ran.
    pub kinds: Vec<&'static str>,
    /// Its state.
    pub state: PluginState,
    /// SHA-256 of the bytes that run, in hex.
    pub digest: Option<String>,
    /// Its version in its own words.
    pub version: Option<String>,
    /// Version of the contract it was built for.
    pub contract: Option<&'static str>,
    /// Since when this version runs, RFC 3339.
    pub since: Option<String>,
    /// Weight of its scores.
    pub weight: f64,
    /// `bundled` or `deny`.
    pub on_error: &'static str,
    /// `warm` or `fresh`.
    pub instances: &'static str,
    /// Instances alive, running and waiting.
    pub live: usize,
    /// Calls of this version.
    pub calls: u64,
    /// Median time of a call, µs.
    pub p50_us: Option<u64>,
    /// 99th percentile of it, µs.
    pub p99_us: Option<u64>,
    /// Calls without an answer, by result.
    pub failures: BTreeMap<&'static str, u64>,
    /// The last refusal of its file.
    pub rejection: Option<RejectionStatus>,
}

impl PluginStatus {
    /// Of a plugin that runs. `state` is what the folder says; a plugin that is set aside says so itself.
    pub fn running(plugin: &Plugin, state: PluginState, rejection: Option<RejectionStatus>) -> Self {
        let history = plugin.history();
        Self {
            name: plugin.name().to_string(),
            file: plugin.file().map(ToString::to_string),
            kinds: plugin.kinds().iter().map(|kind| kind.as_str()).collect(),
            state: if plugin.is_set_aside() { PluginState::SetAside } else { state },
            digest: Some(plugin.digest().to_string()),
            version: Some(plugin.version().to_owned()),
            contract: Some(plugin.contract().version()),
            since: Some(time(history.since)),
            weight: plugin.options().weight,
            on_error: plugin.options().on_error.as_str(),
            instances: plugin.options().instances.as_str(),
            live: plugin.pool().live(),
            calls: history.stats.calls(),
            p50_us: history.stats.quantile_us(0.5),
            p99_us: history.stats.quantile_us(0.99),
            failures: history.stats.failures(),
            rejection,
        }
    }

    /// Of a file of which nothing runs.
    pub fn idle(
        name: &str,
        file: &str,
        state: PluginState,
        options: &PluginOptions,
        rejection: Option<RejectionStatus>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            file: Some(file.to_owned()),
            kinds: Vec::new(),
            state,
            digest: None,
            version: None,
            contract: None,
            since: None,
            weight: options.weight,
            on_error: options.on_error.as_str(),
            instances: options.instances.as_str(),
            live: 0,
            calls: 0,
            p50_us: None,
            p99_us: None,
            failures: BTreeMap::new(),
            rejection,
        }
    }
}

/// RFC 3339 with milliseconds.
pub fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}
