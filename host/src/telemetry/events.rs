//! What happened to targets, configuration and plugins, as closed names. One [`Event`] is one line of the log
//! and one step of a counter ([`super::Telemetry::event`]), so that the two cannot tell different stories.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sluice_core::facts::BreakerState;
use sluice_core::kind::FailureKind;
use tracing::Level;

use super::log::line::Line;
use super::names::closed;
use crate::clock::whole_ms;
use crate::config::LogFormat;

closed! {
    /// What happened at a target.
    ProviderEvent {
        /// An attempt failed.
        RequestFailed = "provider_request_failed",
        /// A target that is not the first choice served.
        FallbackSucceeded = "provider_fallback_succeeded",
        /// A target was left out because it is open or cooling.
        SkippedUnhealthy = "provider_skipped_unhealthy",
        /// The probe of a half-open breaker failed.
        ProbeFailed = "provider_probe_failed",
        /// It went well.
        ProbeSucceeded = "provider_probe_succeeded",
        /// The target takes calls again.
        Recovered = "provider_recovered",
        /// A stream broke after commit.
        StreamInterrupted = "provider_stream_interrupted",
    }
}

closed! {
    /// Why a configuration was rejected.
    ConfigFault {
        /// The file could not be read.
        Read = "read",
        /// It is not YAML.
        Syntax = "syntax",
        /// It says something that cannot be.
        Invalid = "invalid",
    }
}

closed! {
    /// Why a plugin was rejected.
    PluginFault {
        /// The file could not be read.
        Read = "read",
        /// Too large.
        Size = "size",
        /// Not Wasm at all.
        Magic = "magic",
        /// Not a valid component.
        Parse = "parse",
        /// Compiled elsewhere (`.cwasm`).
        Precompiled = "precompiled",
        /// It imports what no plugin gets.
        Import = "import",
        /// It exports no contract that is known here.
        Contract = "contract",
        /// It asks for more than its limits.
        Resources = "resources",
        /// It could not be compiled.
        Compile = "compile",
        /// It could not be instantiated.
        Instantiate = "instantiate",
        /// It refused its settings.
        Configure = "configure",
        /// It failed on the sample input.
        Probe = "probe",
        /// It is not the pinned one.
        Digest = "digest",
        /// Its sidecar is wrong.
        Sidecar = "sidecar",
        /// Its name is taken.
        NameConflict = "name_conflict",
    }
}

closed! {
    /// Where a plugin stands.
    PluginState {
        /// The newest version runs.
        Active = "active",
        /// Nothing of it runs.
        Rejected = "rejected",
        /// An older version runs.
        LastGood = "last_good",
        /// It failed too often and pauses.
        SetAside = "set_aside",
        /// Switched off by its sidecar.
        Disabled = "disabled",
        /// Its file is gone.
        Removed = "removed",
    }
}

/// What a look at the plugins folder did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginChange {
    /// This version runs from now on.
    Loaded {
        /// SHA-256, hex.
        digest: Arc<str>,
    },
    /// This version was refused.
    Rejected {
        /// SHA-256 in hex, when the file could be read.
        digest: Option<Arc<str>>,
        /// Why.
        fault: PluginFault,
        /// In words.
        message: String,
    },
    /// It failed too often and pauses.
    SetAside {
        /// For how long.
        pause: Duration,
    },
    /// It failed in its first minutes; the last good version runs again.
    RolledBack {
        /// SHA-256 in hex of the version that runs now.
        digest: Arc<str>,
    },
    /// Its file is gone, and so is it.
    Removed,
}

impl PluginChange {
    /// Name of the event.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Loaded { .. } => "plugin_loaded",
            Self::Rejected { .. } => "plugin_rejected",
            Self::SetAside { .. } => "plugin_set_aside",
            Self::RolledBack { .. } => "plugin_rolled_back",
            Self::Removed => "plugin_removed",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// At a target.
    Provider {
        /// What.
        what: ProviderEvent,
        /// `upstream/model`: for `FallbackSucceeded` the one that served, for `StreamInterrupted` the one
        /// that broke.
        target: Arc<str>,
        /// The request in which it was seen.
        request_id: Option<Arc<str>>,
        /// Kind of the failure.
        kind: Option<FailureKind>,
        /// Status of the upstream.
        status: Option<u16>,
        /// Time it took.
        took: Option<Duration>,
    },
    /// A breaker changed its state.
    Breaker {
        /// `upstream/model`.
        target: Arc<str>,
        /// The new state.
        to: BreakerState,
        /// How long it stays open, when it opened.
        open_for: Option<Duration>,
        /// The request whose result did it.
        request_id: Option<Arc<str>>,
    },
    /// A configuration came into force.
    ConfigReloaded {
        /// The generation it is part of.
        generation: u64,
        /// Keys that have another value in the file than in this process, which has to start again for them.
        needs_restart: Vec<&'static str>,
    },
    /// A configuration was refused; the old one stays.
    ConfigRejected {
        /// Why.
        fault: ConfigFault,
        /// How many mistakes there are.
        mistakes: usize,
        /// All of them in words, one a line, with file, line and column; never a line of the file.
        message: String,
    },
    /// A plugin changed.
    Plugin {
        /// Its name.
        plugin: Arc<str>,
        /// How.
        change: PluginChange,
    },
}

impl Event {
    /// Name of the event, as the log and dashboards know it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Provider { what, .. } => what.as_str(),
            Self::Breaker { to, .. } => match to {
                BreakerState::Open => "breaker_opened",
                BreakerState::HalfOpen => "breaker_half_open",
                BreakerState::Closed => "breaker_closed",
            },
            Self::ConfigReloaded { .. } => "config_reloaded",
            Self::ConfigRejected { .. } => "config_rejected",
            Self::Plugin { change, .. } => change.name(),
        }
    }

    /// How much it matters.
    pub fn level(&self) -> Level {
        match self {
            Self::Provider { what, .. } => match what {
                ProviderEvent::RequestFailed
                | ProviderEvent::ProbeFailed
                | ProviderEvent::StreamInterrupted => Level::WARN,
                _ => Level::INFO,
            },
            Self::Breaker { to: BreakerState::Open, .. } => Level::WARN,
            Self::ConfigReloaded { needs_restart, .. } if !needs_restart.is_empty() => Level::WARN,
            Self::Breaker { .. } | Self::ConfigReloaded { .. } => Level::INFO,
            Self::ConfigRejected { .. } => Level::ERROR,
            Self::Plugin { change, .. } => match change {
                PluginChange::Rejected { .. } => Level::ERROR,
                PluginChange::SetAside { .. } | PluginChange::RolledBack { .. } => Level::WARN,
                PluginChange::Loaded { .. } | PluginChange::Removed => Level::INFO,
            },
        }
    }

    /// The line of the log, without its line feed. Members that are not known are left out.
    pub fn line(&self, format: LogFormat, time: SystemTime) -> Vec<u8> {
        let mut line = Line::new(format, time, self.level());
        line.text("event", self.name());
        match self {
            Self::Provider { target, request_id, kind, status, took, .. } => {
                line.maybe("request_id", request_id.as_deref());
                line.text("target", target);
                line.maybe("kind", kind.map(FailureKind::as_str));
                if let Some(status) = status {
                    line.number("status", *status);
                }
                if let Some(took) = took {
                    line.number("ms", whole_ms(*took));
                }
            }
            Self::Breaker { target, open_for, request_id, .. } => {
                line.maybe("request_id", request_id.as_deref());
                line.text("target", target);
                if let Some(open_for) = open_for {
                    line.number("ms", whole_ms(*open_for));
                }
            }
            Self::ConfigReloaded { generation, needs_restart } => {
                line.number("generation", *generation);
                if !needs_restart.is_empty() {
                    line.text("needs_restart", &needs_restart.join(" "));
                }
            }
            Self::ConfigRejected { fault, mistakes, message } => {
                line.text("reason", fault.as_str());
                line.number("mistakes", u32::try_from(*mistakes).unwrap_or(u32::MAX));
                line.text("message", message);
            }
            Self::Plugin { plugin, change } => {
                line.text("plugin", plugin);
                plugin_fields(&mut line, change);
            }
        }
        line.finish()
    }
}

fn plugin_fields(line: &mut Line, change: &PluginChange) {
    match change {
        PluginChange::Loaded { digest } | PluginChange::RolledBack { digest } => line.text("digest", digest),
        PluginChange::Rejected { digest, fault, message } => {
            line.maybe("digest", digest.as_deref());
            line.text("reason", fault.as_str());
            line.text("message", message);
        }
        PluginChange::SetAside { pause } => line.number("ms", whole_ms(*pause)),
        PluginChange::Removed => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
