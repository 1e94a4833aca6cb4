//! Whoever calls in a drill: connections that are kept, as SDKs keep them.

use std::net::SocketAddr;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::clock;
use crate::rig::client::{self, Answer, Ask, ClientError, Sender};

/// One connection after another to one place.
#[derive(Debug)]
pub struct Line {
    address: SocketAddr,
    patience: Duration,
    tracker: TaskTracker,
    sender: Option<Sender>,
}

impl Line {
    /// To `address`; no call takes longer than `patience`.
    pub fn new(address: SocketAddr, patience: Duration, tracker: TaskTracker) -> Self {
        Self { address, patience, tracker, sender: None }
    }

    /// Makes a call to its end.
    ///
    /// # Errors
    /// There is no answer at all.
    pub async fn call(&mut self, ask: &Ask) -> Result<Answer, ClientError> {
        let patience = self.patience;
        tokio::time::timeout(patience, Box::pin(self.exchange(ask)))
            .await
            .map_err(|_| ClientError::Patience(patience))?
    }

    async fn exchange(&mut self, ask: &Ask) -> Result<Answer, ClientError> {
        let mut sender = self.connection().await?;
        let answer = client::call(&mut sender, self.address, ask, clock::now(), |_| ()).await?;
        self.sender = answer.whole.then_some(sender);
        Ok(answer)
    }

    /// The one that is there, else a new one.
    async fn connection(&mut self) -> Result<Sender, ClientError> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let (sender, connection) = client::connect(self.address, |stream| stream).await?;
        // It ends with its sender; how is told by the calls on it.
        self.tracker.spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}
