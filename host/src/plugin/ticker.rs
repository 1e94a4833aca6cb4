//! The clock of running guests: one plain OS thread that raises the engine's epoch every millisecond in which one
//! is at work.
//!
//! A plain thread, because a busy runtime must not slow the clock that ends its guests. It holds the engine
//! weakly, so it never keeps one alive. Most calls are over in microseconds, and each time it wakes it takes the
//! processor from those who do the work: so it looks up less often while it meets nobody at work, and ticks every
//! millisecond from when it does. It is parked while no call runs; waking it costs a system call, so
//! it stays awake for a moment after the last call, and calls that follow each other do not pay.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

/// Length of a tick.
pub const TICK: Duration = Duration::from_millis(1);

/// Ticks between two looks while nobody is met at work. The first tick of a call comes late by up to so many less one, and a
/// guest that never ends runs on for as long: nothing is known of that time, so that it is not counted.
const LOOK: u32 = 4;

/// Looks without a call before the thread parks.
const LINGER: u32 = 25;

/// The ticks that `time` is, rounded up, plus the one that was already under way when a call began.
pub fn ticks(time: Duration) -> u32 {
    let whole = time.as_micros().div_ceil(TICK.as_micros());
    u32::try_from(whole).unwrap_or(u32::MAX - 1).saturating_add(1)
}

#[derive(Debug, Default)]
struct Shared {
    running: AtomicU32,
    parked: AtomicBool,
}

/// Handle to the thread.
#[derive(Debug, Clone)]
pub struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

/// A call that runs. Keeps the ticker awake until it is dropped.
#[derive(Debug)]
pub struct Running(Arc<Shared>);

impl Ticker {
    /// Starts the thread for `engine`; it ends when the engine is gone.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let weak = engine.weak();
        let handle = std::thread::Builder::new()
            .name("sluice-epoch".into())
            .stack_size(128 * 1024)
            .spawn(move || run(&of_thread, &weak))?;
        Ok(Self { shared, thread: handle.thread().clone() })
    }

    /// Says that a guest is about to run.
    pub fn enter(&self) -> Running {
        // The thread says `parked` before it looks at `running`, this says `running` before it looks at
        // `parked`: one of the two sees the other.
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.parked.load(Ordering::SeqCst) && self.shared.parked.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running(self.shared.clone())
    }

    #[cfg(test)]
    pub fn is_parked(&self) -> bool {
        self.shared.parked.load(Ordering::SeqCst)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

fn run(shared: &Shared, weak: &EngineWeak) {
    let mut idle = 0;
    let mut nap = TICK;
    loop {
        std::thread::sleep(nap);
        let Some(engine) = weak.upgrade() else { return };
        if shared.running.load(Ordering::SeqCst) > 0 {
            engine.increment_epoch();
            (idle, nap) = (0, TICK);
            continue;
        }
        drop(engine);
        nap = TICK * LOOK;
        idle += 1;
        if idle < LINGER {
            continue;
        }
        idle = 0;
        shared.parked.store(true, Ordering::SeqCst);
        while shared.running.load(Ordering::SeqCst) == 0 && shared.parked.load(Ordering::SeqCst) {
            // Wakes by itself now and then, to see whether the engine is gone.
            std::thread::park_timeout(Duration::from_secs(10));
            if weak.upgrade().is_none() {
                return;
            }
        }
        shared.parked.store(false, Ordering::SeqCst);
        nap = TICK;
    }
}
