//! Where hyper runs the tasks that it makes of its own accord: under the tracker that drain waits for.

use std::future::Future;

use hyper::rt::Executor;
use tokio_util::task::TaskTracker;

/// An executor over a tracker.
#[derive(Debug, Clone)]
pub struct Tracked(TaskTracker);

impl Tracked {
    /// Tasks go onto `tracker`.
    pub const fn new(tracker: TaskTracker) -> Self {
        Self(tracker)
    }
}

impl<F> Executor<F> for Tracked
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}
