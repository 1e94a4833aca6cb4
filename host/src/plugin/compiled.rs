//! Compiled plugins, kept by the digest of their bytes.
//!
//! Compiling takes a core for a tenth of a second and more, so it happens on a blocking thread, a few at a
//! time in the process, and one that takes too long is not waited for. The same bytes are compiled once for as long as anybody runs them; the cache itself
//! keeps nothing alive.

use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use sha2::{Digest, Sha256};
use sluice_core::facts::PluginKind;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use wasmtime::component::{Component, InstancePre};

use super::call::brief;
use super::contract::{Contract, Exports};
use super::engine::{Host, TABLES_MAX};
use super::inspect::{self, Needs};
use super::rejection::Rejection;
use super::state::State;
use crate::clock;

/// Entries of the cache; the oldest leave first.
const CACHED: usize = 64;

/// A component that can be instantiated.
pub struct Compiled {
    /// SHA-256 of its bytes, in hex.
    pub digest: Arc<str>,
    /// The contract it was built for.
    pub contract: Contract,
    /// What it can be asked for.
    pub kinds: Vec<PluginKind>,
    /// Its imports, resolved.
    pub pre: InstancePre<State>,
    /// Its exports, found.
    pub exports: Exports,
    needs: Needs,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled")
            .field("digest", &self.digest)
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

/// SHA-256 in lower-case hex.
pub fn digest(bytes: &[u8]) -> Arc<str> {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

/// What a component is checked against before it is compiled.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Largest file, bytes.
    pub file: u64,
    /// Linear memory, bytes.
    pub memory: u64,
}

/// Inspects and compiles, off the runtime's own threads.
///
/// # Errors
/// Whatever is wrong with the bytes, up to and including their compilation.
pub async fn prepare(
    host: &'static Host,
    tracker: &TaskTracker,
    bytes: Arc<[u8]>,
    digest: Arc<str>,
    bounds: Bounds,
) -> Result<Arc<Compiled>, Rejection> {
    if let Some(found) = cached(host, &digest) {
        found.needs.within(bounds.memory)?;
        return Ok(found);
    }
    let size = bytes.len();
    let work = move || {
        // The same bytes may have been at it in the place before this.
        if let Some(found) = cached(host, &digest) {
            found.needs.within(bounds.memory)?;
            return Ok(found);
        }
        compile(host, &bytes, digest, bounds)
    };
    COMPILERS.run(tracker, size, work).await
}

/// For each whole MiB of a file: one with the runtime of a language in it has more than ten of them.
const LONGER_PER_MIB: Duration = Duration::from_secs(20);

/// Of the process. Longer than any plugin of a sensible size takes on a machine that is very busy.
static COMPILERS: LazyLock<Compilers> = LazyLock::new(|| Compilers::new(3, Duration::from_secs(60)));

/// The places where plugins are compiled.
struct Compilers {
    places: Arc<Semaphore>,
    limit: Duration,
}

impl Compilers {
    /// So many places. Waiting for one may take `limit`, and so may compiling, which has longer for a large file.
    fn new(places: usize, limit: Duration) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), limit }
    }

    fn limit_of(&self, size: usize) -> Duration {
        let mib = u32::try_from(size >> 20).unwrap_or(u32::MAX);
        self.limit.saturating_add(LONGER_PER_MIB.saturating_mul(mib))
    }

    /// Runs `work` on a file of `size` bytes in a place. Compiling cannot be stopped: work that is given up keeps its place until it
    /// really ends, so there are never more such strays than places.
    async fn run<T: Send + 'static>(
        &self,
        tracker: &TaskTracker,
        size: usize,
        work: impl FnOnce() -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Rejection> {
        let limit = self.limit_of(size);
        let place = match tokio::time::timeout(self.limit, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) | Err(_) => return Err(Rejection::NoCompiler(self.limit)),
        };
        let running = tracker.spawn_blocking(move || {
            let _place = place;
            work()
        });
        match tokio::time::timeout(limit, running).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Err(Rejection::Compile(format!("the compiler gave up: {error}"))),
            Err(_) => Err(Rejection::Compile(format!("it took longer than {limit:?}"))),
        }
    }
}

fn compile(host: &Host, bytes: &[u8], digest: Arc<str>, bounds: Bounds) -> Result<Arc<Compiled>, Rejection> {
    let found = inspect::inspect(bytes, bounds.file)?;
    found.needs.within(bounds.memory)?;
    let began = clock::now();
    let component =
        Component::from_binary(&host.engine, bytes).map_err(|error| Rejection::Compile(brief(&error)))?;
    let took = clock::now().duration_since(began);
    instantiable(&component)?;
    let pre =
        host.linker.instantiate_pre(&component).map_err(|error| Rejection::ImportShape(brief(&error)))?;
    let exports = Exports::find(found.contract, &pre, &found.kinds).map_err(|error| Rejection::Shape {
        version: found.contract.version().to_owned(),
        message: brief(&error),
    })?;
    log_compiled(&digest, bytes.len(), &component, took);
    let compiled = Arc::new(Compiled {
        digest,
        contract: found.contract,
        kinds: found.kinds,
        pre,
        exports,
        needs: found.needs,
    });
    if !host.metered {
        keep(&compiled);
    }
    Ok(compiled)
}

/// Modules that come in as imports or are instantiated more than once escape the declared needs.
fn instantiable(component: &Component) -> Result<(), Rejection> {
    let too_much = |what, found: String, max| Rejection::Resources { what, found, max };
    let Some(needs) = component.resources_required() else {
        return Err(too_much("core modules from outside", "some".into(), 0));
    };
    if needs.num_memories > 1 {
        return Err(too_much("memories", needs.num_memories.to_string(), 1));
    }
    if needs.num_tables > TABLES_MAX {
        return Err(too_much("tables", needs.num_tables.to_string(), TABLES_MAX.into()));
    }
    Ok(())
}

fn log_compiled(digest: &str, size: usize, component: &Component, took: Duration) {
    let image = component.image_range();
    let code = (image.end as usize).saturating_sub(image.start as usize);
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    tracing::debug!(digest, size, code, ms, "plugin compiled");
}

static CACHE: Mutex<Vec<Weak<Compiled>>> = Mutex::new(Vec::new());

/// Code belongs to its engine, and only that of the gateway's is kept.
fn cached(host: &Host, digest: &str) -> Option<Arc<Compiled>> {
    if host.metered {
        return None;
    }
    let cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.iter().filter_map(Weak::upgrade).find(|compiled| *compiled.digest == *digest)
}

fn keep(compiled: &Arc<Compiled>) {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.retain(|entry| entry.strong_count() > 0);
    if cache.len() >= CACHED {
        cache.remove(0);
    }
    cache.push(Arc::downgrade(compiled));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_compile_that_does_not_end_fails_alone_and_the_next_one_runs() {
        let compilers = Compilers::new(2, Duration::from_millis(50));
        let tracker = TaskTracker::new();
        let (end, ends) = mpsc::sync_channel::<()>(1);
        let stuck = move || ends.recv().map_err(|gone| Rejection::Compile(gone.to_string()));
        let limit = Duration::from_secs(20);
        let outcome = tokio::time::timeout(limit, compilers.run(&tracker, 0, stuck)).await.unwrap();
        assert!(matches!(outcome, Err(Rejection::Compile(_))), "{outcome:?}");
        let next = tokio::time::timeout(limit, compilers.run(&tracker, 0, || Ok(7))).await;
        assert_eq!(next, Ok(Ok(7)), "another plugin does not wait for it");
        assert_eq!(compilers.places.available_permits(), 1, "the stray still has its place");
        end.send(()).unwrap();
        tracker.close();
        tracker.wait().await;
        assert_eq!(compilers.places.available_permits(), 2);
    }

    #[tokio::test]
    async fn with_a_stray_in_every_place_others_are_told_to_come_again() {
        let compilers = Compilers::new(1, Duration::from_millis(50));
        let tracker = TaskTracker::new();
        let (end, ends) = mpsc::sync_channel::<()>(1);
        let stuck = move || ends.recv().map_err(|gone| Rejection::Compile(gone.to_string()));
        assert!(compilers.run(&tracker, 0, stuck).await.is_err());
        let next = compilers.run(&tracker, 0, || Ok(7)).await;
        assert!(next.as_ref().is_err_and(Rejection::is_passing), "{next:?} says nothing about its bytes");
        end.send(()).unwrap();
    }
    #[test]
    fn a_large_file_has_longer() {
        let compilers = Compilers::new(1, Duration::from_secs(60));
        for (size, seconds) in [(0, 60), ((1 << 20) - 1, 60), (18 << 20, 420), (64 << 20, 1340)] {
            assert_eq!(compilers.limit_of(size), Duration::from_secs(seconds), "{size}");
        }
    }
}
