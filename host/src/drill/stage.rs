//! The stage of one scenario: a stand-in for every upstream of the configuration and a gateway between them and the
//! callers, all in this process and on loopback, made new for each, so that nothing one scenario does is felt in
//! another.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sluice_core::allowance;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::client::Line;
use super::told::{self, Shown};
use crate::clock;
use crate::config::{self, Caller, Config, Gate, KeyHash};
use crate::gateway::{self, Gateway, Outside};
use crate::mock::{self, Behaviour, Server, Settings};
use crate::rig::client::{Ask, ClientError};
use crate::rig::{Folder, Instead, Metrics, harmless};
use crate::telemetry::decisions::Wanted;

/// Between two words of a stand-in.
const DELAY: Duration = Duration::from_millis(2);
/// Between two looks at something that changes.
const LOOK: Duration = Duration::from_millis(10);
/// The books of calls that have ended are closed by then, and what they held is given back.
const REST: Duration = Duration::from_secs(3);
/// A page of the gateway takes no longer.
const PAGE: Duration = Duration::from_secs(10);

/// Why a scenario could not be played.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The gateway did not start.
    #[error(transparent)]
    Gateway(#[from] gateway::StartError),
    /// A stand-in did not start.
    #[error(transparent)]
    Mock(#[from] mock::StartError),
    /// The gateway gave no page.
    #[error("/metrics: {0}")]
    Client(#[from] ClientError),
    /// What was decided is not shown as it should be.
    #[error("/debug/decisions: {0}")]
    Decisions(#[from] serde_json::Error),
    /// The temporary folder.
    #[error("the temporary folder of the drill: {0}")]
    Folder(#[from] std::io::Error),
    /// A task of the drill itself ended too early.
    #[error("a task of the drill ended too early: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// A gateway between stand-ins. Everything ends when it is closed, or dropped.
pub struct Stage {
    servers: BTreeMap<Arc<str>, Server>,
    gateway: Gateway,
    /// Runs stand-ins and callers.
    pub tracker: TaskTracker,
    /// The key that callers send; none: they need none.
    pub key: Option<String>,
    /// The configuration as it runs.
    pub config: Arc<Config>,
    _folder: Folder,
    stop: DropGuard,
}

impl Stage {
    /// Starts everything, healthy. The last `decisions` requests can be looked up.
    ///
    /// # Errors
    /// What did not start.
    pub async fn start(config: &Config, decisions: usize) -> Result<Self, StageError> {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let guard = stop.clone().drop_guard();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut servers = BTreeMap::new();
        for name in config.upstreams.keys() {
            let settings = Settings { delay: DELAY, text: says(name), ..Settings::default() };
            let server = Server::start(any, settings, &tracker, stop.clone()).await?;
            servers.insert(name.clone(), server);
        }
        let folder = Folder::new()?;
        let addresses = servers.iter().map(|(name, server)| (name.clone(), server.addr())).collect();
        let key = (!config.callers.is_empty()).then(|| format!("drill-{:032x}", fastrand::u128(..)));
        let callers = key.iter().map(|key| Arc::new(caller(key))).collect();
        let instead = Instead { addresses: &addresses, folder: &folder, callers, decisions };
        let config = Arc::new(harmless(config.clone(), instead));
        let outside =
            Outside { out: Box::new(std::io::sink()), process_log: false, dial: None, sources: None };
        let gateway = Box::pin(Gateway::start(Config::clone(&config), outside)).await?;
        let stage = Self { servers, gateway, tracker, key, config, _folder: folder, stop: guard };
        for target in &stage.config.targets {
            stage.behave(&target.key, Behaviour::default());
        }
        Ok(stage)
    }

    /// Changes what a target does from now on.
    pub fn behave(&self, target: &str, behaviour: Behaviour) {
        if let Some((server, model)) = self.server(target) {
            server.set_behaviour_of(model, behaviour);
        }
    }

    /// Where a target's stand-in listens, and the model it is asked for.
    pub fn direct(&self, target: &str) -> Option<(SocketAddr, String)> {
        self.server(target).map(|(server, model)| (server.addr(), model.to_owned()))
    }

    fn server<'a>(&'a self, target: &'a str) -> Option<(&'a Server, &'a str)> {
        let (upstream, model) = target.split_once('/')?;
        Some((self.servers.get(upstream)?, model))
    }

    /// Everything that stand-ins can say.
    pub fn says(&self) -> Vec<String> {
        self.servers.keys().map(|name| says(name)).collect()
    }

    /// Where callers connect.
    pub fn address(&self) -> SocketAddr {
        self.gateway.listen()
    }

    /// Calls that each target's stand-in has seen.
    pub fn seen(&self) -> BTreeMap<Arc<str>, u64> {
        let of = |target: &Arc<config::Target>| {
            let seen = self.servers.get(&target.upstream.name).map(|server| server.stats().by_model);
            let count = seen.and_then(|seen| seen.get(&*target.model).copied()).unwrap_or_default();
            (target.key.clone(), count)
        };
        self.config.targets.iter().map(of).collect()
    }

    /// The last requests, as the gateway decided them.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn decisions(&self) -> Result<Vec<Shown>, StageError> {
        Ok(told::read(&self.gateway.telemetry().decisions().list(&Wanted::default()).entries)?)
    }

    /// Waits until nothing runs any more, and gives what the metrics say then.
    ///
    /// # Errors
    /// There is no such page.
    pub async fn at_rest(&self) -> Result<Metrics, StageError> {
        let begun = clock::now();
        loop {
            let metrics = self.metrics().await?;
            let open: u64 = self.servers.values().map(|server| server.stats().open).sum();
            let rests = open == 0 && running(&metrics) == 0.0;
            if rests || clock::now().saturating_duration_since(begun) >= REST {
                return Ok(metrics);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Exchanges that stand-ins have not ended.
    pub fn open(&self) -> u64 {
        self.servers.values().map(|server| server.stats().open).sum()
    }

    async fn metrics(&self) -> Result<Metrics, StageError> {
        let ask = Ask::get("/metrics");
        let page = Line::new(self.gateway.admin(), PAGE, self.tracker.clone()).call(&ask).await?;
        Ok(Metrics(String::from_utf8_lossy(&page.body).into_owned()))
    }

    /// Ends everything.
    pub async fn close(self) {
        let hurry = CancellationToken::new();
        hurry.cancel();
        self.gateway.drain(hurry).await;
        drop(self.stop);
    }
}

/// Calls that hold or wait for a place, by the gauges.
pub fn running(metrics: &Metrics) -> f64 {
    metrics.sum("sluice_gate_in_flight", &[]) + metrics.sum("sluice_gate_queue_depth", &[])
}

fn says(upstream: &str) -> String {
    format!("You hear the stand-in for {upstream}, word by word.")
}

/// Whoever calls in a drill: every route, no limit of its own.
fn caller(key: &str) -> Caller {
    Caller {
        name: "drill".into(),
        key: KeyHash::of(key.as_bytes()),
        routes: None,
        gate: Gate { max_in_flight: 1_000_000, queue: 0, queue_wait: Duration::ZERO },
        limits: allowance::Limits::default(),
    }
}
