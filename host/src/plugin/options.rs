//! How one plugin is run: the configuration's defaults, and what its operator chose for it.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{self, Sidecar};

pub use crate::config::{Instances, OnError};

/// How one plugin is run.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginOptions {
    /// Switched off: its file is known, nothing of it runs.
    pub enabled: bool,
    /// Of its scores among several routers.
    pub weight: f64,
    /// What happens when it fails.
    pub on_error: OnError,
    /// SHA-256 its bytes must have, in lower-case hex.
    pub sha256: Option<String>,
    /// How long an instance lives.
    pub instances: Instances,
    /// Running time of one call.
    pub deadline: Duration,
    /// Linear memory of one instance, bytes.
    pub memory: u64,
    /// Calls at a time.
    pub concurrency: u32,
    /// Largest file, bytes.
    pub file: u64,
    /// Calls after which an instance is retired.
    pub calls: u64,
    /// Age at which an instance is retired.
    pub age: Duration,
    /// Whether a call that runs for long gives way to others now and then. One that does holds its place
    /// meanwhile, for as long as a busy runtime takes to come back to it.
    pub gives_way: bool,
    /// A JSON object for `configure`.
    pub settings_json: String,
    /// What its operator chose, for when the configuration changes.
    pub sidecar: Arc<Sidecar>,
}

impl PluginOptions {
    /// What holds for a plugin about which nothing else is said.
    pub fn defaults(plugins: &config::Plugins) -> Self {
        Self::of(plugins, Arc::default())
    }

    /// What holds for a plugin with this sidecar.
    pub fn of(plugins: &config::Plugins, sidecar: Arc<Sidecar>) -> Self {
        let limits = sidecar.limits;
        Self {
            enabled: sidecar.enabled,
            weight: sidecar.weight,
            on_error: sidecar.on_error,
            sha256: sidecar.sha256.clone(),
            instances: sidecar.instances,
            deadline: limits.deadline.unwrap_or(plugins.deadline),
            memory: limits.memory.unwrap_or(plugins.memory),
            concurrency: limits.concurrency.unwrap_or(plugins.concurrency),
            file: limits.file.unwrap_or(plugins.max_file),
            calls: limits.calls.map_or(10_000, u64::from),
            age: limits.age.unwrap_or(Duration::from_secs(600)),
            gives_way: true,
            settings_json: sidecar.settings_json.clone(),
            sidecar,
        }
    }

    /// The same when its sidecar cannot be read but for what is to happen when it fails.
    #[must_use]
    pub fn failing(plugins: &config::Plugins, on_error: OnError) -> Self {
        Self::of(plugins, Arc::new(Sidecar { on_error, ..Sidecar::default() }))
    }

    /// The same for a plugin of the binary. What it does is known to be short, so its calls run in one go, and
    /// with a place for each thread that may run one, none ever waits: a busy gateway is no reason for the last resort.
    #[must_use]
    pub fn bundled(&self, settings_json: &str, threads: usize) -> Self {
        let places = u32::try_from(threads.saturating_mul(2)).unwrap_or(u32::MAX);
        Self {
            concurrency: self.concurrency.max(places),
            gives_way: false,
            settings_json: settings_json.to_owned(),
            ..self.clone()
        }
    }

    /// Calls an instance may serve.
    pub fn calls_of_an_instance(&self) -> u64 {
        match self.instances {
            Instances::Warm => self.calls.max(1),
            Instances::Fresh => 1,
        }
    }
}
