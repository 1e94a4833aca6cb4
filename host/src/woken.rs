//! A wait that is looked at when it calls, and not each time something beside it does.
//!
//! A connection is polled for every message, and waits beside that for things that hardly ever come. Asking each of
//! them every time takes locks and registers again what is registered already.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled again only after it has woken its task.
#[derive(Debug)]
pub struct Woken<F> {
    future: F,
    /// None before the first poll.
    bell: Option<Arc<Bell>>,
}

#[derive(Debug)]
struct Bell {
    rung: AtomicBool,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl<F: Future + Unpin> Woken<F> {
    /// Around a future that is polled in this way alone.
    pub const fn new(future: F) -> Self {
        Self { future, bell: None }
    }
}

impl<F: Future + Unpin> Future for Woken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let bell = match &self.bell {
            // Relaxed: what was rung a moment ago is heard now or, because the task is woken after it, next time.
            Some(bell) if bell.task.will_wake(cx.waker()) => {
                if !bell.rung.load(Ordering::Relaxed) {
                    return Poll::Pending;
                }
                // What it was is known. Swapped, so that what was written before it rang is seen by the look that follows.
                bell.rung.swap(false, Ordering::AcqRel);
                bell.clone()
            }
            // Another task waits from now on, and its bell is registered in the place of the one before.
            _ => {
                let bell = Arc::new(Bell { rung: AtomicBool::new(false), task: cx.waker().clone() });
                self.bell.insert(bell).clone()
            }
        };
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&Waker::from(bell)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn only_a_wait_that_has_woken_its_task_is_looked_at_again() {
        let notify = Notify::new();
        let mut polls = 0;
        let mut notified = std::pin::pin!(notify.notified());
        let mut woken = Woken::new(poll_fn(|cx| {
            polls += 1;
            notified.as_mut().poll(cx)
        }));
        let mut turns = 0;
        poll_fn(|cx| {
            turns += 1;
            match turns {
                // Woken by something else.
                ..=5 => cx.waker().wake_by_ref(),
                6 => notify.notify_one(),
                _ => {}
            }
            Pin::new(&mut woken).poll(cx)
        })
        .await;
        assert_eq!((polls, turns), (2, 6));
    }

    #[tokio::test]
    async fn a_wait_that_has_called_for_nothing_is_looked_at_once_for_that() {
        let (polls, bell) = (Cell::new(0), RefCell::new(None::<Waker>));
        let mut woken = Woken::new(poll_fn(|cx: &mut Context<'_>| {
            polls.set(polls.get() + 1);
            *bell.borrow_mut() = Some(cx.waker().clone());
            Poll::<()>::Pending
        }));
        let mut turns = 0;
        poll_fn(|cx| {
            assert!(Pin::new(&mut woken).poll(cx).is_pending());
            turns += 1;
            match turns {
                1 => bell.borrow().iter().for_each(Waker::wake_by_ref),
                5 => return Poll::Ready(()),
                _ => cx.waker().wake_by_ref(),
            }
            Poll::Pending
        })
        .await;
        assert_eq!(polls.get(), 2);
    }

    #[tokio::test]
    async fn a_wait_follows_the_task_that_waits_for_it() {
        let notify = Arc::new(Notify::new());
        let mut woken = Woken::new(Box::pin({
            let notify = notify.clone();
            async move { notify.notified().await }
        }));
        assert!(Pin::new(&mut woken).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let mut elsewhere = tokio::task::JoinSet::new();
        elsewhere.spawn(woken);
        tokio::task::yield_now().await;
        notify.notify_one();
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), elsewhere.join_next()).await;
        assert!(ended.is_ok(), "the wake-up went to the task before");
    }
}
