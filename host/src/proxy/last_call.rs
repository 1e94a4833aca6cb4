//! The moment at which whatever still runs has to come to its end: the limit of a drain, or a second signal.
//!
//! Streams look at it each time they are polled, so looking must cost next to nothing: one flag, and a
//! registration that is made once for as long as the same task polls.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Whether the moment has come.
#[derive(Debug, Default)]
pub struct LastCall {
    reached: AtomicBool,
    told: Arc<Notify>,
}

impl LastCall {
    /// It has come.
    pub fn announce(&self) {
        // The flag first: whoever is woken sees it.
        self.reached.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    /// Whether it has come.
    pub fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Acquire)
    }

    /// Ready once it has come; for waits that are few.
    pub async fn reached(&self) {
        // Made before looking, it hears of what happens from here on.
        let told = self.told.notified();
        if !self.is_reached() {
            told.await;
        }
    }
}

/// One that listens for it.
#[derive(Default)]
pub(super) struct Ear(Option<(Waker, Pin<Box<OwnedNotified>>)>);

impl Ear {
    /// Ready once the moment has come.
    pub fn poll_reached(&mut self, last_call: &LastCall, cx: &mut Context<'_>) -> Poll<()> {
        if last_call.is_reached() {
            return Poll::Ready(());
        }
        match &mut self.0 {
            Some((waker, _)) if waker.will_wake(cx.waker()) => Poll::Pending,
            Some((waker, wait)) => {
                waker.clone_from(cx.waker());
                wait.as_mut().poll(cx)
            }
            none => {
                let wait = Box::pin(last_call.told.clone().notified_owned());
                if last_call.is_reached() {
                    return Poll::Ready(());
                }
                none.insert((cx.waker().clone(), wait)).1.as_mut().poll(cx)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    /// Whether anybody was woken.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[test]
    fn whoever_listens_is_woken_also_in_another_task_than_it_began_in() {
        for elsewhere in [false, true] {
            let (last_call, woken) = (LastCall::default(), Arc::new(Woken::default()));
            let waker = Waker::from(woken.clone());
            let mut ear = Ear::default();
            if elsewhere {
                assert!(ear.poll_reached(&last_call, &mut Context::from_waker(Waker::noop())).is_pending());
            }
            let mut cx = Context::from_waker(&waker);
            assert!(ear.poll_reached(&last_call, &mut cx).is_pending());
            assert!(!woken.0.load(Ordering::Acquire));
            last_call.announce();
            assert!(woken.0.load(Ordering::Acquire), "{elsewhere}");
            assert!(ear.poll_reached(&last_call, &mut cx).is_ready());
            assert!(Ear::default().poll_reached(&last_call, &mut cx).is_ready());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_hears_of_it_before_and_after() {
        let last_call = LastCall::default();
        let waits = tokio::time::timeout(Duration::from_secs(1), last_call.reached());
        let (heard, ()) = tokio::join!(waits, async {
            tokio::task::yield_now().await;
            last_call.announce();
        });
        assert_eq!(heard, Ok(()));
        last_call.reached().await;
    }
}
