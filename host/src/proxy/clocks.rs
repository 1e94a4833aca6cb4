//! The clocks of a stream after commit: the gap between content events, the silence towards the client, the
//! whole length. Each is set anew only when its timer fires, not for each event.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use crate::clock;

/// A moment that may be put off. None: it never comes.
#[derive(Default)]
struct Alarm {
    at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    fn new(at: Option<Instant>) -> Self {
        Self { at, timer: None }
    }

    /// Ready once the moment has come.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
        loop {
            match timer.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if clock::now() >= at => return Poll::Ready(()),
                Poll::Ready(()) => timer.as_mut().reset(at.into()),
            }
        }
    }
}

/// The idle clock: the largest gap between content events. It runs only while the host waits for the
/// upstream, not while it holds back because the client does not read.
pub(super) struct IdleClock {
    limit: Option<Duration>,
    alarm: Alarm,
    held_since: Option<Instant>,
    content_events: u64,
}

impl IdleClock {
    /// No limit: only a stream that is finished is bounded.
    pub fn new(limit: Option<Duration>, content_events: u64) -> Self {
        let alarm = Alarm::new(limit.map(|limit| clock::now() + limit));
        Self { limit, alarm, held_since: None, content_events }
    }

    /// Bytes were handed on: from now on the client is waited for.
    pub fn pauses(&mut self) {
        self.held_since = Some(clock::now());
    }

    /// The client wants more.
    pub fn resumes(&mut self) {
        if let (Some(since), Some(at)) = (self.held_since.take(), &mut self.alarm.at) {
            *at += clock::now().saturating_duration_since(since);
        }
    }

    /// Something came; only content counts.
    pub fn content(&mut self, events: u64) {
        if events > self.content_events {
            self.content_events = events;
            self.alarm.at = self.limit.map(|limit| clock::now() + limit);
        }
    }

    /// Every answer has its finish reason. Where gaps are not bounded, the wait for what may still follow is.
    pub fn finished(&mut self) {
        const REST_MAX: Duration = Duration::from_secs(60);
        self.alarm.at.get_or_insert_with(|| clock::now() + REST_MAX);
    }

    /// Ready once the gap is too large.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.alarm.poll(cx)
    }
}

/// When a comment of our own is due, because nothing was sent to the client for so long.
pub(super) struct KeepAlive {
    every: Option<Duration>,
    alarm: Alarm,
}

impl KeepAlive {
    /// Starts with the head of the answer.
    pub fn new(every: Option<Duration>) -> Self {
        let mut clock = Self { every, alarm: Alarm::default() };
        clock.sent();
        clock
    }

    /// Bytes were handed on.
    pub fn sent(&mut self) {
        self.alarm.at = self.every.map(|every| clock::now() + every);
    }

    /// Ready once a comment is due.
    pub fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.alarm.poll(cx)
    }
}

/// How long a stream may be, however it flows.
pub(super) struct LengthClock(Alarm);

impl LengthClock {
    /// Starts at commit.
    pub fn new(limit: Option<Duration>) -> Self {
        Self(Alarm::new(limit.map(|limit| clock::now() + limit)))
    }

    /// Ready once the stream is too long.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    const SECOND: Duration = Duration::from_secs(1);

    async fn after(mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>) -> Duration {
        let began = clock::now();
        poll_fn(|cx| poll(cx)).await;
        clock::now() - began
    }

    #[tokio::test(start_paused = true)]
    async fn only_content_and_a_client_that_does_not_read_put_the_idle_clock_off() {
        let mut idle = IdleClock::new(Some(SECOND), 1);
        tokio::time::advance(SECOND / 2).await;
        idle.content(1);
        assert_eq!(after(|cx| idle.poll_over(cx)).await, SECOND / 2);
        let mut idle = IdleClock::new(Some(SECOND), 1);
        tokio::time::advance(SECOND / 2).await;
        idle.content(2);
        idle.pauses();
        tokio::time::advance(SECOND * 5).await;
        idle.resumes();
        assert_eq!(after(|cx| idle.poll_over(cx)).await, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_only_a_finished_stream_is_bounded() {
        let mut idle = IdleClock::new(None, 0);
        idle.content(1);
        let hour = tokio::time::timeout(SECOND * 3600, poll_fn(|cx| idle.poll_over(cx))).await;
        assert!(hour.is_err());
        idle.finished();
        idle.finished();
        assert_eq!(after(|cx| idle.poll_over(cx)).await, SECOND * 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_comment_is_due_after_silence_only() {
        let mut keep = KeepAlive::new(Some(SECOND));
        tokio::time::advance(SECOND / 2).await;
        keep.sent();
        assert_eq!(after(|cx| keep.poll_due(cx)).await, SECOND);
        keep.sent();
        assert_eq!(after(|cx| keep.poll_due(cx)).await, SECOND);
        let mut off = KeepAlive::new(None);
        assert!(tokio::time::timeout(SECOND * 3600, poll_fn(|cx| off.poll_due(cx))).await.is_err());
    }
}
