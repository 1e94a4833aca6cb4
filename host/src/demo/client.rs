//! The application of the demo: one call on one connection, read as raw bytes, and left in the middle when the
//! scenario wants that.
//!
//! It judges nothing and retries nothing. A call that is dropped closes its connection at once.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::patient::Patient;
use crate::clock;

/// No scenario lets a call take longer.
const PATIENCE: Duration = Duration::from_secs(15);

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
    /// The request cannot be sent.
    #[error("no request: {0}")]
    Request(#[from] http::Error),
    /// No end within the patience of the demo.
    #[error("no end of the answer within {PATIENCE:?}")]
    Patience,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Ask {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl Ask {
    /// A page.
    pub fn get(path: &str) -> Self {
        Self { method: Method::GET, path: path.to_owned(), headers: Vec::new(), body: Bytes::new() }
    }

    /// A body to the chat path, whatever is in it.
    pub fn post(body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        let path = "/v1/chat/completions".to_owned();
        Self { method: Method::POST, path, headers, body: body.into() }
    }

    /// A chat with this model.
    pub fn chat(model: &str, stream: bool) -> Self {
        let messages = serde_json::json!([{"role": "user", "content": "Who is there?"}]);
        let body = serde_json::json!({"model": model, "stream": stream, "messages": messages});
        Self::post(body.to_string())
    }

    /// To another path.
    #[must_use]
    pub fn to(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// With one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn request(&self, address: SocketAddr) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header("host", address.to_string());
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(Full::new(self.body.clone()))
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status.
    pub status: u16,
    headers: HeaderMap,
    /// The bytes of the body, as far as they came.
    pub body: Vec<u8>,
    /// The body had a proper end.
    pub whole: bool,
    /// From the begin of the call to its end.
    pub took: Duration,
}

impl Answer {
    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The text of a plain completion.
    pub fn text(&self) -> String {
        self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    }

    /// `error.code`, or nothing.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Makes a call to its end.
///
/// # Errors
/// There is no answer at all. One that breaks off is an answer that is not whole.
pub async fn fetch(address: SocketAddr, ask: &Ask) -> Result<Answer, ClientError> {
    let (heard, _) = watch::channel(0);
    let work = Box::pin(exchange(address, ask.clone(), heard));
    tokio::time::timeout(PATIENCE, work).await.map_err(|_| ClientError::Patience)?
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
        Self { task: tracker.spawn(exchange(address, ask, sender)), heard }
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

async fn exchange(address: SocketAddr, ask: Ask, heard: watch::Sender<usize>) -> Result<Answer, ClientError> {
    let begun = clock::now();
    let fault = |source| ClientError::Connect { address, source };
    let stream = TcpStream::connect(address).await.map_err(fault)?;
    stream.set_nodelay(true).map_err(fault)?;
    let request = ask.request(address)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(Patient(stream))).await?;
    let work = async {
        let response = sender.send_request(request).await?;
        let (head, mut frames) = response.into_parts();
        let (mut body, mut whole) = (Vec::new(), true);
        while let Some(frame) = frames.frame().await {
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => body.extend_from_slice(&data),
                Ok(Err(_)) => {}
                Err(_) => {
                    whole = false;
                    break;
                }
            }
            heard.send_replace(body.len());
        }
        let took = clock::now().saturating_duration_since(begun);
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body, whole, took })
    };
    alongside(connection, work).await
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
