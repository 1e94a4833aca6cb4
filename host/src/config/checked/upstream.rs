//! An upstream once it is known to be right: where it is, what opens it, what its models can do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use sluice_core::quota::Limits;

use super::Gate;

/// One upstream and one of its models.
#[derive(Debug, Clone)]
pub struct Target {
    /// `upstream/model`: metric label and page key.
    pub key: Arc<str>,
    /// The upstream.
    pub upstream: Arc<Upstream>,
    /// Name of the model there.
    pub model: Arc<str>,
    /// What the configuration says about the model.
    pub facts: Model,
    /// Its own gate beside the upstream's.
    pub max_in_flight: Option<u32>,
}

/// `models.NAME` of an upstream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Model {
    /// Context window, tokens.
    pub context: Option<u32>,
    /// Capabilities; none: not known.
    pub supports: Option<Vec<Capability>>,
    /// Price per million tokens.
    pub price: Option<Price>,
    /// Region.
    pub region: Option<String>,
    /// Free attributes, those of the upstream included.
    pub attributes: BTreeMap<String, String>,
}

/// `supports`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Tool calls.
    Tools,
    /// Images in messages.
    Images,
    /// JSON output.
    Json,
}

impl Capability {
    /// Spelling in the configuration and towards plugins.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Images => "images",
            Self::Json => "json",
        }
    }
}

/// `price`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Per million input tokens.
    pub input: f64,
    /// Per million output tokens.
    pub output: f64,
}

/// One provider account.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Name.
    pub name: Arc<str>,
    /// Scheme, authority, path without a trailing slash; a query is apart.
    pub base: BaseUrl,
    /// Keys, in order; may be empty.
    pub credentials: Vec<Credential>,
    /// Header that carries the key; `authorization` carries `Bearer KEY`.
    pub auth_header: http::HeaderName,
    /// Its gate.
    pub gate: Gate,
    /// Fixed headers.
    pub headers: Vec<(http::HeaderName, SecretString)>,
    /// Idle connections are closed after this.
    pub pool_idle: Duration,
    /// Roots to trust instead of the system's, PEM.
    pub ca_file: Option<PathBuf>,
    /// What the provider allows a minute, for routers, as long as it tells nothing itself; none: not known.
    pub quota: Option<Limits>,
    /// Background checks.
    pub probe: Probe,
    /// Region.
    pub region: Option<String>,
}

/// A base URL, taken apart once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// `https`.
    pub tls: bool,
    /// Host and port as they go into `host`.
    pub authority: http::uri::Authority,
    /// Path in front of `/chat/completions`, without a trailing slash; may be empty.
    pub path: String,
    /// Query that stays on each call, without `?`.
    pub query: Option<String>,
}

/// A key and where it came from.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The key itself; blank in every `Debug`.
    pub key: SecretString,
    /// `env:NAME` or `file:PATH`, as written.
    pub reference: String,
}

impl PartialEq for Credential {
    fn eq(&self, other: &Self) -> bool {
        self.reference == other.reference && self.key.expose_secret() == other.key.expose_secret()
    }
}

/// `probe` of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// The next call is the probe.
    Passive,
    /// A background check is.
    Active {
        /// Path behind the base.
        path: String,
        /// Between checks.
        interval: Duration,
        /// Of one check.
        timeout: Duration,
    },
}
