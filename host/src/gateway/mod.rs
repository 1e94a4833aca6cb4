//! A running gateway: everything built from one configuration, in order, and taken down in order.
//!
//! Decides what outlives what: state and connections outlive generations, generations outlive the requests
//! that hold them. How a request lives is the proxy's business.

mod build;
mod doors;
mod expiry;
mod gaps;
mod look;
mod parts;
mod probe;
mod refusal;
mod reload;
mod watch;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::config::{Config, Sources};
use crate::plugin;
use crate::proxy::{self, LastCall, Shared};
pub use crate::proxy::{Dry, Explained, Follows, Mishap, Step};
use crate::server::{Admin, ConfigBoard, Health, Main};
use crate::store::{Archive, StoreError};
use crate::telemetry::log;
use crate::telemetry::{Telemetry, TelemetryError};
use crate::traces::{Courier, TracesError};
use crate::upstream::{Dial, TlsSetupError};
use build::{Built, build, open, telemetry};
use doors::{Doors, Reserved};
pub use gaps::Gap;
use look::Bell;
use parts::{PluginSetup, Workshop};
use reload::Reloader;

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
    /// Variables that the way to the collector of spans goes by.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// The address of the store of records.
    #[error("records: {0}")]
    Records(#[from] StoreError),
}

/// What a gateway is given beside its configuration.
pub struct Outside {
    /// Where log lines and records go.
    pub out: Box<dyn Write + Send>,
    /// Log lines of the process go there too; for a gateway that has the process to itself.
    pub process_log: bool,
    /// Makes connections; none: over TCP.
    pub dial: Option<Arc<dyn Dial>>,
    /// What the configuration was read from: its file is watched from then on. None: it stays as it is.
    pub sources: Option<Sources>,
}

/// A gateway that serves.
pub struct Gateway {
    shared: Arc<Shared>,
    health: Arc<Health>,
    doors: Arc<Doors>,
    bell: Arc<Bell>,
    archive: Arc<Archive>,
    courier: Arc<Courier>,
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
        let reserved = (Reserved::main(&config)?, Reserved::admin(&config)?);
        let telemetry = telemetry(&config, outside.out, outside.process_log)?;
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        // Whatever runs already ends if the start fails further down.
        let unfinished = stop.clone().drop_guard();
        let workshop = Workshop { dial: outside.dial, tracker, stop };
        let (sources, file) = match outside.sources {
            Some(sources) => (sources, config.file.clone()),
            None => (Sources::default(), None),
        };
        let Built { state, registry, missing, first, running } =
            build(config, sources, &telemetry, &workshop).await?;
        let health = Arc::new(Health::default());
        let shared = Arc::new(Shared {
            current: ArcSwap::from_pointee(first),
            telemetry,
            tracker: workshop.tracker.clone(),
            draining: health.draining.clone(),
            last_call: LastCall::default(),
            running: TaskTracker::new(),
        });
        let archive = Arc::new(Archive::new(&shared.telemetry));
        archive.take(running.config.records.as_ref())?;
        let courier = Arc::new(Courier::new(&shared.telemetry));
        courier.take(running.config.traces.as_ref())?;
        let board = Arc::new(ConfigBoard::new(clock::wall()));
        let main = Main::new(shared.clone(), health.clone());
        let admin = Admin::new(shared.clone(), health.clone(), registry.clone(), board.clone());
        let doors = open(reserved, main, admin, &running.config, &workshop)?;
        let bell = Arc::new(Bell::default());
        let gateway = Self {
            shared: shared.clone(),
            health,
            doors: doors.clone(),
            bell: bell.clone(),
            archive: archive.clone(),
            courier: courier.clone(),
            stop: workshop.stop.clone(),
        };
        let reloader = Reloader {
            shared,
            state,
            registry,
            workshop,
            doors,
            archive,
            courier,
            board,
            bell,
            running,
            missing,
            process_log: outside.process_log,
            told: None,
        };
        reloader.start(file);
        unfinished.disarm();
        Ok(gateway)
    }

    /// Reads the configuration again, now, and says in the log what came of it. Only where it is watched.
    pub fn reload(&self) {
        self.bell.ask();
    }

    /// Where applications connect.
    pub fn listen(&self) -> SocketAddr {
        self.doors.listen()
    }

    /// Where operators connect.
    pub fn admin(&self) -> SocketAddr {
        self.doors.admin()
    }

    /// The generation that new requests get.
    pub fn generation(&self) -> u64 {
        self.shared.current.load().number
    }

    /// Metrics, events and records.
    pub fn telemetry(&self) -> &Telemetry {
        &self.shared.telemetry
    }

    /// What would become of a request that nobody sends, with the breakers of the targets in `down` open. What the
    /// request supposes is learnt: not for a gateway that serves.
    pub async fn explain(&self, dry: &Dry, down: &[String]) -> Explained {
        let (generation, now) = (self.shared.current.load_full(), clock::now());
        for cell in &generation.cells.targets {
            if down.iter().any(|name| **name == **cell.key())
                && let Ok(ticket) = cell.admit(now)
            {
                ticket.open(now);
            }
        }
        proxy::explain(&self.shared, dry).await
    }

    /// Goes down in order: not ready at once, calls served for the window, streams run to their end up to
    /// the limit. `hurry` ends both waits at once. What runs then is told why it ends, and has its record.
    pub async fn drain(self, hurry: CancellationToken) {
        self.health.draining.cancel();
        let begun = clock::now();
        let Shared { tracker, running, last_call, .. } = &*self.shared;
        let (drain, ends) = (self.shared.current.load().config.drain, self.doors.ends());
        // Also when no call runs: whoever sends calls here may not know yet.
        bounded(std::future::pending(), drain.window, &hurry).await;
        ends.closing.cancel();
        running.close();
        bounded(running.wait(), drain.limit, &hurry).await;
        let cut_off = running.len();
        last_call.announce();
        within(LAST_WORDS, running.wait()).await;
        self.stop.cancel();
        tracker.close();
        // A client that does not read its last words is not waited for.
        if !within(LAST_WORDS, tracker.wait()).await {
            ends.torn.cancel();
            within(LAST_TASKS, tracker.wait()).await;
        }
        // Every call has its record by now.
        tokio::join!(self.archive.close(), self.courier.close());
        let telemetry = self.shared.telemetry.clone();
        let took = humantime::format_duration(whole_ms(clock::now().saturating_duration_since(begun)));
        tracing::info!(event = "stopped", %took, cut_off, "the end, in order");
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
    let workshop = Workshop { dial: None, tracker, stop };
    workshop.clients(config, None)?;
    if let Some(records) = &config.records {
        Archive::rehearse(records)?;
    }
    if let Some(traces) = &config.traces {
        Courier::rehearse(traces)?;
    }
    let PluginSetup { plugins, targets, builtin } = PluginSetup::of(config);
    let plugin::Rehearsed { runs, rejected } =
        plugin::rehearse(&plugins, targets, &builtin, &workshop.tracker).await?;
    let gaps = gaps::gaps(config, |kind, name| {
        runs.iter().any(|(known, kinds)| **known == *name && kinds.contains(&kind))
    });
    Ok(Rehearsal { rejected, gaps })
}

fn whole_ms(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
