//! What the plugin host tells whoever counts and writes logs. It calls; others implement.

use std::time::Duration;

use sluice_core::facts::PluginKind;

use super::call::CallResult;
use super::rejection::Reason;

/// How much a line of a plugin matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// For the author of the plugin.
    Debug,
    /// Worth knowing.
    Info,
    /// Something is not as it should be.
    Warn,
    /// A decision could not be made as intended.
    Error,
}

/// Where a line of a plugin came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSource {
    /// The `log` import.
    Log,
    /// Standard output.
    Stdout,
    /// Standard error: among others the text of a panic.
    Stderr,
    /// The host, about the plugin.
    Host,
}

/// One line, at most 1 KiB, without line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Name of the plugin.
    pub plugin: &'a str,
    /// SHA-256 of its bytes, in hex.
    pub digest: &'a str,
    /// Where it came from.
    pub source: LogSource,
    /// How much it matters.
    pub level: LogLevel,
    /// The text. Written by the plugin: not to be trusted.
    pub text: &'a str,
}

/// A change of what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload<'a> {
    /// A version runs now.
    Loaded {
        /// SHA-256 of its bytes, in hex.
        digest: &'a str,
    },
    /// A version was refused; what ran before still does.
    Rejected {
        /// SHA-256 of the refused bytes, in hex; none: they could not be read.
        digest: Option<&'a str>,
        /// Why.
        reason: Reason,
        /// What was expected and what came.
        message: &'a str,
    },
    /// Its file is gone.
    Removed,
    /// A version failed in its first minutes; the one before it runs again.
    RolledBack {
        /// SHA-256 of the bytes that run again, in hex.
        digest: &'a str,
    },
}

impl Reload<'_> {
    /// `result` of `sluice_plugin_reloads_total`.
    pub const fn result(&self) -> &'static str {
        match self {
            Self::Loaded { .. } => "loaded",
            Self::Rejected { .. } => "rejected",
            Self::Removed => "removed",
            Self::RolledBack { .. } => "rolled_back",
        }
    }
}

/// Is told of everything that is counted or logged. Called on the request path: must not block.
pub trait PluginWatch: Send + Sync + 'static {
    /// A call ended, or was not made because the plugin is set aside.
    fn called(&self, plugin: &str, kind: PluginKind, result: CallResult, took: Duration);

    /// What runs has changed, or a version was refused.
    fn reloaded(&self, plugin: &str, change: Reload<'_>);

    /// A plugin wrote a line, or the host has something to say about it.
    fn log_line(&self, line: &LogLine<'_>);

    /// A plugin is set aside for so long.
    fn set_aside(&self, plugin: &str, pause: Duration);

    /// Neither the plugins nor the bundled policy could answer; the host's last resort did.
    fn last_resort(&self, kind: PluginKind);
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl PluginWatch for Quiet {
    fn called(&self, _: &str, _: PluginKind, _: CallResult, _: Duration) {}
    fn reloaded(&self, _: &str, _: Reload<'_>) {}
    fn log_line(&self, _: &LogLine<'_>) {}
    fn set_aside(&self, _: &str, _: Duration) {}
    fn last_resort(&self, _: PluginKind) {}
}
