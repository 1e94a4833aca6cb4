//! Calls that run while a test looks at something else.

use std::future::IntoFuture as _;

use harness::call::Call;
use harness::prelude::*;
use tokio::task::JoinSet;

/// A call on its way, read as it comes.
pub(crate) struct Running(JoinSet<Response>);

/// Sends a call and goes on.
pub(crate) fn start(call: Call) -> Running {
    let mut tasks = JoinSet::new();
    tasks.spawn(call.into_future());
    Running(tasks)
}

impl Running {
    /// What came of it.
    pub(crate) async fn answer(mut self) -> Response {
        self.0.join_next().await.expect("one task").expect("a call does not panic")
    }
}
