//! What start-up would do with the plugins, without anything that stays: the bundled ones are started, every file
//! of the folder goes through admission, and nothing of it is kept or asked.

use std::sync::Arc;

use sluice_core::facts::{PluginKind, TargetFacts};
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use super::bundled::{BuiltinSettings, Bundled};
use super::engine::Host;
use super::job::{JOBS, Shop, Task, What};
use super::last_good::LastGood;
use super::options::{OnError, PluginOptions};
use super::registry::StartError;
use super::rejection::Rejection;
use super::watch::{PluginWatch, Quiet};
use crate::config;

/// What would become of the files of the folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rehearsed {
    /// Names and kinds of the plugins that would run.
    pub runs: Vec<(Arc<str>, Vec<PluginKind>)>,
    /// The files that would be rejected.
    pub rejected: Vec<Rejected>,
}

/// A file of the folder that would be rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Its name.
    pub file: Arc<str>,
    /// Why.
    pub rejection: Rejection,
    /// Calls would be refused for it.
    pub denies: bool,
}

/// A shop that works on files and keeps nothing.
pub(super) fn shop(
    host: &'static Host,
    tracker: &TaskTracker,
    settings: &config::Plugins,
    targets: Arc<[TargetFacts]>,
    watch: Arc<dyn PluginWatch>,
) -> Shop {
    Shop {
        host,
        tracker: tracker.clone(),
        watch,
        targets,
        plugins: Arc::new(settings.clone()),
        trouble: Arc::new(Notify::new()),
        // Admission alone writes nothing there.
        last_good: Arc::new(LastGood::new(&settings.dir)),
        places: Arc::new(Semaphore::new(JOBS)),
        epoch: 0,
    }
}

/// Tries all plugins out.
///
/// # Errors
/// What would keep a gateway from starting; never a file of the folder.
pub async fn rehearse(
    settings: &config::Plugins,
    targets: Vec<TargetFacts>,
    builtin: &BuiltinSettings,
    tracker: &TaskTracker,
) -> Result<Rehearsed, StartError> {
    let host = tracker.spawn_blocking(Host::get).await.map_err(|_| StartError::Stopped)??;
    let shop = shop(host, tracker, settings, targets.into(), Arc::new(Quiet));
    let defaults = PluginOptions::defaults(settings);
    let watch = shop.watch.clone();
    // Kept until the end: their code is that of many a file.
    let _bundled =
        Box::pin(Bundled::start(host, tracker, &defaults, &shop.targets, builtin, &watch, None)).await?;
    let mut rehearsed = Rehearsed::default();
    // Without a folder only the bundled ones run, which is a way to run.
    let Ok(scan) = shop.scan(settings.dir.clone()).await else { return Ok(rehearsed) };
    for found in scan.files {
        let file = found.file.clone();
        let (rejection, denies) =
            match Box::pin(shop.look(Task { found, known: Vec::new(), idle: false })).await {
                What::Refused { rejection, options, .. } => (rejection, options.on_error == OnError::Deny),
                What::Changed => (Rejection::Read("it changed while it was read".into()), false),
                What::Admitted { plugin, .. } => {
                    rehearsed.runs.push((plugin.name().clone(), plugin.kinds().to_vec()));
                    continue;
                }
                _ => continue,
            };
        rehearsed.rejected.push(Rejected { file, rejection, denies });
    }
    Ok(rehearsed)
}
