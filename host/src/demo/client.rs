//! The application of the demo: one call on one connection, read as raw bytes, and left in the middle when the
//! scenario wants that. A call that is dropped closes its connection at once.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::patient::Patient;
use crate::clock;
use crate::rig::client::{self, Answer, Ask, ClientError};

/// No scenario lets a call take longer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Makes a call to its end.
///
/// # Errors
/// There is no answer at all. One that breaks off is an answer that is not whole.
pub async fn fetch(address: SocketAddr, ask: &Ask) -> Result<Answer, ClientError> {
    let work = Box::pin(exchange(address, ask, |_| ()));
    tokio::time::timeout(PATIENCE, work).await.map_err(|_| ClientError::Patience(PATIENCE))?
}

/// A call that runs by itself, so that it can be left.
#[derive(Debug)]
pub struct Caller {
    task: JoinHandle<Result<Answer, ClientError>>,
    heard: watch::Receiver<usize>,
}

impl Caller {
    /// Begins a call.
    pub fn start(tracker: &TaskTracker, address: SocketAddr, ask: Ask) -> Self {
        let (sender, heard) = watch::channel(0);
        let heard_so_far = move |bytes| {
            sender.send_replace(bytes);
        };
        Self { task: tracker.spawn(async move { exchange(address, &ask, heard_so_far).await }), heard }
    }

    /// Waits until something of the body was read.
    pub async fn hears(&mut self) -> bool {
        tokio::time::timeout(PATIENCE, self.heard.wait_for(|bytes| *bytes > 0))
            .await
            .is_ok_and(|got| got.is_ok())
    }

    /// Goes away: the connection is closed, whatever was on its way.
    pub fn leave(self) {
        self.task.abort();
    }
}

async fn exchange(address: SocketAddr, ask: &Ask, heard: impl FnMut(usize)) -> Result<Answer, ClientError> {
    let begun = clock::now();
    let (mut sender, connection) = client::connect(address, Patient).await?;
    alongside(connection, client::call(&mut sender, address, ask, begun, heard)).await
}

/// Drives the connection inside the call itself, so that dropping the call closes it.
async fn alongside<T>(connection: impl Future, work: impl Future<Output = T>) -> T {
    tokio::pin!(connection, work);
    let mut open = true;
    poll_fn(|cx| {
        if open && connection.as_mut().poll(cx).is_ready() {
            open = false;
        }
        work.as_mut().poll(cx)
    })
    .await
}
