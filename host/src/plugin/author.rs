//! One component on its own, for its author: admitted as a gateway would, asked as a gateway would, and measured.
//!
//! Nothing here decides anything of its own: files are found by the folder's rules, admitted by the one road in, and
//! asked through the plugin's own pool. Only counting what a guest executes needs another engine, because the count
//! slows every call; there the same instance is made and asked.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use sluice_core::facts::{
    AnswerFacts, Candidate, FailureFacts, Moment, PluginKind, RequestFacts, TagPhase, TargetFacts,
};
use tokio_util::task::TaskTracker;

use super::call::{Ask, CallError};
use super::compiled::{Bounds, prepare};
use super::engine::{EngineError, Host};
use super::folder::{self, Found};
use super::instance::{Instance, Spec};
use super::job::{Unread, options_of, source_of};
use super::last_good::Source;
use super::loaded::Plugin;
use super::options::{Instances, OnError, PluginOptions};
use super::probe;
use super::registry::StartError;
use super::rehearsal::shop;
use super::rejection::Rejection;
use super::state::Voice;
use super::watch::{PluginWatch, Quiet};
use crate::clock;
use crate::config;

/// Calls of a warm instance before the one whose cost is told, so that what it keeps has found its size.
const CALLS_BEFORE: usize = 8;

/// What an author says about how the component is run, in place of its sidecar.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// A JSON object for `configure`.
    pub settings_json: Option<String>,
    /// How long an instance lives.
    pub instances: Option<Instances>,
}

/// Why a component was not asked.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum NotAsked {
    /// It is not admitted.
    #[error("{0}")]
    Rejected(#[from] Rejection),
    /// There is no engine to ask it in.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// It gave no answer that the contract allows.
    #[error("{0}")]
    Call(#[from] CallError),
    /// The engine did not count.
    #[error("the engine does not count what is executed")]
    NotCounted,
}

/// Wasm instructions of a component, as the engine counts them: the same for the same input, on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// To make an instance: instantiate, describe, configure.
    pub start: u64,
    /// Of the first call of a new instance.
    pub first: u64,
    /// Of a call of an instance that has served some.
    pub warm: u64,
}

/// A question with everything it lends.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What it is, for people.
    pub label: String,
    request: RequestFacts,
    moment: Moment,
    facts: SampleFacts,
}

#[derive(Debug, Clone)]
enum SampleFacts {
    Score(Vec<Candidate>),
    Classify(FailureFacts),
    Tag(AnswerFacts),
}

impl Sample {
    /// The questions that are worth measuring: routers with each of `counts` candidates, classifiers and taggers with
    /// the samples of admission.
    pub fn of(kind: PluginKind, targets: &[TargetFacts], counts: &[usize]) -> Vec<Self> {
        let sample =
            |label, facts| Self { label, request: probe::request(targets), moment: probe::moment(), facts };
        let candidates =
            |count| (0..count).map(|at| probe::candidate(at % targets.len().max(1), at)).collect();
        match kind {
            PluginKind::Router => counts
                .iter()
                .map(|&count| sample(format!("{count} candidates"), SampleFacts::Score(candidates(count))))
                .collect(),
            PluginKind::Classifier => probe::failures()
                .map(|failure| sample(failure_label(&failure), SampleFacts::Classify(failure)))
                .collect(),
            PluginKind::Tagger => probe::answers()
                .map(|answer| sample(answer_label(&answer), SampleFacts::Tag(answer)))
                .collect(),
        }
    }

    /// The question.
    pub fn ask(&self) -> Ask<'_> {
        match &self.facts {
            SampleFacts::Score(candidates) => Ask::Score(&self.request, self.moment, candidates),
            SampleFacts::Classify(failure) => Ask::Classify(&self.request, self.moment, failure),
            SampleFacts::Tag(answer) => Ask::Tag(&self.request, self.moment, answer),
        }
    }
}

fn failure_label(failure: &FailureFacts) -> String {
    match (failure.status, failure.transport_error) {
        (_, Some(error)) => format!("{} at {}", error.as_str(), failure.stage),
        (Some(status), None) => format!("{status} at {}, {} bytes", failure.stage, failure.body.len()),
        (None, None) => format!("a failure at {}", failure.stage),
    }
}

fn answer_label(answer: &AnswerFacts) -> String {
    let phase = if answer.phase == TagPhase::Head { "head" } else { "record" };
    format!("{phase} of a {}", answer.status)
}

/// Where an author tries components out. Makes the engine of the process, like a gateway.
pub struct Author {
    host: &'static Host,
    tracker: TaskTracker,
    plugins: config::Plugins,
}

impl Author {
    /// With the limits of a configuration.
    ///
    /// # Errors
    /// There is no engine.
    pub async fn new(plugins: config::Plugins, tracker: TaskTracker) -> Result<Self, StartError> {
        let host = tracker.spawn_blocking(Host::get).await.map_err(|_| StartError::Stopped)??;
        Ok(Self { host, tracker, plugins })
    }

    /// Whether a gateway that looks at the folder of this file would see it at all.
    pub fn is_seen(path: &Path) -> bool {
        folder::one(path).is_some()
    }

    /// Admits a file with its sidecar, as it would be in a folder. With overrides it is run for its author: never set
    /// aside, so that every call is really made.
    ///
    /// # Errors
    /// What a gateway would say of it.
    pub async fn admit(
        &self,
        path: &Path,
        targets: &Arc<[TargetFacts]>,
        overrides: Option<&Overrides>,
        watch: Arc<dyn PluginWatch>,
    ) -> Result<Plugin, Rejection> {
        let (found, options, source, digest) = self.read(path, overrides).await?;
        let shop = shop(self.host, &self.tracker, &self.plugins, targets.clone(), watch);
        Box::pin(shop.admit(&found, &options, source.bytes, digest)).await
    }

    /// What the file is, whether or not its sidecar switches it off.
    async fn read(
        &self,
        path: &Path,
        overrides: Option<&Overrides>,
    ) -> Result<(Found, Arc<PluginOptions>, Source, Arc<str>), Rejection> {
        let found = seen(path)?;
        if let Some(rejection) = found.refused {
            return Err(rejection);
        }
        let (plugins, overrides) = (self.plugins.clone(), overrides.cloned());
        let reading = self.tracker.spawn_blocking(move || {
            let (options, sidecar) = options_of(&found, &plugins)?;
            let options = Self::options(options, overrides.as_ref());
            let (source, digest) = source_of(&found, &options, sidecar)?;
            Ok((found, options, source, digest))
        });
        match reading.await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(Unread::Refused(_, rejection))) => Err(rejection),
            Ok(Err(Unread::Changed)) => Err(Rejection::Read("it changed while it was read".into())),
            Err(error) => Err(Rejection::Read(error.to_string())),
        }
    }

    fn options(options: Arc<PluginOptions>, overrides: Option<&Overrides>) -> Arc<PluginOptions> {
        let Some(overrides) = overrides else { return options };
        let mut options = PluginOptions::clone(&options);
        options.on_error = OnError::Deny;
        if let Some(settings) = &overrides.settings_json {
            options.settings_json.clone_from(settings);
        }
        if let Some(instances) = overrides.instances {
            options.instances = instances;
        }
        Arc::new(options)
    }

    /// What each sample costs, in an engine that counts. The component must have been admitted.
    ///
    /// # Errors
    /// [`NotAsked`], for the first sample that it fails.
    pub async fn costs(
        &self,
        path: &Path,
        targets: &Arc<[TargetFacts]>,
        overrides: &Overrides,
        samples: &[Sample],
    ) -> Result<Vec<Cost>, NotAsked> {
        let (found, options, source, digest) = self.read(path, Some(overrides)).await?;
        let mut options = PluginOptions::clone(&options);
        // Counting slows a call down; the deadline is for those that are not counted.
        options.deadline = options.deadline.saturating_mul(100);
        let host = self.tracker.spawn_blocking(Host::metered).await;
        let host = host.map_err(|_| NotAsked::NotCounted)??;
        let bounds = Bounds { file: options.file, memory: options.memory };
        let compiled = prepare(host, &self.tracker, source.bytes, digest.clone(), bounds).await?;
        let watch: Arc<dyn PluginWatch> = Arc::new(Quiet);
        let spec = Spec {
            host,
            compiled,
            voice: Voice { plugin: found.name, digest, watch },
            options: Arc::new(options),
            targets: targets.clone(),
            live: Arc::new(AtomicUsize::new(0)),
        };
        let mut costs = Vec::with_capacity(samples.len());
        for sample in samples {
            costs.push(Box::pin(cost(&spec, sample)).await?);
        }
        Ok(costs)
    }
}

fn seen(path: &Path) -> Result<Found, Rejection> {
    let unseen = || Rejection::Read("its name has to end in .wasm: a gateway looks at no other".into());
    folder::one(path).ok_or_else(unseen)
}

async fn cost(spec: &Spec, sample: &Sample) -> Result<Cost, NotAsked> {
    let (mut instance, _) = Instance::new(spec).await.map_err(Rejection::from)?;
    let mut at = instance.executed().ok_or(NotAsked::NotCounted)?;
    let mut cost = Cost { start: at, first: 0, warm: 0 };
    for call in 0..=CALLS_BEFORE {
        instance.ask(sample.ask(), spec.options.deadline, clock::now()).await?;
        let executed = instance.executed().ok_or(NotAsked::NotCounted)?;
        cost.warm = executed - at;
        if call == 0 {
            cost.first = cost.warm;
        }
        at = executed;
    }
    Ok(cost)
}
