//! What a configuration comes to, part by part, when a gateway starts and when it takes a new one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluice_core::facts::{PluginKind, TargetFacts};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::watch;
use crate::config::{self, Config, Sources};
use crate::generation::target_facts;
use crate::plugin::{BuiltinSettings, PluginState, Registry};
use crate::telemetry::Telemetry;
use crate::upstream::{Client, Dial, TcpDial, TlsSetupError};

/// Connections to each upstream, by its name.
pub(super) type Clients = BTreeMap<Arc<str>, Arc<Client>>;

/// Makes clients.
#[derive(Clone)]
pub(super) struct Workshop {
    /// Makes connections; none: over TCP.
    pub dial: Option<Arc<dyn Dial>>,
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
}

/// Clients that run, and the files they were made from.
pub(super) struct Before<'a> {
    pub clients: &'a Clients,
    pub sources: &'a Sources,
    /// What was read for the new ones.
    pub now: &'a Sources,
}

impl Workshop {
    /// One for each upstream. A client whose settings are as before goes on, and so do its connections; one that
    /// is not taken over ends with the last request that holds it.
    pub(super) fn clients(
        &self,
        config: &Config,
        before: Option<&Before<'_>>,
    ) -> Result<Clients, TlsSetupError> {
        let mut clients = BTreeMap::new();
        for (name, upstream) in &config.upstreams {
            let client = match before.and_then(|before| before.still_good(name, upstream)) {
                Some(client) => client,
                None => {
                    let dial: Arc<dyn Dial> = match &self.dial {
                        Some(dial) => dial.clone(),
                        None => Arc::new(TcpDial::new(upstream)?),
                    };
                    let (tracker, stop) = (self.tracker.clone(), self.stop.clone());
                    Arc::new(Client::new(upstream.clone(), dial, tracker, stop))
                }
            };
            clients.insert(name.clone(), client);
        }
        Ok(clients)
    }
}

impl Before<'_> {
    fn still_good(&self, name: &str, upstream: &config::Upstream) -> Option<Arc<Client>> {
        let client = self.clients.get(name).filter(|client| client.serves(upstream))?;
        let same_roots = upstream.ca_file.as_ref().is_none_or(|file| self.sources.agree_on(self.now, file));
        same_roots.then(|| client.clone())
    }
}

/// What plugins are configured with.
#[derive(Clone, PartialEq)]
pub(super) struct PluginSetup {
    pub plugins: config::Plugins,
    pub targets: Vec<TargetFacts>,
    pub builtin: BuiltinSettings,
}

impl PluginSetup {
    pub(super) fn of(config: &Config) -> Self {
        let plugins = config.plugins.clone();
        Self { plugins, targets: target_facts(config), builtin: builtin_settings(config) }
    }
}

/// Counters of the plugins that there are begin at zero, and those of plugins that are gone go.
pub(super) fn name_plugins(telemetry: &Telemetry, registry: &Registry) {
    let mut there = registry.status();
    there.retain(|entry| entry.state != PluginState::Removed);
    // There may be more files than names; the bundled ones always have theirs.
    there.sort_by_key(|entry| entry.file.is_some());
    let kinds =
        |names: &[&str]| PluginKind::ALL.into_iter().filter(|kind| names.contains(&kind.as_str())).collect();
    let named = there.iter().map(|entry| (entry.name.as_str().into(), kinds(&entry.kinds)));
    let names: Vec<_> =
        std::iter::once((watch::LAST_RESORT.into(), PluginKind::ALL.to_vec())).chain(named).collect();
    telemetry.metrics().set_plugins(&names);
}

/// What the configuration says to the bundled plugins.
fn builtin_settings(config: &Config) -> BuiltinSettings {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let cooldown = &config.breaker.cooldown;
    let classifier = serde_json::json!({"cooldown_ms": {
        "rate_limit": ms(cooldown.rate_limit),
        "model": ms(cooldown.model),
        "quota": ms(cooldown.quota),
        "auth": ms(cooldown.auth),
        "max": ms(cooldown.max),
    }});
    let tagger =
        serde_json::json!({"names": config.tags.names, "expose_upstream": config.tags.expose_upstream});
    BuiltinSettings {
        router_json: "{}".to_owned(),
        classifier_json: classifier.to_string(),
        tagger_json: tagger.to_string(),
    }
}
