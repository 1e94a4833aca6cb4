//! Compiled plugins, kept by the digest of their bytes.
//!
//! Compiling takes a core for a tenth of a second and more, so it happens on a blocking thread, one at a
//! time in the process. The same bytes are compiled once for as long as anybody runs them; the cache itself
//! keeps nothing alive.

use std::sync::{Arc, Mutex, PoisonError, Weak};
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
    static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

    let permit = ONE_AT_A_TIME.acquire().await.map_err(|closed| Rejection::Compile(closed.to_string()))?;
    let work = tracker.spawn_blocking(move || {
        let _permit = permit;
        if let Some(found) = cached(&digest) {
            found.needs.within(bounds.memory)?;
            return Ok(found);
        }
        compile(host, &bytes, digest, bounds)
    });
    match work.await {
        Ok(outcome) => outcome,
        Err(error) => Err(Rejection::Compile(format!("the compiler gave up: {error}"))),
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
    keep(&compiled);
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

fn cached(digest: &str) -> Option<Arc<Compiled>> {
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
