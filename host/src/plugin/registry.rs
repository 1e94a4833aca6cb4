//! The plugins of one gateway: what is in the folder is what runs.
//!
//! One task, the keeper, owns all that changes; this is how others see it and talk to it. What runs is an
//! immutable [`PluginSet`], published as a whole.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sluice_core::facts::{PluginKind, TargetFacts};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bundled::{BuiltinSettings, Bundled, BundledError};
use super::engine::{EngineError, Host};
use super::entry::Entry;
use super::keeper::{Keeper, Made};
use super::set::PluginSet;
use super::status::{PluginState, PluginStatus};
use super::watch::PluginWatch;
use crate::config;

/// Why the plugins do not start. A bad file in the folder is no reason.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum StartError {
    /// There is no engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A bundled plugin does not run with its settings.
    #[error(transparent)]
    Bundled(#[from] BundledError),
    /// The runtime or the registry is being shut down.
    #[error("the gateway is shutting down")]
    Stopped,
}

/// What plugins are configured with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The folder and the limits of a call.
    pub plugins: config::Plugins,
    /// Targets, dense by index.
    pub targets: Arc<[TargetFacts]>,
    /// Settings of the bundled plugins.
    pub builtin: BuiltinSettings,
}

/// A request to the keeper.
pub enum Command {
    /// Run with another setup.
    Reconfigure(Box<Setup>, oneshot::Sender<Result<Arc<PluginSet>, StartError>>),
    /// Look at the folder now.
    Look,
}

/// What the status page reads.
pub struct Board {
    /// Of the folder, in file-name order.
    pub entries: Vec<Entry>,
    /// Of the binary.
    pub bundled: Bundled,
    /// Why the folder is not what runs.
    pub folder: Option<String>,
}

/// The plugins of one gateway. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    sets: watch::Receiver<Arc<PluginSet>>,
    board: Arc<Mutex<Board>>,
    commands: mpsc::Sender<Command>,
}

impl Registry {
    /// Starts what is in the folder and keeps to it until `stop`. Waits for the first look at every file.
    ///
    /// # Errors
    /// [`StartError`]; never because of a file in the folder.
    #[allow(clippy::too_many_arguments, reason = "each is a different thing of its owner's")]
    pub async fn start(
        settings: &config::Plugins,
        state_dir: &Path,
        targets: Vec<TargetFacts>,
        builtin: BuiltinSettings,
        watch: Arc<dyn PluginWatch>,
        tracker: TaskTracker,
        stop: CancellationToken,
    ) -> Result<Self, StartError> {
        let setup = Setup { plugins: settings.clone(), targets: targets.into(), builtin };
        let host = tracker.spawn_blocking(Host::get).await.map_err(|_| StartError::Stopped)??;
        let (commands, inbox) = mpsc::channel(16);
        let state_dir: PathBuf = state_dir.to_owned();
        let made = Keeper::start(host, setup, &state_dir, watch, tracker.clone(), inbox).await?;
        let Made { keeper, sets, board } = made;
        tracker.spawn(Box::pin(keeper.run(stop)));
        Ok(Self { sets, board, commands })
    }

    /// What runs now.
    pub fn current(&self) -> Arc<PluginSet> {
        self.sets.borrow().clone()
    }

    /// Tells of every new set.
    pub fn subscribe(&self) -> watch::Receiver<Arc<PluginSet>> {
        self.sets.clone()
    }

    /// Configures every plugin anew, for a reload of the configuration: new instances of the same components.
    /// A plugin of the folder that refuses its new targets is rejected; a bundled one that does changes nothing.
    ///
    /// # Errors
    /// A bundled plugin refuses its settings; what ran before still does.
    pub async fn reconfigure(
        &self,
        settings: &config::Plugins,
        targets: Vec<TargetFacts>,
        builtin: BuiltinSettings,
    ) -> Result<Arc<PluginSet>, StartError> {
        let setup = Setup { plugins: settings.clone(), targets: targets.into(), builtin };
        let (reply, answer) = oneshot::channel();
        let command = Command::Reconfigure(Box::new(setup), reply);
        self.commands.send(command).await.map_err(|_| StartError::Stopped)?;
        answer.await.map_err(|_| StartError::Stopped)?
    }

    /// Asks for a look at the folder now, for file systems that give no hints.
    pub fn look(&self) {
        // A full inbox means that the keeper will look anyway.
        let _ = self.commands.try_send(Command::Look);
    }

    /// Why what runs is not what is in the folder, as a whole; none: it is.
    pub fn folder(&self) -> Option<String> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).folder.clone()
    }

    /// One entry for each file of the folder, in file-name order, then the bundled plugins.
    pub fn status(&self) -> Vec<PluginStatus> {
        let board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        let bundled = PluginKind::ALL
            .map(|kind| PluginStatus::running(board.bundled.of(kind), PluginState::Active, None));
        board.entries.iter().map(Entry::status).chain(bundled).collect()
    }
}
