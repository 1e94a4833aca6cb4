//! Ties what state and plugins tell to metrics, events and log.

use std::sync::Arc;
use std::time::Duration;

use sluice_core::facts::{BreakerState, PluginKind};

use crate::plugin::{self, LogLevel, LogLine, LogSource, PluginWatch, Reload};
use crate::state::{self, StateWatch};
use crate::telemetry::Telemetry;
use crate::telemetry::events::{Event, PluginChange, PluginFault};
use crate::telemetry::names::{CallResult, GateRefusal};

/// As metrics name the host's own answers, where neither a plugin nor a bundled one gave any.
pub(super) const LAST_RESORT: &str = "last-resort";

/// The one listener of both.
pub(super) struct Watch(pub Telemetry);

impl StateWatch for Watch {
    fn breaker_changed(&self, target: &Arc<str>, _from: BreakerState, to: BreakerState) {
        self.0.event(&Event::Breaker { target: target.clone(), to, open_for: None, request_id: None });
    }

    fn gate_waited(&self, gate: &str, waited: Duration) {
        self.0.metrics().gate_waited(gate, waited);
    }

    fn gate_refused(&self, gate: &str, reason: state::GateRefusal) {
        let reason = match reason {
            state::GateRefusal::Full => GateRefusal::QueueFull,
            state::GateRefusal::TimedOut => GateRefusal::QueueTimeout,
        };
        self.0.metrics().gate_refused(gate, reason);
    }
}

impl PluginWatch for Watch {
    fn called(&self, plugin: &str, kind: PluginKind, result: plugin::CallResult, took: Duration) {
        let result = call_result(result);
        let ran = !matches!(result, CallResult::Saturated | CallResult::SetAside);
        self.0.metrics().plugin_called(plugin, kind, result, ran.then_some(took));
    }

    fn reloaded(&self, plugin: &str, change: Reload<'_>) {
        let change = match change {
            Reload::Loaded { digest } => PluginChange::Loaded { digest: digest.into() },
            Reload::Rejected { digest, reason, message } => PluginChange::Rejected {
                digest: digest.map(Into::into),
                fault: fault(reason),
                message: message.to_owned(),
            },
            Reload::Removed => PluginChange::Removed,
            Reload::RolledBack { digest } => PluginChange::RolledBack { digest: digest.into() },
        };
        self.0.event(&Event::Plugin { plugin: plugin.into(), change });
    }

    fn log_line(&self, line: &LogLine<'_>) {
        let LogLine { plugin, digest, text, .. } = *line;
        let digest = digest.get(..8).unwrap_or(digest);
        let source = match line.source {
            LogSource::Log => "log",
            LogSource::Stdout => "stdout",
            LogSource::Stderr => "stderr",
            LogSource::Host => "host",
        };
        match line.level {
            LogLevel::Debug => tracing::debug!(target: "sluice::plugin", plugin, digest, source, "{text}"),
            LogLevel::Info => tracing::info!(target: "sluice::plugin", plugin, digest, source, "{text}"),
            LogLevel::Warn => tracing::warn!(target: "sluice::plugin", plugin, digest, source, "{text}"),
            LogLevel::Error => tracing::error!(target: "sluice::plugin", plugin, digest, source, "{text}"),
        }
    }

    fn set_aside(&self, plugin: &str, pause: Duration) {
        self.0.event(&Event::Plugin { plugin: plugin.into(), change: PluginChange::SetAside { pause } });
    }

    fn last_resort(&self, kind: PluginKind) {
        self.0.metrics().plugin_called(LAST_RESORT, kind, CallResult::Ok, None);
    }
}

fn call_result(result: plugin::CallResult) -> CallResult {
    match result {
        plugin::CallResult::Ok => CallResult::Ok,
        plugin::CallResult::None => CallResult::None,
        plugin::CallResult::Trap => CallResult::Trap,
        plugin::CallResult::Timeout => CallResult::Timeout,
        plugin::CallResult::Memory => CallResult::Memory,
        plugin::CallResult::Stack => CallResult::Stack,
        plugin::CallResult::Invalid => CallResult::Invalid,
        plugin::CallResult::Saturated => CallResult::Saturated,
        plugin::CallResult::SetAside => CallResult::SetAside,
    }
}

fn fault(reason: plugin::Reason) -> PluginFault {
    use plugin::Reason as R;
    match reason {
        R::Read => PluginFault::Read,
        R::Size => PluginFault::Size,
        R::Magic => PluginFault::Magic,
        R::Parse => PluginFault::Parse,
        R::Precompiled => PluginFault::Precompiled,
        R::Import => PluginFault::Import,
        R::Contract => PluginFault::Contract,
        R::Resources => PluginFault::Resources,
        R::Compile => PluginFault::Compile,
        R::Instantiate => PluginFault::Instantiate,
        R::Configure => PluginFault::Configure,
        R::Probe => PluginFault::Probe,
        R::Digest => PluginFault::Digest,
        R::Sidecar => PluginFault::Sidecar,
        R::NameConflict => PluginFault::NameConflict,
    }
}
