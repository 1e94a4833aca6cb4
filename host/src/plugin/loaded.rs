//! A plugin that passed admission: asked by the policy, set aside when it keeps failing.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sluice_core::aside::{Admit, Aside, Change, FAILURES};
use sluice_core::facts::{PluginKind, PluginRef, TargetFacts};
use tokio::sync::Notify;

use super::call::{Ask, CallError, CallResult, Said};
use super::compiled::Compiled;
use super::contract::{Contract, Description};
use super::instance::{NoInstance, Spec};
use super::options::{OnError, PluginOptions};
use super::pool::Pool;
use super::state::Voice;
use super::stats::Stats;
use super::watch::{LogLevel, LogSource, PluginWatch};
use crate::clock;

/// What outlives a reconfiguration: how the version has done so far.
#[derive(Clone)]
pub struct History {
    /// Counters.
    pub stats: Arc<Stats>,
    /// Whether it is set aside.
    pub aside: Arc<Mutex<Aside>>,
    /// Failures in a row of one that is never set aside.
    pub failures: Arc<AtomicU32>,
    /// When this version began to run.
    pub since: SystemTime,
    /// The same on the monotonic clock.
    pub began: Instant,
    /// Instances alive.
    pub live: Arc<AtomicUsize>,
}

impl History {
    /// Begins now.
    pub fn new() -> Self {
        Self {
            stats: Arc::default(),
            aside: Arc::default(),
            failures: Arc::default(),
            since: clock::wall(),
            began: clock::now(),
            live: Arc::default(),
        }
    }
}

/// A plugin that can be asked.
pub struct Plugin {
    name: Arc<str>,
    file: Option<Arc<str>>,
    description: Description,
    pool: Pool,
    history: History,
    trouble: Arc<Notify>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.name)
            .field("digest", self.digest())
            .finish_non_exhaustive()
    }
}

/// What a [`Plugin`] is made of.
pub struct Parts {
    /// File name without its ending, or the name of a bundled plugin.
    pub name: Arc<str>,
    /// File name; none: bundled.
    pub file: Option<Arc<str>>,
    /// What is instantiated.
    pub compiled: Arc<Compiled>,
    /// How it is run.
    pub options: Arc<PluginOptions>,
    /// What it is configured with.
    pub targets: Arc<[TargetFacts]>,
    /// Who is told.
    pub watch: Arc<dyn PluginWatch>,
    /// How it has done so far.
    pub history: History,
    /// Rung when it is set aside, or fails as often without being so.
    pub trouble: Arc<Notify>,
}

impl Plugin {
    /// Makes its first instance.
    ///
    /// # Errors
    /// There is none.
    pub async fn start(host: &'static super::engine::Host, parts: Parts) -> Result<Self, NoInstance> {
        let voice = Voice {
            plugin: parts.name.clone(),
            digest: parts.compiled.digest.clone(),
            watch: parts.watch.clone(),
        };
        let pool = Pool::new(Spec {
            host,
            compiled: parts.compiled,
            voice,
            options: parts.options,
            targets: parts.targets,
            live: parts.history.live.clone(),
        });
        let description = pool.warm().await?;
        let Parts { name, file, history, trouble, .. } = parts;
        Ok(Self { name, file, description, pool, history, trouble })
    }

    /// Asks once. Everything that comes of it is counted; a plugin that keeps failing is set aside, unless
    /// its failures are to deny.
    ///
    /// # Errors
    /// It gave no answer that the contract allows.
    pub async fn ask(&self, ask: Ask<'_>) -> Result<Said, CallError> {
        let began = clock::now();
        let mut admission = match self.admit(began) {
            Admit::SetAside => {
                self.count(ask.kind(), CallResult::SetAside, Duration::ZERO);
                return Err(CallError::SetAside);
            }
            Admit::Trial => Admission { plugin: self, trial: true, settled: false },
            Admit::Run => Admission { plugin: self, trial: false, settled: false },
        };
        let outcome = self.pool.ask(ask, began).await;
        let now = clock::now();
        let result = match &outcome {
            Ok(Said::Verdict(None)) => CallResult::None,
            Ok(_) => CallResult::Ok,
            Err(error) => error.result(),
        };
        if let Err(error) = &outcome
            && result.is_failure()
        {
            self.pool.spec().voice.say(LogSource::Host, LogLevel::Warn, &error.to_string());
        }
        admission.settle(result, now);
        self.count(ask.kind(), result, now.duration_since(began));
        outcome
    }

    fn may_be_set_aside(&self) -> bool {
        self.options().on_error == OnError::Bundled && self.file.is_some()
    }

    fn admit(&self, now: Instant) -> Admit {
        if self.may_be_set_aside() { self.aside(|aside| aside.admit(now)) } else { Admit::Run }
    }

    fn aside<T>(&self, with: impl FnOnce(&mut Aside) -> T) -> T {
        with(&mut self.history.aside.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self, kind: PluginKind, result: CallResult, took: Duration) {
        self.history.stats.count(result, took);
        self.watch().called(&self.name, kind, result, took);
    }

    fn watch(&self) -> &dyn PluginWatch {
        &*self.pool.spec().voice.watch
    }

    /// Whether it is set aside right now.
    pub fn is_set_aside(&self) -> bool {
        self.aside(|aside| aside.is_set_aside())
    }

    /// It fails so often in a row that a version which is new is to give way to the one before. Also one whose
    /// failures are to deny, which is never set aside for them.
    pub fn keeps_failing(&self) -> bool {
        self.is_set_aside() || self.history.failures.load(Ordering::Relaxed) >= FAILURES
    }

    /// Counts for one that is never set aside.
    fn count_failure(&self, failed: bool) {
        if !failed {
            self.history.failures.store(0, Ordering::Relaxed);
            return;
        }
        let failures = self.history.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if failures.is_multiple_of(FAILURES) {
            self.trouble.notify_one();
        }
    }

    /// File name without its ending, or the name of a bundled plugin.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// File name; none: bundled.
    pub fn file(&self) -> Option<&Arc<str>> {
        self.file.as_ref()
    }

    /// SHA-256 of its bytes, in hex.
    pub fn digest(&self) -> &Arc<str> {
        &self.pool.spec().compiled.digest
    }

    /// The contract it was built for.
    pub fn contract(&self) -> Contract {
        self.pool.spec().compiled.contract
    }

    /// Its version in its own words.
    pub fn version(&self) -> &str {
        &self.description.version
    }

    /// What it can be asked for.
    pub fn kinds(&self) -> &[PluginKind] {
        &self.pool.spec().compiled.kinds
    }

    /// How it is run.
    pub fn options(&self) -> &Arc<PluginOptions> {
        &self.pool.spec().options
    }

    /// Whether its tagger wants the head (`true`) or the record (`false`).
    pub fn wants_tags(&self, head: bool) -> bool {
        if head { self.description.tags_head } else { self.description.tags_record }
    }

    /// As records and headers name it.
    pub fn named(&self, kind: PluginKind) -> PluginRef {
        PluginRef { name: self.name.clone(), kind, digest: self.digest().clone() }
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn compiled(&self) -> &Arc<Compiled> {
        &self.pool.spec().compiled
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }
}

/// A call that was let in: settled once, or, when it is dropped, without a result.
struct Admission<'a> {
    plugin: &'a Plugin,
    trial: bool,
    settled: bool,
}

impl Admission<'_> {
    fn settle(&mut self, result: CallResult, now: Instant) {
        if result == CallResult::Saturated {
            return;
        }
        self.settled = true;
        if !self.plugin.may_be_set_aside() {
            self.plugin.count_failure(result.is_failure());
            return;
        }
        match self.plugin.aside(|aside| aside.settle(self.trial, !result.is_failure(), now)) {
            Change::None | Change::Recovered => {}
            Change::SetAside(pause) => {
                self.plugin.pool.clear();
                self.plugin.watch().set_aside(&self.plugin.name, pause);
                self.plugin.trouble.notify_one();
            }
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.trial && !self.settled {
            self.plugin.aside(Aside::give_back);
        }
    }
}
