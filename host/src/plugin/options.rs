//! How one plugin is run: the configuration's defaults, and what its operator chose for it.

use std::sync::Arc;
use std::time::Duration;

use super::folder::Found;
use super::rejection::Rejection;
use crate::config;

/// What happens when a plugin fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The bundled policy answers in its place.
    Bundled,
    /// The request is refused.
    Deny,
}

impl OnError {
    /// Spelling in the configuration and on pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::Deny => "deny",
        }
    }
}

/// How long an instance lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instances {
    /// For many calls.
    Warm,
    /// For one call.
    Fresh,
}

impl Instances {
    /// Spelling in the sidecar and on pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Fresh => "fresh",
        }
    }
}

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
}

impl PluginOptions {
    /// What holds for a plugin about which nothing else is said.
    pub fn defaults(plugins: &config::Plugins) -> Self {
        Self {
            enabled: true,
            weight: 1.0,
            on_error: OnError::Bundled,
            sha256: None,
            instances: Instances::Warm,
            deadline: plugins.deadline,
            memory: plugins.memory,
            concurrency: plugins.concurrency,
            file: plugins.max_file,
            calls: 10_000,
            age: Duration::from_secs(600),
            gives_way: true,
            settings_json: "{}".into(),
        }
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

/// The options of a file. Sidecars are not read yet, and one that is there is not passed over in silence.
///
/// # Errors
/// [`Rejection::Sidecar`].
pub fn options_of(found: &Found, plugins: &config::Plugins) -> Result<Arc<PluginOptions>, Rejection> {
    match &found.sidecar {
        Some(path) => Err(Rejection::Sidecar(format!(
            "`{}` is there, and sidecars are not supported yet: expected none",
            path.file_name().unwrap_or(path.as_os_str()).display()
        ))),
        None => Ok(Arc::new(PluginOptions::defaults(plugins))),
    }
}
