//! Whoever calls in a drill: connections that are kept, as SDKs keep them, and the times at which what came.
//!
//! It judges nothing. A call that breaks off is an answer that is not whole.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use crate::clock;

/// Largest answer, bytes: a page of metrics of many targets is a tenth of it.
const ANSWER_MAX: usize = 16 << 20;

/// Why there is no answer at all.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no connection to {address}: {source}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The exchange broke before its head.
    #[error("no answer: {0}")]
    Exchange(#[from] hyper::Error),
    /// It cannot be sent.
    #[error("no request: {0}")]
    Request(#[from] http::Error),
    /// It took longer than anything that was promised.
    #[error("no end of the answer within {0:?}")]
    Patience(Duration),
}

/// What is asked: with a body it is a chat, without one a page.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Path.
    pub path: String,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Bytes,
}

/// What came back, and when.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// As far as it came.
    pub body: Vec<u8>,
    /// It had a proper end.
    pub whole: bool,
    /// From the begin of the call to the head.
    pub head: Duration,
    /// From the begin of the call to its end.
    pub took: Duration,
    /// How long the body was at which time, growing.
    pub marks: Vec<(usize, Duration)>,
}

impl Answer {
    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// One connection after another to one place.
#[derive(Debug)]
pub struct Line {
    address: SocketAddr,
    patience: Duration,
    tracker: TaskTracker,
    sender: Option<SendRequest<Full<Bytes>>>,
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
        let done = tokio::time::timeout(patience, Box::pin(self.exchange(ask))).await;
        if !matches!(done, Ok(Ok(_))) {
            self.sender = None;
        }
        done.map_err(|_| ClientError::Patience(patience))?
    }

    async fn exchange(&mut self, ask: &Ask) -> Result<Answer, ClientError> {
        let mut sender = self.connection().await?;
        let request = self.request(ask)?;
        let begun = clock::now();
        let since = || clock::now().saturating_duration_since(begun);
        let response = sender.send_request(request).await?;
        let (head, mut frames) = response.into_parts();
        let mut answer = Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            whole: true,
            head: since(),
            ..Answer::default()
        };
        while let Some(frame) = frames.frame().await {
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => answer.body.extend_from_slice(&data),
                Ok(Err(_)) => continue,
                Err(_) => answer.whole = false,
            }
            answer.marks.push((answer.body.len(), since()));
            if !answer.whole || answer.body.len() > ANSWER_MAX {
                answer.whole = false;
                break;
            }
        }
        answer.took = since();
        if answer.whole {
            self.sender = Some(sender);
        }
        Ok(answer)
    }

    /// The one that is there, else a new one.
    async fn connection(&mut self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let fault = |source| ClientError::Connect { address: self.address, source };
        let stream = TcpStream::connect(self.address).await.map_err(fault)?;
        stream.set_nodelay(true).map_err(fault)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with its sender; how is told by the calls on it.
        self.tracker.spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    fn request(&self, ask: &Ask) -> Result<Request<Full<Bytes>>, http::Error> {
        let method = if ask.body.is_empty() { http::Method::GET } else { http::Method::POST };
        let mut request =
            Request::builder().method(method).uri(&ask.path).header("host", self.address.to_string());
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(ask.body.clone()))
    }
}
