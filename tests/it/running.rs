//! Calls that run while a test looks at something else.

use std::future::IntoFuture as _;
use std::time::Duration;

use harness::call::Call;
use harness::prelude::*;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

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

/// Calls of [`Traffic`] that are on their way at once, so that a slow machine is not buried under them.
const AT_ONCE: usize = 8;

/// Calls that go on until they are stopped.
pub(crate) struct Traffic {
    stop: CancellationToken,
    calls: JoinSet<Vec<Response>>,
}

/// The same call again and again: one begins every `pace`, whatever became of those before it.
pub(crate) fn traffic(call: Call, pace: Duration) -> Traffic {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let mut calls = JoinSet::new();
    calls.spawn(async move {
        let mut pace = tokio::time::interval(pace);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut running, mut answers) = (JoinSet::new(), Vec::new());
        loop {
            tokio::select! {
                () = stopped.cancelled() => break,
                Some(answer) = running.join_next() => answers.push(answer.expect("a call does not panic")),
                _ = pace.tick(), if running.len() < AT_ONCE => {
                    running.spawn(call.clone().into_future());
                }
            }
        }
        answers.extend(running.join_all().await);
        answers
    });
    Traffic { stop, calls }
}

impl Traffic {
    /// Begins no more of them; every answer, also of those that were on their way.
    pub(crate) async fn stop(mut self) -> Vec<Response> {
        self.stop.cancel();
        self.calls.join_next().await.expect("one task").expect("calls do not panic")
    }
}
