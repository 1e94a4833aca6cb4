//! One instance of a plugin, from its first breath to its last call.
//!
//! A call that is dropped half-way takes its instance with it: the store is owned by the call and only
//! handed back when the guest has answered.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use sluice_core::facts::TargetFacts;
use wasmtime::Store;

use super::call::{Ask, CallError, Said, brief, truncate};
use super::check;
use super::compiled::Compiled;
use super::contract::{Description, Guest};
use super::engine::Host;
use super::limits::Meter;
use super::options::PluginOptions;
use super::rejection::Rejection;
use super::state::{State, Voice};
use crate::clock;

/// Bytes a guest may hand to the host in one host call.
const HOSTCALL_BYTES: usize = 256 * 1024;
/// Handles a guest can hold.
const HANDLES_MAX: usize = 1024;
/// Shortest running time of instantiate, describe and configure; a call's own deadline if that is longer.
const START_DEADLINE: Duration = Duration::from_millis(100);
/// What a metered instance can execute in its life: more than it ever will.
const FUEL: u64 = u64::MAX;
/// Longest words of a plugin about its settings, bytes.
const REFUSAL_MAX: usize = 1024;
/// Longest name and version of a description, bytes.
const DESCRIPTION_MAX: usize = 64;

/// Everything that makes one instance like another.
#[derive(Clone)]
pub struct Spec {
    /// The engine and its clock.
    pub host: &'static Host,
    /// What is instantiated.
    pub compiled: Arc<Compiled>,
    /// Whose it is.
    pub voice: Voice,
    /// How it is run.
    pub options: Arc<PluginOptions>,
    /// The targets it is configured with.
    pub targets: Arc<[TargetFacts]>,
    /// Instances alive.
    pub live: Arc<AtomicUsize>,
}

/// Counts one instance for as long as it lives.
struct Live(Arc<AtomicUsize>);

impl Live {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why there is no new instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoInstance {
    /// It does not start.
    Instantiate(CallError),
    /// An export has another shape than the contract.
    Shape {
        /// The version of the contract.
        version: &'static str,
        /// What differs.
        message: String,
    },
    /// `describe` failed.
    Describe(CallError),
    /// `configure` failed.
    Configure(CallError),
    /// It refused its settings, in its own words.
    Refused(String),
}

impl From<NoInstance> for CallError {
    fn from(none: NoInstance) -> Self {
        match none {
            NoInstance::Instantiate(error) | NoInstance::Describe(error) | NoInstance::Configure(error) => {
                error
            }
            NoInstance::Refused(words) => Self::Configure(words),
            NoInstance::Shape { message, .. } => Self::Invalid(message),
        }
    }
}

impl From<NoInstance> for Rejection {
    fn from(none: NoInstance) -> Self {
        match none {
            NoInstance::Instantiate(error) => Self::Instantiate(error),
            NoInstance::Shape { version, message } => Self::Shape { version: version.to_owned(), message },
            NoInstance::Describe(error) => Self::ConfigureCall { call: "describe", error },
            NoInstance::Configure(error) => Self::ConfigureCall { call: "configure", error },
            NoInstance::Refused(words) => Self::Configure(words),
        }
    }
}

/// One configured instance.
pub struct Instance {
    guest: Guest,
    store: Store<State>,
    host: &'static Host,
    calls: u64,
    born: Instant,
    memory_at_birth: u64,
    _live: Live,
}

impl Instance {
    /// Instantiates, describes, configures.
    pub async fn new(spec: &Spec) -> Result<(Self, Description), NoInstance> {
        let deadline = spec.options.deadline.max(START_DEADLINE);
        let now = clock::now();
        let state = State::new(spec.voice.clone(), spec.options.memory, spec.options.gives_way);
        let mut store = Store::new(&spec.host.engine, state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(HOSTCALL_BYTES);
        store.set_max_component_handles(HANDLES_MAX);
        store.epoch_deadline_callback(|mut context| Ok(context.data_mut().meter.tick()));
        if spec.host.metered {
            let filled = store.set_fuel(FUEL).map_err(|error| CallError::Trap(brief(&error)));
            filled.map_err(NoInstance::Instantiate)?;
        }

        begin(&mut store, deadline, now);
        let (pre, exports) = (&spec.compiled.pre, &spec.compiled.exports);
        let made = guarded(spec.host, deadline, pin!(pre.instantiate_async(&mut store))).await;
        let instance = made.map_err(|ended| NoInstance::Instantiate(end(ended, &mut store)))?;
        let guest = exports.load(&mut store, &instance).map_err(|error| NoInstance::Shape {
            version: spec.compiled.contract.version(),
            message: brief(&error),
        })?;

        let described = guarded(spec.host, deadline, pin!(guest.describe(&mut store))).await;
        let mut description = described.map_err(|ended| NoInstance::Describe(end(ended, &mut store)))?;
        truncate(&mut description.name, DESCRIPTION_MAX);
        truncate(&mut description.version, DESCRIPTION_MAX);

        let configured = guarded(
            spec.host,
            deadline,
            pin!(guest.configure(&mut store, &spec.options.settings_json, &spec.targets)),
        )
        .await;
        configured.map_err(|ended| NoInstance::Configure(end(ended, &mut store)))?.map_err(|mut words| {
            truncate(&mut words, REFUSAL_MAX);
            NoInstance::Refused(words)
        })?;
        store.data_mut().flush();
        let memory_at_birth = store.data().memory.used();
        let instance = Self {
            guest,
            store,
            host: spec.host,
            calls: 0,
            born: now,
            memory_at_birth,
            _live: Live::new(&spec.live),
        };
        Ok((instance, description))
    }

    /// Asks and checks the answer. After an error the instance is not to be used again.
    pub async fn ask(&mut self, ask: Ask<'_>, deadline: Duration, now: Instant) -> Result<Said, CallError> {
        self.calls += 1;
        begin(&mut self.store, deadline, now);
        // Boxed, because it holds the question several times over: each future around this one, up to that of the
        // request, would have room for all that and be moved with it.
        let mut call = Box::pin(self.guest.ask(&mut self.store, ask));
        let answered = guarded(self.host, deadline, call.as_mut()).await;
        drop(call);
        let said = answered.map_err(|ended| ended.sort(&self.store));
        self.store.data_mut().flush();
        check::answer(ask, said?)
    }

    /// Wasm instructions it has executed since it was born, as the engine counts them. None: nobody counts.
    pub fn executed(&self) -> Option<u64> {
        self.store.get_fuel().ok().map(|left| FUEL - left)
    }

    /// Whether it has served long enough: by calls, by age, or because it has grown over half of the room
    /// it had left when it was new.
    pub fn is_spent(&self, options: &PluginOptions, now: Instant) -> bool {
        let used = self.store.data().memory.used();
        let half = self.memory_at_birth + options.memory.saturating_sub(self.memory_at_birth) / 2;
        self.calls >= options.calls_of_an_instance()
            || now.duration_since(self.born) >= options.age
            || (used > half && used > self.memory_at_birth)
    }
}

fn begin(store: &mut Store<State>, deadline: Duration, now: Instant) {
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.memory.begin();
    state.meter.begin(deadline, now);
}

/// How a guest ended before it answered.
enum Ended {
    Wasm(wasmtime::Error),
    Wall,
}

impl Ended {
    fn sort(&self, store: &Store<State>) -> CallError {
        match self {
            Self::Wasm(error) => CallError::from_wasmtime(error, store.data().memory.refused()),
            Self::Wall => CallError::Timeout,
        }
    }
}

fn end(ended: Ended, store: &mut Store<State>) -> CallError {
    store.data_mut().flush();
    ended.sort(store)
}

/// Runs a guest while the ticker ticks. Most calls end without ever giving their thread away; only one that
/// does gets a timer for the wall clock. The call comes pinned, because it is large to move about.
async fn guarded<T>(
    host: &'static Host,
    deadline: Duration,
    mut call: Pin<&mut impl Future<Output = wasmtime::Result<T>>>,
) -> Result<T, Ended> {
    let _running = host.ticker.enter();
    let mut wall = None::<Pin<Box<tokio::time::Sleep>>>;
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = call.as_mut().poll(cx) {
            return Poll::Ready(outcome.map_err(Ended::Wasm));
        }
        let wall = wall.get_or_insert_with(|| Box::pin(tokio::time::sleep(Meter::wall(deadline))));
        wall.as_mut().poll(cx).map(|()| Err(Ended::Wall))
    })
    .await
}
