//! Which connection an attempt is using, so that what the attempt holds can be held until an aborted
//! exchange is really over.
//!
//! Dropping an exchange closes its connection, but a moment later and elsewhere. A permit given back at once
//! would let the next call in while the upstream still has the old one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A connection that does not close in this time is not waited for.
const CLOSE_WAIT: Duration = Duration::from_millis(400);

/// The connection of one attempt. Clones are the same line.
#[derive(Debug, Clone, Default)]
pub struct Line(Arc<Mutex<Option<Arc<CancellationToken>>>>);

impl Line {
    pub(super) fn uses(&self, closed: &Arc<CancellationToken>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(closed.clone());
    }

    pub(super) fn released(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The attempt is over although its connection is still read from, aside.
    pub fn let_go(&self) {
        self.released();
    }

    /// Drops `held` now, or, when an exchange was aborted on this line, once its connection is closed.
    pub fn after_close<T: Send + 'static>(&self, held: T, tracker: &TaskTracker) {
        let closing = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(closed) = closing.filter(|closed| !closed.is_cancelled()) else { return };
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        tracker.spawn(async move {
            // Late or not, what is held is given back.
            let _ = tokio::time::timeout(CLOSE_WAIT, closed.cancelled()).await;
            drop(held);
        });
    }
}
