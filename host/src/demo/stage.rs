//! The stage of one scenario: two scripted upstreams and a gateway between them and the client, all in this
//! process and on loopback, made new for each so that every counter begins at zero.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::client::{Caller, fetch};
use super::sink::Sink;
use crate::clock;
use crate::config::{self, ConfigErrors};
use crate::gateway::{self, Gateway, Outside};
use crate::mock::{self, BehaviourError, Server, Settings};
use crate::rig::Folder;
use crate::rig::Metrics;
use crate::rig::client::{Answer, Ask, ClientError};

/// The first choice of the route.
pub const PRIMARY: &str = "primary/large";
/// The other target.
pub const BACKUP: &str = "backup/small";
/// All the first choice ever says.
pub const PRIMARY_SAYS: &str = "You hear the primary, word by word.";
/// All the other says.
pub const BACKUP_SAYS: &str = "You hear the backup, word by word.";

/// Between two looks at something that changes.
const LOOK: Duration = Duration::from_millis(5);

/// Why a scenario could not be played.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The configuration of the demo is not one.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A gateway did not start.
    #[error(transparent)]
    Gateway(#[from] gateway::StartError),
    /// An upstream did not start.
    #[error(transparent)]
    Mock(#[from] mock::StartError),
    /// A word that is no behaviour.
    #[error(transparent)]
    Behaviour(#[from] BehaviourError),
    /// A call had no answer at all.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The temporary folder.
    #[error("the temporary folder of the demo: {0}")]
    Folder(#[from] std::io::Error),
    /// A task of the demo itself ended too early.
    #[error("a task of the demo ended too early: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// What a scenario wants. The texts are YAML in flow style, as the members of a map.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// What the first choice does.
    pub primary: &'static str,
    /// What the other does.
    pub backup: &'static str,
    /// Between two words of an answer.
    pub delay: Duration,
    /// Of the first choice as a target.
    pub target: &'static str,
    /// Of its upstream.
    pub upstream: &'static str,
    /// Of the route.
    pub route: &'static str,
    /// Of all plugins.
    pub plugins: &'static str,
    /// Of the whole configuration, as lines.
    pub top: &'static str,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            primary: "healthy",
            backup: "healthy",
            delay: Duration::from_millis(3),
            target: "",
            upstream: "",
            route: "",
            plugins: "",
            top: "",
        }
    }
}

/// A gateway between two scripted upstreams. Everything ends when it is closed, or dropped.
pub struct Stage {
    /// The first choice.
    pub primary: Server,
    /// The other.
    pub backup: Server,
    /// What the gateway wrote.
    pub sink: Sink,
    /// Its plugins folder.
    pub folder: Folder,
    /// Runs the upstreams and the callers.
    pub tracker: TaskTracker,
    gateway: Gateway,
    /// Ends the upstreams, also where a scenario stops in the middle.
    stop: DropGuard,
}

impl Stage {
    /// Starts everything.
    ///
    /// # Errors
    /// What did not start.
    pub async fn start(setup: Setup) -> Result<Self, DemoError> {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let guard = stop.clone().drop_guard();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mock = async |behaviour: &str, text: &str| {
            let behaviour = behaviour.parse()?;
            let settings =
                Settings { behaviour, delay: setup.delay, text: text.to_owned(), ..Settings::default() };
            Ok::<_, DemoError>(Server::start(any, settings, &tracker, stop.clone()).await?)
        };
        let primary = mock(setup.primary, PRIMARY_SAYS).await?;
        let backup = mock(setup.backup, BACKUP_SAYS).await?;
        let folder = Folder::new()?;
        let text = yaml(&setup, &primary.base_url(), &backup.base_url(), &folder);
        let loaded = config::parse(&text, Path::new("demo.yaml"), &|_| None)?;
        let sink = Sink::default();
        let outside = Outside { out: Box::new(sink.clone()), process_log: false, dial: None, sources: None };
        let gateway = Box::pin(Gateway::start(loaded.config, outside)).await?;
        Ok(Self { primary, backup, sink, folder, tracker, gateway, stop: guard })
    }

    /// Makes a call to its end.
    ///
    /// # Errors
    /// There is no answer at all.
    pub async fn call(&self, ask: &Ask) -> Result<Answer, ClientError> {
        fetch(self.gateway.listen(), ask).await
    }

    /// Begins a call that can be left.
    pub fn begin(&self, ask: Ask) -> Caller {
        Caller::start(&self.tracker, self.gateway.listen(), ask)
    }

    /// Begins so many calls at once and waits for all of them.
    ///
    /// # Errors
    /// One of them has no answer at all.
    pub async fn at_once(&self, count: usize, ask: &Ask) -> Result<Vec<Answer>, DemoError> {
        let address = self.gateway.listen();
        let start = |_| {
            let ask = ask.clone();
            self.tracker.spawn(async move { fetch(address, &ask).await })
        };
        let tasks: Vec<_> = (0..count).map(start).collect();
        let mut answers = Vec::with_capacity(count);
        for task in tasks {
            answers.push(task.await??);
        }
        Ok(answers)
    }

    /// Where calls go.
    pub fn address(&self) -> SocketAddr {
        self.gateway.listen()
    }

    /// A page of the admin listener.
    ///
    /// # Errors
    /// There is no answer at all.
    pub async fn page(&self, path: &str) -> Result<Answer, ClientError> {
        fetch(self.gateway.admin(), &Ask::get(path)).await
    }

    /// The metrics as they are.
    ///
    /// # Errors
    /// There is no answer at all.
    pub async fn metrics(&self) -> Result<Metrics, ClientError> {
        let page = self.page("/metrics").await?;
        Ok(Metrics(String::from_utf8_lossy(&page.body).into_owned()))
    }

    /// The breaker of the first choice, as `/debug/upstreams` shows it.
    ///
    /// # Errors
    /// There is no answer at all.
    pub async fn breaker(&self) -> Result<Value, ClientError> {
        Ok(self.page("/debug/upstreams").await?.json()["targets"][0]["breaker"].clone())
    }

    /// The generation new requests get.
    pub fn generation(&self) -> u64 {
        self.gateway.generation()
    }

    /// Waits until `done`, at most `within`: how long it took, or none.
    pub async fn until(&self, within: Duration, done: impl Fn(&Self) -> bool) -> Option<Duration> {
        let begun = clock::now();
        loop {
            let is_done = done(self);
            let took = clock::now().saturating_duration_since(begun);
            if is_done {
                return Some(took);
            }
            if took >= within {
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends everything.
    pub async fn close(self) {
        let hurry = CancellationToken::new();
        hurry.cancel();
        self.gateway.drain(hurry).await;
        drop(self.stop);
    }
}

fn yaml(setup: &Setup, primary: &str, backup: &str, folder: &Folder) -> String {
    let path = |path: std::path::PathBuf| Value::from(path.to_string_lossy()).to_string();
    let Setup { target, upstream, route, plugins, top, .. } = setup;
    let (dir, state) = (path(folder.plugins()), path(folder.state()));
    format!(
        "listen: 127.0.0.1:0
admin: 127.0.0.1:0
plugins: {{ dir: {dir}, settle: 50ms, rescan: 1s, headers: [ x-fault ], {plugins} }}
state_dir: {state}
upstreams:
  primary: {{ base_url: \"{primary}\", models: {{ large: {{}} }}, {upstream} }}
  backup: {{ base_url: \"{backup}\", models: {{ small: {{}} }} }}
routes:
  chat: {{ targets: [ {{ target: {PRIMARY}, {target} }}, {BACKUP} ], {route} }}
{top}
"
    )
}
