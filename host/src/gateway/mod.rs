//! A running gateway: everything built from one configuration, in order, and taken down in order.
//!
//! Decides what outlives what: state and connections outlive generations, generations outlive the requests
//! that hold them. How a request lives is the proxy's business.

mod gaps;
mod probe;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use sluice_core::facts::PluginKind;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::config::{self, Config};
use crate::generation::{Generation, target_facts};
use crate::plugin::{self, BuiltinSettings, PluginState, Registry};
use crate::policy::Policy;
use crate::proxy::{LastCall, Shared};
use crate::server::{Admin, Ends, Health, Listener, Main};
use crate::state::{Cells, State};
use crate::telemetry::log::{self, Bounds, LineWriter};
use crate::telemetry::metrics::Names;
use crate::telemetry::{Telemetry, TelemetryError};
use crate::upstream::{Client, Dial, TcpDial, TlsSetupError};
pub use gaps::Gap;
use watch::Watch;

/// Lines of log and records that may wait to be written are given this long when the gateway ends.
const FLUSH: Duration = Duration::from_secs(2);
/// Calls that have to end now are given this long to say so.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Tasks that outlive their connection (a body read aside, record tags) are given this long at the end.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener could not be bound.
    #[error("{key}: cannot listen on {address}: {source}")]
    Bind {
        /// The key of the configuration.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Roots of an upstream.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// Metrics or log.
    #[error("telemetry: {0}")]
    Telemetry(#[from] TelemetryError),
    /// The log writer.
    #[error("log: {0}")]
    Log(#[from] log::WriterError),
    /// The engine or a bundled plugin.
    #[error("plugins: {0}")]
    Plugins(#[from] plugin::StartError),
}

/// What a gateway is given beside its configuration.
pub struct Outside {
    /// Where log lines and records go.
    pub out: Box<dyn Write + Send>,
    /// Log lines of the process go there too; for a gateway that has the process to itself.
    pub process_log: bool,
    /// Makes connections; none: over TCP.
    pub dial: Option<Arc<dyn Dial>>,
}

/// A gateway that serves.
pub struct Gateway {
    shared: Arc<Shared>,
    health: Arc<Health>,
    listen: SocketAddr,
    admin: SocketAddr,
    drain: config::Drain,
    /// Of the main listener and its connections.
    ends: Ends,
    /// Everything that is left ends.
    stop: CancellationToken,
}

impl Gateway {
    /// Builds a gateway and starts serving.
    ///
    /// # Errors
    /// What could not be built; nothing is left running then.
    pub async fn start(config: Config, outside: Outside) -> Result<Self, StartError> {
        let config = Arc::new(config);
        let main_door = Reserved::new("listen", config.listen)?;
        let admin_door = Reserved::new("admin", config.admin)?;
        let writer = LineWriter::start(outside.out, config.log.format, Bounds::default())?;
        if outside.process_log {
            log::install(&config.log, writer.clone()).map_err(TelemetryError::from)?;
        }
        let telemetry = Telemetry::new(&Names::of(&config), &config.log, config.decisions, writer)?;
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        // Whatever runs already ends if the start fails further down.
        let unfinished = stop.clone().drop_guard();
        let watch = Arc::new(Watch(telemetry.clone()));
        let cells = Arc::new(State::new(watch.clone()).attach(&config, clock::now()));
        let clients = Arc::new(clients(&config, outside.dial.as_ref(), &tracker, &stop)?);
        let registry = Registry::start(
            &config.plugins,
            &config.state_dir,
            target_facts(&config),
            builtin_settings(&config),
            watch,
            tracker.clone(),
            stop.clone(),
        )
        .await?;
        name_plugins(&telemetry, &registry);
        gaps::tell(&BTreeSet::new(), &gaps::gaps_of(&config, &registry.current()));
        let first = Policy::new(registry.current(), 1);
        let generation = Generation::assemble(1, config.clone(), first, cells.clone(), &clients);
        probe::start(&config, &cells, &clients, &telemetry, &tracker, &stop);
        let health = Arc::new(Health::default());
        let shared = Arc::new(Shared {
            current: ArcSwap::from_pointee(generation),
            telemetry,
            tracker: tracker.clone(),
            draining: health.draining.clone(),
            last_call: LastCall::default(),
            running: TaskTracker::new(),
        });
        tracker.spawn(follow(shared.clone(), registry.clone(), config.clone(), cells, clients, stop.clone()));
        let registry = Arc::new(registry);
        let (socket, listen) = main_door.open()?;
        let (admin_socket, admin) = admin_door.open()?;
        let main = Arc::new(Main::new(shared.clone(), health.clone()));
        let ends = Ends::default();
        tracker.spawn(Listener::new(socket, main, tracker.clone()).run(ends.clone()));
        let pages = Arc::new(Admin::new(shared.clone(), health.clone(), registry));
        let to_the_last = Ends { closing: stop.clone(), torn: ends.torn.clone() };
        tracker.spawn(Listener::new(admin_socket, pages, tracker.clone()).run(to_the_last));
        unfinished.disarm();
        Ok(Self { shared, health, listen, admin, drain: config.drain, ends, stop })
    }

    /// Where applications connect.
    pub const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where operators connect.
    pub const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The generation that new requests get.
    pub fn generation(&self) -> u64 {
        self.shared.current.load().number
    }

    /// Metrics, events and records.
    pub fn telemetry(&self) -> &Telemetry {
        &self.shared.telemetry
    }

    /// Goes down in order: not ready at once, calls served for the window, streams run to their end up to
    /// the limit. `hurry` ends both waits at once. What runs then is told why it ends, and has its record.
    pub async fn drain(self, hurry: CancellationToken) {
        self.health.draining.cancel();
        let Shared { tracker, running, last_call, .. } = &*self.shared;
        // Also when no call runs: whoever sends calls here may not know yet.
        bounded(std::future::pending(), self.drain.window, &hurry).await;
        self.ends.closing.cancel();
        running.close();
        bounded(running.wait(), self.drain.limit, &hurry).await;
        last_call.announce();
        within(LAST_WORDS, running.wait()).await;
        self.stop.cancel();
        tracker.close();
        // A client that does not read its last words is not waited for.
        if !within(LAST_WORDS, tracker.wait()).await {
            self.ends.torn.cancel();
            within(LAST_TASKS, tracker.wait()).await;
        }
        let telemetry = self.shared.telemetry.clone();
        // The writer's thread is waited for off the runtime's own threads.
        let flushed = tokio::task::spawn_blocking(move || telemetry.close(FLUSH));
        if !matches!(flushed.await, Ok(true)) {
            tracing::warn!("log lines were lost at the end");
        }
    }
}

/// What a gateway would start with.
#[derive(Debug)]
pub struct Rehearsal {
    /// The files of the plugins folder that would be rejected.
    pub rejected: Vec<plugin::Rejected>,
    /// What routes would miss.
    pub gaps: BTreeSet<Gap>,
}

/// Does what start-up does with a configuration, but opens no door.
///
/// # Errors
/// What would keep a gateway from starting.
pub async fn rehearse(config: &Config) -> Result<Rehearsal, StartError> {
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    clients(config, None, &tracker, &stop)?;
    let (targets, builtin) = (target_facts(config), builtin_settings(config));
    let plugin::Rehearsed { runs, rejected } =
        plugin::rehearse(&config.plugins, targets, &builtin, &tracker).await?;
    let gaps = gaps::gaps(config, |kind, name| {
        runs.iter().any(|(known, kinds)| **known == *name && kinds.contains(&kind))
    });
    Ok(Rehearsal { rejected, gaps })
}

async fn bounded(work: impl Future<Output = ()>, limit: Duration, hurry: &CancellationToken) {
    tokio::select! {
        () = work => {}
        () = tokio::time::sleep(limit) => {}
        () = hurry.cancelled() => {}
    }
}

async fn within(limit: Duration, work: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(limit, work).await.is_ok()
}

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// An address that is ours, but where nobody is let in yet: a gateway that is still starting refuses
/// connections, so that nobody waits at a door behind which nothing stands.
struct Reserved {
    key: &'static str,
    address: SocketAddr,
    socket: TcpSocket,
}

impl Reserved {
    fn new(key: &'static str, address: SocketAddr) -> Result<Self, StartError> {
        let fault = |source| StartError::Bind { key, address, source };
        let socket =
            if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(fault)?;
        // Without it a restart would have to wait for connections of the process before.
        socket.set_reuseaddr(true).map_err(fault)?;
        socket.bind(address).map_err(fault)?;
        Ok(Self { key, address, socket })
    }

    fn open(self) -> Result<(TcpListener, SocketAddr), StartError> {
        let Self { key, address, socket } = self;
        let fault = |source| StartError::Bind { key, address, source };
        let listener = socket.listen(BACKLOG).map_err(fault)?;
        let bound = listener.local_addr().map_err(fault)?;
        Ok((listener, bound))
    }
}

fn clients(
    config: &Config,
    dial: Option<&Arc<dyn Dial>>,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) -> Result<BTreeMap<Arc<str>, Arc<Client>>, TlsSetupError> {
    let mut clients = BTreeMap::new();
    for (name, upstream) in &config.upstreams {
        let dial: Arc<dyn Dial> = match dial {
            Some(dial) => dial.clone(),
            None => Arc::new(TcpDial::new(upstream)?),
        };
        let client = Client::new(upstream.clone(), dial, tracker.clone(), stop.clone());
        clients.insert(name.clone(), Arc::new(client));
    }
    Ok(clients)
}

/// Makes a generation of each new set of plugins.
async fn follow(
    shared: Arc<Shared>,
    registry: Registry,
    config: Arc<Config>,
    cells: Arc<Cells>,
    clients: Arc<BTreeMap<Arc<str>, Arc<Client>>>,
    stop: CancellationToken,
) {
    // The first generation was made of what was there at its time; a newer set may be there already.
    let mut known = shared.current.load().policy.set().clone();
    let mut sets = registry.subscribe();
    loop {
        let set = sets.borrow_and_update().clone();
        if !Arc::ptr_eq(&set, &known) {
            gaps::tell(&gaps::gaps_of(&config, &known), &gaps::gaps_of(&config, &set));
            known = set.clone();
            name_plugins(&shared.telemetry, &registry);
            let number = shared.current.load().number + 1;
            let policy = Policy::new(set, number);
            shared.current.store(Arc::new(Generation::assemble(
                number,
                config.clone(),
                policy,
                cells.clone(),
                &clients,
            )));
        }
        tokio::select! {
            changed = sets.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
    }
}

/// Counters of the plugins that there are begin at zero, and those of plugins that are gone go.
fn name_plugins(telemetry: &Telemetry, registry: &Registry) {
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
