//! The policy inside the binary: it runs where the folder has nothing of a kind, and answers in the place
//! of plugins that fail.

use std::sync::{Arc, OnceLock};

use sluice_core::facts::{PluginKind, TargetFacts};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::admission::admit;
use super::compiled::{Bounds, Compiled, digest};
use super::engine::Host;
use super::loaded::{History, Parts, Plugin};
use super::options::PluginOptions;
use super::rejection::Rejection;
use super::watch::PluginWatch;

/// Settings of the bundled plugins, each a JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltinSettings {
    /// Of `weighted-router`.
    pub router_json: String,
    /// Of `standard-classifier`.
    pub classifier_json: String,
    /// Of `standard-tagger`.
    pub tagger_json: String,
}

impl Default for BuiltinSettings {
    fn default() -> Self {
        let none = || "{}".to_owned();
        Self { router_json: none(), classifier_json: none(), tagger_json: none() }
    }
}

impl BuiltinSettings {
    fn of(&self, kind: PluginKind) -> &str {
        match kind {
            PluginKind::Router => &self.router_json,
            PluginKind::Classifier => &self.classifier_json,
            PluginKind::Tagger => &self.tagger_json,
        }
    }
}

/// Name and bytes of the bundled plugin of a kind.
pub const fn source(kind: PluginKind) -> (&'static str, &'static [u8]) {
    match kind {
        PluginKind::Router => {
            ("weighted-router", include_bytes!("../../../plugins/weighted-router/weighted-router.wasm"))
        }
        PluginKind::Classifier => (
            "standard-classifier",
            include_bytes!("../../../plugins/standard-classifier/standard-classifier.wasm"),
        ),
        PluginKind::Tagger => {
            ("standard-tagger", include_bytes!("../../../plugins/standard-tagger/standard-tagger.wasm"))
        }
    }
}

/// One bundled plugin of each kind.
#[derive(Debug, Clone)]
pub struct Bundled {
    /// `weighted-router`.
    pub router: Arc<Plugin>,
    /// `standard-classifier`.
    pub classifier: Arc<Plugin>,
    /// `standard-tagger`.
    pub tagger: Arc<Plugin>,
}

/// A bundled plugin does not run, which is a mistake of its settings or of the build.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("the bundled plugin `{name}` does not run: {rejection}")]
pub struct BundledError {
    /// Its name.
    pub name: &'static str,
    /// Why.
    pub rejection: Rejection,
}

impl Bundled {
    /// Starts all three. `before` passes on their history.
    ///
    /// # Errors
    /// One of them does not run.
    pub async fn start(
        host: &'static Host,
        tracker: &TaskTracker,
        defaults: &PluginOptions,
        targets: &Arc<[TargetFacts]>,
        settings: &BuiltinSettings,
        watch: &Arc<dyn PluginWatch>,
        before: Option<&Self>,
    ) -> Result<Self, BundledError> {
        let threads = tokio::runtime::Handle::current().metrics().num_workers();
        let mut started = Vec::with_capacity(PluginKind::ALL.len());
        for kind in PluginKind::ALL {
            let (name, bytes) = source(kind);
            let options = defaults.bundled(settings.of(kind), threads);
            let parts = |compiled| Parts {
                name: name.into(),
                file: None,
                compiled,
                options: Arc::new(options),
                targets: targets.clone(),
                watch: watch.clone(),
                history: before.map_or_else(History::new, |before| before.of(kind).history().clone()),
                trouble: Arc::new(Notify::new()),
            };
            // Its bytes and needs are ours, not the operator's, so only what a call may take is theirs to set.
            let bounds = Bounds { file: u64::MAX, memory: defaults.memory };
            let admitted = admit(host, tracker, bytes.into(), digest(bytes), None, bounds, parts).await;
            let plugin = admitted.map_err(|rejection| BundledError { name, rejection })?;
            keep(kind, plugin.compiled());
            started.push(Arc::new(plugin));
        }
        let mut started = started.into_iter();
        match (started.next(), started.next(), started.next()) {
            (Some(router), Some(classifier), Some(tagger)) => Ok(Self { router, classifier, tagger }),
            _ => Err(BundledError { name: "bundled", rejection: Rejection::Empty }),
        }
    }

    /// The bundled plugin of a kind.
    pub fn of(&self, kind: PluginKind) -> &Arc<Plugin> {
        match kind {
            PluginKind::Router => &self.router,
            PluginKind::Classifier => &self.classifier,
            PluginKind::Tagger => &self.tagger,
        }
    }
}

/// The code of the bundled plugins stays, so that a further gateway in the process does not compile it again.
fn keep(kind: PluginKind, compiled: &Arc<Compiled>) {
    static KEPT: [OnceLock<Arc<Compiled>>; 3] = [const { OnceLock::new() }; 3];
    let at = match kind {
        PluginKind::Router => 0,
        PluginKind::Classifier => 1,
        PluginKind::Tagger => 2,
    };
    let _ = KEPT[at].set(compiled.clone());
}
