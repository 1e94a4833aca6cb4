//! Connections of one upstream. The newest is used first, so that the others can grow old and go.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::shared::{Place, Shared, Usage};
use crate::clock;

/// Idle connections kept for one upstream; beyond them the oldest is closed.
const IDLE_MAX: usize = 512;
/// HTTP/2 connections kept for one upstream; further ones carry the one exchange they were made for.
pub(super) const SHARED_MAX: usize = 64;

/// A connection, held by one exchange.
pub(super) enum Connection {
    /// One exchange at a time.
    Http1 {
        /// The sending half.
        sender: http1::SendRequest<Full<Bytes>>,
        /// Cancelled when the connection is closed.
        closed: CancellationToken,
    },
    /// Many at a time.
    Http2 {
        /// The sending half.
        sender: http2::SendRequest<Full<Bytes>>,
        /// Among the others.
        place: Place,
    },
}

struct Idle {
    sender: http1::SendRequest<Full<Bytes>>,
    closed: CancellationToken,
    since: Instant,
}

#[derive(Default)]
struct Kept {
    idle: VecDeque<Idle>,
    shared: Vec<Shared>,
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

    /// The newest connection that looks alive and has a place.
    pub fn take(self: &Arc<Self>) -> Option<Connection> {
        let now = clock::now();
        let mut kept = self.lock();
        kept.shared.retain(|shared| !shared.sender.is_closed());
        if let Some(shared) = kept.shared.iter().rev().find(|shared| shared.usage.has_place()) {
            let place = Place::take(&shared.usage, Arc::downgrade(self));
            return Some(Connection::Http2 { sender: shared.sender.clone(), place });
        }
        while let Some(Idle { sender, closed, since }) = kept.idle.pop_back() {
            if !sender.is_closed() && now.duration_since(since) < self.idle_for {
                return Some(Connection::Http1 { sender, closed });
            }
        }
        None
    }

    /// Keeps a connection for the next exchange.
    pub fn put(self: &Arc<Self>, sender: http1::SendRequest<Full<Bytes>>, closed: CancellationToken) {
        if sender.is_closed() || self.stop.is_cancelled() {
            return;
        }
        self.keep(|kept| {
            if kept.idle.len() >= IDLE_MAX {
                kept.idle.pop_front();
            }
            kept.idle.push_back(Idle { sender, closed, since: clock::now() });
        });
    }

    /// Keeps a connection for further exchanges.
    pub fn share(self: &Arc<Self>, shared: Shared) {
        if shared.sender.is_closed() || self.stop.is_cancelled() {
            return;
        }
        self.keep(|kept| {
            if kept.shared.len() < SHARED_MAX {
                kept.shared.push(shared);
            }
        });
    }

    fn keep(self: &Arc<Self>, with: impl FnOnce(&mut Kept)) {
        let start = {
            let mut kept = self.lock();
            with(&mut kept);
            !std::mem::replace(&mut kept.reaping, true)
        };
        if start {
            self.tracker.spawn(reap(Arc::downgrade(self), self.idle_for, self.stop.clone()));
        }
    }

    /// No further exchange begins on this connection; those that are on it go on.
    pub fn discard(&self, usage: &Arc<Usage>) {
        self.lock().shared.retain(|shared| !Arc::ptr_eq(&shared.usage, usage));
    }

    /// Closes what has been idle for too long. False: nothing is left to wait for.
    fn sweep(&self) -> bool {
        let now = clock::now();
        let mut kept = self.lock();
        kept.idle.retain(|idle| !idle.sender.is_closed() && now.duration_since(idle.since) < self.idle_for);
        kept.shared.retain(|shared| !shared.sender.is_closed() && !shared.usage.is_idle_for(self.idle_for));
        kept.reaping = !(kept.idle.is_empty() && kept.shared.is_empty());
        kept.reaping
    }

    /// Lets go of everything.
    fn clear(&self) {
        let mut kept = self.lock();
        kept.idle.clear();
        kept.shared.clear();
    }

    /// HTTP/2 connections that are kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.lock().shared.len()
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
