//! Whoever calls in a demo or a drill: what is asked, one exchange on one connection, and the times at which what came.
//!
//! It judges nothing and retries nothing. An answer that breaks off, or has no end, is an answer that is not whole.
//! Who drives the connection, and whether it is kept, is decided by whoever calls.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Frame;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

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

/// What is asked: with a body it is posted, without one it is a page.
#[derive(Debug, Clone)]
pub struct Ask {
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Ask {
    /// A page.
    pub fn get(path: &str) -> Self {
        Self { path: path.to_owned(), headers: Vec::new(), body: Bytes::new() }
    }

    /// A body to the chat path, whatever is in it.
    pub fn post(body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::get("/v1/chat/completions") }
            .with("content-type", "application/json")
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
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn request(&self, address: SocketAddr) -> Result<Request<Full<Bytes>>, http::Error> {
        let method = if self.body.is_empty() { Method::GET } else { Method::POST };
        let mut request =
            Request::builder().method(method).uri(&self.path).header("host", address.to_string());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(self.body.clone()))
    }
}

/// What came back, and when.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The bytes of the body, as far as they came.
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

/// Where calls go out. Dropped, its connection ends.
pub type Sender = SendRequest<Full<Bytes>>;

/// Opens a connection; `wrap` clothes its stream. The second has to be driven for the first to get anywhere.
///
/// # Errors
/// Nobody listens.
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    address: SocketAddr,
    wrap: impl FnOnce(TcpStream) -> S,
) -> Result<(Sender, Connection<TokioIo<S>, Full<Bytes>>), ClientError> {
    let fault = |source| ClientError::Connect { address, source };
    let stream = TcpStream::connect(address).await.map_err(fault)?;
    stream.set_nodelay(true).map_err(fault)?;
    Ok(http1::handshake(TokioIo::new(wrap(stream))).await?)
}

/// Makes one call, which began at `begun`, to its end. `heard` is told of each piece how long the body is with it.
/// Only after an answer that is whole is the connection good for another call.
///
/// # Errors
/// There is no answer at all.
pub async fn call(
    sender: &mut Sender,
    address: SocketAddr,
    ask: &Ask,
    begun: Instant,
    mut heard: impl FnMut(usize),
) -> Result<Answer, ClientError> {
    let since = || clock::now().saturating_duration_since(begun);
    let (head, mut frames) = sender.send_request(ask.request(address)?).await?.into_parts();
    let mut answer = Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        whole: true,
        head: since(),
        ..Answer::default()
    };
    while let Some(frame) = frames.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) if answer.body.len() + data.len() <= ANSWER_MAX => {
                answer.body.extend_from_slice(&data);
            }
            // Trailers say nothing that is read here.
            Ok(Err(_)) => continue,
            Ok(Ok(_)) | Err(_) => {
                answer.whole = false;
                break;
            }
        }
        answer.marks.push((answer.body.len(), since()));
        heard(answer.body.len());
    }
    answer.took = since();
    Ok(answer)
}

#[cfg(test)]
mod tests;
