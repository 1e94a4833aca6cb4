//! Who makes the next connection to an HTTP/2 upstream. A connection carries many exchanges, so of many calls
//! that find no place at once only as many dial as are needed, and the others wait for what they made.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The connections of one upstream that are being made.
#[derive(Debug, Default)]
pub(super) struct Dialing {
    under_way: Mutex<UnderWay>,
    ended: Notify,
    /// Exchanges that a new connection can be expected to carry; none: it is not known to be shared.
    expected: AtomicUsize,
}

#[derive(Debug, Default)]
struct UnderWay {
    dials: usize,
    waiting: usize,
}

impl Dialing {
    /// The last connection turned out to carry so many exchanges.
    pub fn expect(&self, exchanges: usize) {
        self.expected.store(exchanges, Ordering::Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to make a connection; none, after a while: one was made, or was not, by somebody else.
    ///
    /// # Cancel safety
    /// A right that is not taken is nobody's.
    pub async fn turn(self: &Arc<Self>) -> Option<Turn> {
        let mut ended = pin!(self.ended.notified());
        {
            let mut under_way = self.lock();
            let expected = self.expected.load(Ordering::Relaxed).max(1);
            // Each dial has its own exchange to carry, and those that wait for it.
            if under_way.dials * expected <= under_way.dials + under_way.waiting {
                under_way.dials += 1;
                return Some(Turn(self.clone()));
            }
            under_way.waiting += 1;
            ended.as_mut().enable();
        }
        let _waits = Waits(self);
        ended.await;
        None
    }
}

/// The right to make one connection. Over when others can use it, or when there is none.
#[derive(Debug)]
pub(super) struct Turn(Arc<Dialing>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.lock().dials -= 1;
        self.0.ended.notify_waiters();
    }
}

struct Waits<'a>(&'a Dialing);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}
