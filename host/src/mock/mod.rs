//! `sluice mock`: a scripted OpenAI-compatible upstream for people's own tests, and for `sluice demo`.
//!
//! It answers chat completions as a provider does, or fails as providers fail: by the name of the
//! model for a single call, by flags for all. It decides nothing that the gateway relies on, keeps no
//! request, and knows no key. Bounds: connections, request bodies, names in the counters.

mod answer;
mod args;
mod behaviour;
mod connection;
mod exchange;
mod run;
mod script;
mod stats;
#[cfg(test)]
mod tests;
mod word;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use args::MockArgs;
pub use behaviour::{Act, Behaviour, BehaviourError, MODEL_PREFIX};
pub use run::run;
pub use stats::Stats;

use stats::Counters;

/// How a server answers when the model name does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What happens to a call.
    pub behaviour: Behaviour,
    /// 503 to everything for so long after the start or the last reset; zero for never.
    pub fail_for: Duration,
    /// Chunks of a healthy answer; none for one for each word.
    pub chunks: Option<u32>,
    /// Between two chunks.
    pub delay: Duration,
    /// The words of the answer; without any, the default text.
    pub text: String,
}

impl Settings {
    /// The answer when nothing else is asked for.
    pub const TEXT: &str = "The gate is open and the water runs as it should.";
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            behaviour: Behaviour::default(),
            fail_for: Duration::ZERO,
            chunks: None,
            delay: Duration::from_millis(20),
            text: Self::TEXT.to_owned(),
        }
    }
}

/// Why a server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address is taken, not ours, or not allowed.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// As asked for.
        addr: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The answer of an upstream that behaves so, where that is an HTTP error: status, JSON body, the wait it asks for.
#[must_use]
pub fn error_answer(behaviour: Behaviour, model: &str) -> Option<(u16, String, Option<Duration>)> {
    let failure = answer::Failure::of(behaviour.act, model)?;
    Some((failure.status, failure.body().to_string(), failure.retry_after))
}

/// A running scripted upstream. It runs until `stop`, also when this handle is dropped.
#[derive(Debug, Clone)]
pub struct Server {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens on `bind` (port 0 for a free one) and serves on tasks of `tracker` until `stop` is
    /// cancelled; running answers then have one second to end.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start(
        bind: SocketAddr,
        settings: Settings,
        tracker: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { addr: bind, source };
        let listener = TcpListener::bind(bind).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared::new(settings));
        tracker.spawn(connection::accept(listener, Arc::clone(&shared), tracker.clone(), stop));
        Ok(Self { addr, shared })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The base URL for a configuration: `http://…/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// What it has seen.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot()
    }

    /// Changes what happens to calls for this model from now on, whatever its name would choose for itself.
    pub fn set_behaviour_of(&self, model: &str, behaviour: Behaviour) {
        self.shared.changing().of_models.insert(model.to_owned(), behaviour);
    }

    /// Changes what happens to calls from now on whose model name does not choose for itself.
    pub fn set_behaviour(&self, behaviour: Behaviour) {
        self.shared.changing().behaviour = behaviour;
    }
}

/// What all connections of one server share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    words: Arc<[String]>,
    counters: Counters,
    changing: Mutex<Changing>,
}

/// The little that changes while a server runs.
#[derive(Debug)]
struct Changing {
    behaviour: Behaviour,
    /// Of models that were given one; those who run a server give it, never its callers.
    of_models: BTreeMap<String, Behaviour>,
    started: Instant,
}

impl Shared {
    fn new(settings: Settings) -> Self {
        let text = if settings.text.trim().is_empty() { Settings::TEXT } else { &settings.text };
        let changing = Changing {
            behaviour: settings.behaviour,
            of_models: BTreeMap::new(),
            started: crate::clock::now(),
        };
        Self { words: words(text), counters: Counters::default(), changing: Mutex::new(changing), settings }
    }

    fn changing(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counters to zero, and the clocks of `fail-…` anew.
    fn reset(&self) {
        self.counters.reset();
        self.changing().started = crate::clock::now();
    }

    /// What happens to a call for this model, now.
    fn behaviour(&self, model: &str) -> Result<Behaviour, BehaviourError> {
        let (behaviour, given, started) = {
            let changing = self.changing();
            (changing.behaviour, changing.of_models.get(model).copied(), changing.started)
        };
        let age = crate::clock::now().saturating_duration_since(started);
        if age < self.settings.fail_for {
            return Ok(Behaviour { slow: Duration::ZERO, act: Act::Status(503) });
        }
        let asked = match given {
            Some(given) => given,
            None => behaviour::of_model(model)?.unwrap_or(behaviour),
        };
        Ok(match asked.act {
            Act::FailFor(time) if age >= time => Behaviour { act: Act::Healthy, ..asked },
            _ => asked,
        })
    }
}

/// A text as its words, each but the last with the space behind it.
fn words(text: &str) -> Arc<[String]> {
    let mut words: Vec<String> = text.split_whitespace().map(|word| format!("{word} ")).collect();
    if let Some(last) = words.last_mut() {
        last.pop();
    }
    words.into()
}
