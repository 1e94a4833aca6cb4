//! A gate that calls wait at. Who is next is decided by the core; here waiters sleep, wake and give up.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluice_core::gate::{Full, Gate as Line, Limits, Priority, WaiterId};
use tokio::sync::oneshot;

use super::{StateWatch, lock};
use crate::{clock, config};

#[cfg(test)]
mod tests;

/// Why a gate let nobody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum GateRefusal {
    /// As many wait as may.
    #[error("as many calls are waiting as the queue holds")]
    Full,
    /// The wait or the request's own time was over.
    #[error("no permit came free within the time to wait")]
    TimedOut,
}

impl GateRefusal {
    /// Spelling in metrics and error codes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "queue_full",
            Self::TimedOut => "queue_timeout",
        }
    }
}

/// What pages and metrics show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatePage {
    /// Permits out.
    pub in_flight: u32,
    /// Permits there are.
    pub limit: u32,
    /// Calls waiting, returning ones included.
    pub queue: u32,
    /// Newcomers that may wait.
    pub queue_limit: u32,
}

/// A gate and its queue.
pub struct Gate {
    name: Arc<str>,
    watch: Arc<dyn StateWatch>,
    inner: Mutex<Inner>,
}

struct Inner {
    line: Line<oneshot::Sender<()>>,
    queue_wait: Duration,
}

impl Gate {
    /// An empty gate; the name is its metric label.
    pub fn new(name: &str, limits: config::Gate, watch: Arc<dyn StateWatch>) -> Self {
        let inner = Inner { line: Line::new(line_limits(limits)), queue_wait: limits.queue_wait };
        Self { name: name.into(), watch, inner: Mutex::new(inner) }
    }

    /// Its metric label: `global`, `upstream:NAME`, `target:NAME/MODEL`, `caller:NAME`.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A permit, if one is free and nobody stands in front. Never waits, and no refusal is counted.
    pub fn try_enter(self: &Arc<Self>, priority: Priority) -> Option<Permit> {
        let enters = lock(&self.inner).line.try_enter(priority);
        enters.then(|| {
            self.watch.gate_waited(&self.name, Duration::ZERO);
            Permit { gate: self.clone() }
        })
    }

    /// A permit, waiting for one until `until` or for as long as the gate lets wait, whichever is shorter.
    /// Dropping the future leaves the queue at once; a permit granted at that moment goes to the next one.
    ///
    /// # Errors
    /// [`GateRefusal`], already told to the watch.
    pub async fn enter(self: &Arc<Self>, priority: Priority, until: Instant) -> Result<Permit, GateRefusal> {
        let began = clock::now();
        let waited = match self.stand(priority, began, until) {
            Stand::In => Ok(Permit { gate: self.clone() }),
            Stand::Full => return Err(self.turn_away()),
            Stand::Waiting(waiting, woken, until) => {
                // Either way the line knows: a grant made in the moment time ran out is still good.
                tokio::time::timeout_at(until.into(), woken).await.ok();
                waiting.claim()
            }
        };
        self.watch.gate_waited(&self.name, clock::now().saturating_duration_since(began));
        waited.inspect_err(|refusal| self.watch.gate_refused(&self.name, *refusal))
    }

    /// Refuses a call that may not stand in line, as if the line were full.
    pub fn turn_away(&self) -> GateRefusal {
        self.watch.gate_refused(&self.name, GateRefusal::Full);
        GateRefusal::Full
    }

    /// Takes new limits in place; calls above a lowered one finish, waiters that a raised one lets in wake.
    pub fn set(&self, limits: config::Gate) {
        let woken = {
            let mut inner = lock(&self.inner);
            inner.queue_wait = limits.queue_wait;
            inner.line.set(line_limits(limits))
        };
        woken.into_iter().for_each(wake);
    }

    /// For pages and metrics.
    pub fn snapshot(&self) -> GatePage {
        let inner = lock(&self.inner);
        let limits = inner.line.limits();
        GatePage {
            in_flight: inner.line.in_flight(),
            limit: limits.max_in_flight,
            queue: u32::try_from(inner.line.waiting()).unwrap_or(u32::MAX),
            queue_limit: limits.queue,
        }
    }

    fn stand(self: &Arc<Self>, priority: Priority, now: Instant, until: Instant) -> Stand {
        let mut inner = lock(&self.inner);
        if inner.line.try_enter(priority) {
            return Stand::In;
        }
        let (wake, woken) = oneshot::channel();
        match inner.line.enqueue(priority, wake) {
            Err(Full) => Stand::Full,
            Ok(id) => {
                let longest = now.checked_add(inner.queue_wait).unwrap_or(until);
                Stand::Waiting(Waiting { gate: self.clone(), id }, woken, until.min(longest))
            }
        }
    }

    fn leave(&self) {
        let next = lock(&self.inner).line.leave();
        next.into_iter().for_each(wake);
    }
}

enum Stand {
    In,
    Full,
    Waiting(Waiting, oneshot::Receiver<()>, Instant),
}

/// A place in the line; dropped, it is given up.
struct Waiting {
    gate: Arc<Gate>,
    id: WaiterId,
}

impl Waiting {
    /// The permit this place was granted, if it was. Dropping the place afterwards gives up nothing, since
    /// what was claimed is no longer its own.
    fn claim(self) -> Result<Permit, GateRefusal> {
        let granted = lock(&self.gate.inner).line.claim(self.id);
        if granted { Ok(Permit { gate: self.gate.clone() }) } else { Err(GateRefusal::TimedOut) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let next = lock(&self.gate.inner).line.cancel(self.id);
        next.into_iter().for_each(wake);
    }
}

/// The right to run. Dropped, it goes to the next in line.
#[must_use = "a permit that is dropped is given back"]
pub struct Permit {
    gate: Arc<Gate>,
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Permit").field(&self.gate.name).finish()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

/// A waiter that is gone by now is about to cancel, and passes its grant on.
fn wake(waiter: oneshot::Sender<()>) {
    waiter.send(()).ok();
}

const fn line_limits(gate: config::Gate) -> Limits {
    Limits { max_in_flight: gate.max_in_flight, queue: gate.queue }
}
