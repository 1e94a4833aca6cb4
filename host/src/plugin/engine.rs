//! The one engine of the process, its ticker, and the linker that every plugin is linked with.
//!
//! Made once and shared by every gateway in the process: compiled code and type indices belong to an engine
//! and must never meet another. Features that the contract does not need are off.

use std::num::NonZeroUsize;
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use wasmtime::component::Linker;
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, Module, ModuleVersionStrategy, OptLevel,
    PoolingAllocationConfig, Store, Trap,
};

use super::contract;
use super::state::State;
use super::ticker::Ticker;

/// Linear memory an instance can have at most, whatever its limit says.
pub const MEMORY_MAX: u64 = crate::config::PLUGIN_MEMORY_MAX;
/// Tables of one component: a Rust guest needs two.
pub const TABLES_MAX: u32 = 4;
/// Elements of one table.
pub const TABLE_ELEMENTS_MAX: u64 = 20_000;
/// Core instances of one component: guest, adapters and shims. A Rust guest has 4, one in Python close to 40. None of
/// them takes address space of its own.
pub const CORE_INSTANCES_MAX: u32 = 64;

/// A loop that never ends, as a core module with one export, `f`.
const LOOP: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x04\x01\x60\0\0\
    \x03\x02\x01\0\
    \x07\x05\x01\x01f\0\0\
    \x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";

/// How long the self-test may take on a machine that is very busy.
const SELF_TEST: Duration = Duration::from_secs(10);

/// Why there is no engine.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum EngineError {
    /// wasmtime refused the configuration on this machine, with and without a pool.
    #[error("the Wasm engine cannot start on this machine: {0}")]
    Config(String),
    /// The imports of the contract could not be defined.
    #[error("the imports of plugins cannot be defined: {0}")]
    Link(String),
    /// There is no thread for the ticker.
    #[error("the thread that ends looping plugins cannot start: {0}")]
    Thread(String),
    /// A looping guest was not ended.
    #[error("self-test: a looping guest should have been ended within {SELF_TEST:?}, but {0}")]
    SelfTest(String),
}

/// What every plugin shares.
pub struct Host {
    /// The engine.
    pub engine: Engine,
    /// Its clock.
    pub ticker: Ticker,
    /// Everything a plugin may import.
    pub linker: Linker<State>,
    /// It counts what guests execute, which costs time: for the command line, never for a gateway.
    pub metered: bool,
}

impl Host {
    /// The host of this process; the first call makes it and blocks for some milliseconds.
    ///
    /// # Errors
    /// It could not be made. The answer stays the same for the life of the process.
    pub fn get() -> Result<&'static Self, EngineError> {
        static HOST: OnceLock<Result<Host, EngineError>> = OnceLock::new();
        HOST.get_or_init(Self::new).as_ref().map_err(Clone::clone)
    }

    /// A second one that counts what guests execute.
    ///
    /// # Errors
    /// As [`Host::get`].
    pub fn metered() -> Result<&'static Self, EngineError> {
        static HOST: OnceLock<Result<Host, EngineError>> = OnceLock::new();
        let make = || {
            let mut config = config(None);
            config.consume_fuel(true);
            let engine = Engine::new(&config).map_err(|error| EngineError::Config(format!("{error:#}")))?;
            Self::around(engine, true)
        };
        HOST.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    fn new() -> Result<Self, EngineError> {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let engine = match Engine::new(&config(Some(pool(cores)))) {
            Ok(engine) => engine,
            Err(error) => {
                tracing::warn!(%error, "no address space for a pool of plugin instances; each is allocated on its own");
                Engine::new(&config(None)).map_err(|error| EngineError::Config(format!("{error:#}")))?
            }
        };
        Self::around(engine, false)
    }

    fn around(engine: Engine, metered: bool) -> Result<Self, EngineError> {
        let ticker = Ticker::start(&engine).map_err(|error| EngineError::Thread(error.to_string()))?;
        if !metered {
            self_test(&engine, &ticker, SELF_TEST)?;
        }
        let mut linker = Linker::new(&engine);
        contract::link(&mut linker).map_err(|error| EngineError::Link(format!("{error:#}")))?;
        Ok(Self { engine, ticker, linker, metered })
    }
}

/// Sized for a few plugins with as many calls at a time as are useful on this machine.
fn pool(cores: usize) -> PoolingAllocationConfig {
    let instances = u32::try_from((cores * 16).clamp(64, 512)).unwrap_or(512);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES_MAX))
        .total_memories(instances)
        .total_tables(instances.saturating_mul(TABLES_MAX))
        .total_stacks(instances)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(1)
        .max_tables_per_component(TABLES_MAX)
        .table_elements(usize::try_from(TABLE_ELEMENTS_MAX).unwrap_or(usize::MAX))
        .max_memory_size(usize::try_from(MEMORY_MAX).unwrap_or(usize::MAX))
        .max_unused_warm_slots(instances / 2)
        .linear_memory_keep_resident(256 * 1024);
    pool
}

fn config(pool: Option<PoolingAllocationConfig>) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        .native_unwind_info(cfg!(windows))
        .wasm_tail_call(false)
        .wasm_custom_page_sizes(false)
        .wasm_relaxed_simd(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .shared_memory(false)
        .max_wasm_stack(512 * 1024)
        .async_stack_size(2 * 1024 * 1024)
        // Whoever built the component has optimised it already. To do so again takes a quarter of the time until a
        // plugin runs, and saves a request three of a hundred instructions.
        .cranelift_opt_level(OptLevel::None);
    // Compiled code never leaves the process, so no version is written into it.
    let _ = config.module_version(ModuleVersionStrategy::None);
    match pool {
        Some(pool) => config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool)),
        // Without a pool because address space is short: then no instance may take four gigabytes of it.
        None => config
            .memory_reservation(MEMORY_MAX)
            .memory_reservation_for_growth(0)
            .memory_guard_size(64 * 1024)
            .guard_before_linear_memory(false),
    };
    config
}

/// A looping guest must be ended by the ticker. Runs in a thread of its own, so that a ticker that does not
/// tick is found out and not waited for.
fn self_test(engine: &Engine, ticker: &Ticker, limit: Duration) -> Result<(), EngineError> {
    let failed = |text: String| EngineError::SelfTest(text);
    let module =
        Module::new(engine, LOOP).map_err(|error| failed(format!("it does not compile: {error:#}")))?;
    let (done, wait) = mpsc::sync_channel(1);
    let (engine_of_probe, ticker) = (engine.clone(), ticker.clone());
    std::thread::Builder::new()
        .name("sluice-selftest".into())
        .spawn(move || {
            let _running = ticker.enter();
            let _ = done.send(run_loop(&engine_of_probe, &module));
        })
        .map_err(|error| EngineError::Thread(error.to_string()))?;
    let verdict = wait.recv_timeout(limit);
    if verdict.is_err() {
        // Lets the probe go, so that its thread ends.
        engine.increment_epoch();
        engine.increment_epoch();
    }
    match verdict {
        Ok(Ok(())) => Ok(()),
        Ok(Err(text)) => Err(failed(text)),
        Err(_) => Err(failed("it ran on".into())),
    }
}

fn run_loop(engine: &Engine, module: &Module) -> Result<(), String> {
    let mut store = Store::new(engine, ());
    store.set_epoch_deadline(2);
    store.epoch_deadline_trap();
    let instance = wasmtime::Instance::new(&mut store, module, &[]).map_err(|error| format!("{error:#}"))?;
    let looping = instance.get_typed_func::<(), ()>(&mut store, "f").map_err(|error| format!("{error:#}"))?;
    match looping.call(&mut store, ()) {
        Err(error) if error.downcast_ref::<Trap>() == Some(&Trap::Interrupt) => Ok(()),
        Err(error) => Err(format!("it ended with: {error:#}")),
        Ok(()) => Err("it returned".into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn an_engine_is_made_with_a_pool_and_without_one() {
        assert!(Engine::new(&config(Some(pool(2)))).is_ok());
        assert!(Engine::new(&config(None)).is_ok());
    }

    #[test]
    fn the_self_test_finds_a_ticker_that_does_not_tick() {
        let engine = Engine::new(&config(None)).unwrap();
        let other = Engine::new(&config(None)).unwrap();
        let ticker_of_another_engine = Ticker::start(&other).unwrap();
        let verdict = self_test(&engine, &ticker_of_another_engine, Duration::from_millis(50));
        assert!(matches!(verdict, Err(EngineError::SelfTest(_))), "nobody ticks this engine: {verdict:?}");
    }

    #[test]
    fn the_ticker_parks_when_no_call_runs_and_wakes_for_the_next() {
        let engine = Engine::new(&config(None)).unwrap();
        let ticker = Ticker::start(&engine).unwrap();
        let began = crate::clock::now();
        while !ticker.is_parked() {
            assert!(crate::clock::now() - began < Duration::from_secs(10), "still ticking without a call");
            std::thread::yield_now();
        }
        assert_eq!(self_test(&engine, &ticker, SELF_TEST), Ok(()), "a parked ticker must wake up");
    }
}
