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

/// How often the thread looks up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Somebody was just at work, or is about to be.
    Ticking,
    /// Nobody was met at work so many times in a row.
    Looking { idle: u32 },
    /// Not before a call comes.
    Parked,
}

impl Pace {
    /// What follows a look.
    const fn looked(self, at_work: bool) -> Self {
        match self {
            _ if at_work => Self::Ticking,
            Self::Ticking => Self::Looking { idle: 1 },
            Self::Looking { idle } if idle + 1 < LINGER => Self::Looking { idle: idle + 1 },
            Self::Looking { .. } | Self::Parked => Self::Parked,
        }
    }

    /// Until the next look; none: until a call comes.
    fn nap(self) -> Option<Duration> {
        match self {
            Self::Ticking => Some(TICK),
            Self::Looking { .. } => Some(TICK * LOOK),
            Self::Parked => None,
        }
    }
}

fn run(shared: &Shared, weak: &EngineWeak) {
    let mut pace = Pace::Ticking;
    loop {
        let Some(nap) = pace.nap() else {
            park(shared, weak);
            // Its first tick is a whole one, so that the call is not ended early.
            pace = Pace::Ticking;
            continue;
        };
        std::thread::sleep(nap);
        let Some(engine) = weak.upgrade() else { return };
        let at_work = shared.running.load(Ordering::SeqCst) > 0;
        if at_work {
            engine.increment_epoch();
        }
        pace = pace.looked(at_work);
    }
}

/// Sleeps until a call comes or the engine is gone.
fn park(shared: &Shared, weak: &EngineWeak) {
    shared.parked.store(true, Ordering::SeqCst);
    while shared.running.load(Ordering::SeqCst) == 0 && shared.parked.load(Ordering::SeqCst) {
        // Wakes by itself now and then, to see whether the engine is gone.
        std::thread::park_timeout(Duration::from_secs(10));
        if weak.upgrade().is_none() {
            break;
        }
    }
    shared.parked.store(false, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ticks_while_somebody_is_at_work_looks_for_a_while_after_that_and_parks() {
        let looking = |idle| Pace::Looking { idle };
        let table = [
            (Pace::Ticking, true, Pace::Ticking),
            (Pace::Ticking, false, looking(1)),
            (looking(1), false, looking(2)),
            (looking(1), true, Pace::Ticking),
            (looking(LINGER - 1), true, Pace::Ticking),
            (looking(LINGER - 2), false, looking(LINGER - 1)),
            (looking(LINGER - 1), false, Pace::Parked),
            (Pace::Parked, false, Pace::Parked),
            (Pace::Parked, true, Pace::Ticking),
        ];
        for (pace, at_work, follows) in table {
            assert_eq!(pace.looked(at_work), follows, "{pace:?}, at work: {at_work}");
        }
        let naps = [Pace::Ticking, looking(1), looking(LINGER - 1), Pace::Parked].map(Pace::nap);
        assert_eq!(naps, [Some(TICK), Some(TICK * LOOK), Some(TICK * LOOK), None]);
    }

    #[test]
    fn it_looks_as_often_as_it_is_to_linger_before_it_parks() {
        let (mut pace, mut looks) = (Pace::Ticking, 0);
        while pace != Pace::Parked {
            pace = pace.looked(false);
            looks += 1;
        }
        assert_eq!(looks, LINGER);
    }
}
