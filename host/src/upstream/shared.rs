//! HTTP/2 connections of one upstream, each carrying many exchanges at a time.
//!
//! Decides how many exchanges a connection is given, and when it is no longer trusted. Inside the protocol
//! library a call over the peer's limit would wait where no clock is held for it, so the places are counted
//! here; and a connection whose path went dark looks alive to everybody, so silence is counted too.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::sync::Notify;

use super::dial::Io;
use super::pool::Pool;
use crate::clock;

/// Exchanges on one connection, if its peer allows as many.
const STREAMS_MAX: usize = 100;
/// An exchange that ends early on a connection that was silent for so long takes its trust away.
const SILENCE: Duration = Duration::from_secs(1);

/// How far a connection has come: nothing of its peer, its first word, our answer to that.
const UNHEARD: u8 = 0;
const HEARD: u8 = 1;
const ANSWERED: u8 = 2;

/// A connection that is kept.
pub(super) struct Shared {
    /// The sending half.
    pub sender: http2::SendRequest<Full<Bytes>>,
    /// How it is doing.
    pub usage: Arc<Usage>,
}

/// How a connection is doing. Times are milliseconds since it was made.
#[derive(Debug)]
pub(super) struct Usage {
    made: Instant,
    streams: AtomicUsize,
    /// As the peer allows.
    streams_max: AtomicUsize,
    last_used: AtomicU64,
    last_read: AtomicU64,
    /// The first request since something was last read.
    asked: AtomicU64,
    greeting: AtomicU8,
    /// Rung when the peer's limits are known, and when they may have changed.
    pub bell: Notify,
}

impl Usage {
    /// Of a connection that is made now.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            made: clock::now(),
            streams: AtomicUsize::new(0),
            streams_max: AtomicUsize::new(STREAMS_MAX),
            last_used: AtomicU64::new(0),
            last_read: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            greeting: AtomicU8::new(UNHEARD),
            bell: Notify::new(),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(clock::now().duration_since(self.made).as_millis()).unwrap_or(u64::MAX)
    }

    /// The peer allows so many; gives how many of them are used.
    pub fn allow(&self, streams: usize) -> usize {
        let used = streams.clamp(1, STREAMS_MAX);
        self.streams_max.store(used, Ordering::Relaxed);
        used
    }

    /// Whether it can take one more. Asked by the pool, under its lock: nobody else adds any.
    pub fn has_place(&self) -> bool {
        self.streams.load(Ordering::Relaxed) < self.streams_max.load(Ordering::Relaxed)
    }

    /// Whether it carries nothing and has not for so long.
    pub fn is_idle_for(&self, long: Duration) -> bool {
        let since = self.now().saturating_sub(self.last_used.load(Ordering::Relaxed));
        self.streams.load(Ordering::Relaxed) == 0 && Duration::from_millis(since) >= long
    }

    fn begins(&self) {
        let now = self.now();
        if self.asked.load(Ordering::Relaxed) <= self.last_read.load(Ordering::Relaxed) {
            self.asked.store(now, Ordering::Relaxed);
        }
    }

    fn ended(&self) {
        self.last_used.store(self.now(), Ordering::Relaxed);
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Something came from the peer.
    fn read(&self) {
        self.last_read.store(self.now(), Ordering::Relaxed);
        // Only the first word matters; once it was answered, nothing changes here.
        let _ = self.greeting.compare_exchange(UNHEARD, HEARD, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The first word of a peer is its limits, and they are in force before anything that answers it is written.
    fn written(&self) {
        let answered =
            self.greeting.compare_exchange(HEARD, ANSWERED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if answered {
            self.bell.notify_one();
        }
    }

    /// The time since a request was asked and since the peer was last heard, whichever is shorter.
    fn silence(&self) -> Duration {
        let since = self.asked.load(Ordering::Relaxed).max(self.last_read.load(Ordering::Relaxed));
        Duration::from_millis(self.now().saturating_sub(since))
    }
}

/// The place of one exchange. Dropped before its end, it may cost the connection its trust.
pub(super) struct Place {
    usage: Arc<Usage>,
    pool: Weak<Pool>,
    over: bool,
}

impl Place {
    /// The next place of a connection.
    pub fn take(usage: &Arc<Usage>, pool: Weak<Pool>) -> Self {
        usage.streams.fetch_add(1, Ordering::Relaxed);
        Self { usage: usage.clone(), pool, over: false }
    }

    /// The request goes out.
    pub fn begins(&self) {
        self.usage.begins();
    }

    /// The head of the answer is there.
    pub fn answered(&self) {
        self.usage.bell.notify_one();
    }

    /// The exchange came to its proper end.
    pub fn ends(&mut self) {
        self.over = true;
    }

    /// The exchange broke: no other begins on this connection.
    pub fn breaks(&mut self) {
        self.over = true;
        self.distrust();
    }

    fn distrust(&self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.discard(&self.usage);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.over && self.usage.silence() >= SILENCE {
            self.distrust();
        }
        self.usage.ended();
    }
}

/// A connection that tells how it is doing.
pub(super) struct Watched {
    io: Box<dyn Io>,
    usage: Arc<Usage>,
}

impl Watched {
    /// Tells `usage`.
    pub fn new(io: Box<dyn Io>, usage: Arc<Usage>) -> Self {
        Self { io, usage }
    }
}

impl Read for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if matches!(read, Poll::Ready(Ok(()))) {
            self.usage.read();
        }
        read
    }
}

impl Write for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        if matches!(written, Poll::Ready(Ok(_))) {
            self.usage.written();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        if matches!(written, Poll::Ready(Ok(_))) {
            self.usage.written();
        }
        written
    }
}
