//! Idle connections of one upstream. The newest is used first, so that the others can grow old and go.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;

/// Idle connections kept for one upstream; beyond them the oldest is closed.
const IDLE_MAX: usize = 512;

/// Streams at a time on one HTTP/2 connection; for more another is made.
pub(super) const STREAMS_MAX: u32 = 100;

/// A connection: its sending half, and a way to know when it is gone.
pub(super) struct Connection {
    /// The sending half.
    pub sender: Sender,
    /// Cancelled when the connection is closed.
    pub closed: Arc<CancellationToken>,
    /// Held by the pool and by every stream of the connection.
    holders: Arc<()>,
}

impl Connection {
    /// A new one.
    pub fn new(sender: Sender, closed: CancellationToken) -> Self {
        // Shared, because to clone a token is to lock it.
        Self { sender, closed: Arc::new(closed), holders: Arc::default() }
    }

    /// The same connection for another stream. One that takes one request at a time is not shared.
    pub fn shared(&self) -> Option<Self> {
        let Sender::Http2(sender) = &self.sender else { return None };
        let (closed, holders) = (self.closed.clone(), self.holders.clone());
        Some(Self { sender: Sender::Http2(sender.clone()), closed, holders })
    }

    /// Streams that run on it, seen from the pool.
    fn streams(&self) -> usize {
        Arc::strong_count(&self.holders) - 1
    }
}

/// The sending half of a connection.
pub(super) enum Sender {
    /// One request at a time.
    Http1(http1::SendRequest<Full<Bytes>>),
    /// Many at a time; the pool keeps a clone.
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Idle {
    /// Gone, or idle for too long. A connection with streams is not idle.
    fn is_over(&self, now: Instant, idle_for: Duration) -> bool {
        let unused = self.connection.streams() == 0;
        self.connection.sender.is_closed() || (unused && now.duration_since(self.since) >= idle_for)
    }
}

#[derive(Default)]
struct Kept {
    idle: VecDeque<Idle>,
    reaping: bool,
}

/// The idle connections of one upstream.
pub(super) struct Pool {
    kept: Mutex<Kept>,
    idle_for: Duration,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Pool {
    /// An empty pool whose connections are closed when idle for `idle_for`.
    pub fn new(idle_for: Duration, tracker: TaskTracker, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), idle_for, tracker, stop })
    }

    /// Owns what has to do with its connections.
    pub fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest connection that looks alive and has a place. One with many streams stays in the pool.
    pub fn take(&self, now: Instant) -> Option<Connection> {
        let mut kept = self.lock();
        let mut at = kept.idle.len();
        while let Some(before) = at.checked_sub(1) {
            at = before;
            let idle = kept.idle.get_mut(at)?;
            if idle.is_over(now, self.idle_for) {
                kept.idle.remove(at);
            } else if idle.connection.streams() < STREAMS_MAX as usize {
                idle.since = now;
                return match idle.connection.shared() {
                    Some(shared) => Some(shared),
                    None => kept.idle.remove(at).map(|idle| idle.connection),
                };
            }
        }
        None
    }

    /// Keeps a connection for the next request.
    pub fn put(self: &Arc<Self>, connection: Connection) {
        if connection.sender.is_closed() || self.stop.is_cancelled() {
            return;
        }
        let start = {
            let mut kept = self.lock();
            if kept.idle.len() >= IDLE_MAX {
                kept.idle.pop_front();
            }
            kept.idle.push_back(Idle { connection, since: clock::now() });
            !std::mem::replace(&mut kept.reaping, true)
        };
        if start {
            self.tracker.spawn(reap(Arc::downgrade(self), self.idle_for, self.stop.clone()));
        }
    }

    /// Closes what has been idle for too long. False: nothing is left to wait for.
    fn sweep(&self) -> bool {
        let now = clock::now();
        let mut kept = self.lock();
        for idle in kept.idle.iter_mut().filter(|idle| idle.connection.streams() > 0) {
            idle.since = now;
        }
        kept.idle.retain(|idle| !idle.is_over(now, self.idle_for));
        kept.reaping = !kept.idle.is_empty();
        kept.reaping
    }

    /// Closes everything.
    fn clear(&self) {
        self.lock().idle.clear();
    }
}

/// Sweeps while anything is idle. Holds no pool alive.
async fn reap(pool: std::sync::Weak<Pool>, idle_for: Duration, stop: CancellationToken) {
    let every = (idle_for / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
    loop {
        let stopped = tokio::select! {
            () = tokio::time::sleep(every) => false,
            () = stop.cancelled() => true,
        };
        let Some(pool) = pool.upgrade() else { return };
        if stopped {
            pool.clear();
            return;
        }
        if !pool.sweep() {
            return;
        }
    }
}
