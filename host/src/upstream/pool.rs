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

/// A connection: its sending half, and a way to know when it is gone.
pub(super) struct Connection {
    /// The sending half.
    pub sender: Sender,
    /// Cancelled when the connection is closed.
    pub closed: CancellationToken,
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest connection that looks alive. One with many streams stays in the pool.
    pub fn take(&self) -> Option<Connection> {
        let now = clock::now();
        let mut kept = self.lock();
        while let Some(newest) = kept.idle.pop_back() {
            let Connection { sender, closed } = &newest.connection;
            if sender.is_closed() || now.duration_since(newest.since) >= self.idle_for {
                continue;
            }
            if let Sender::Http2(shared) = sender {
                let again = Connection { sender: Sender::Http2(shared.clone()), closed: closed.clone() };
                kept.idle.push_back(Idle { connection: again, since: now });
            }
            return Some(newest.connection);
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
        kept.idle.retain(|idle| {
            !idle.connection.sender.is_closed() && now.duration_since(idle.since) < self.idle_for
        });
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
