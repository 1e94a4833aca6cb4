//! A call as a case writes it: `x.call("chat").plain().header("x-a", "1").await`.

use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;

use serde_json::{Value, json};

use crate::client::{Client, Ledger};
use crate::response::Response;

/// A request on its way to be sent: a stream to `/v1/chat/completions` unless told otherwise.
#[derive(Debug, Clone)]
pub struct Call {
    addr: SocketAddr,
    ledger: Ledger,
    path: String,
    fields: Value,
    body: Option<Vec<u8>>,
    headers: Vec<(String, String)>,
    key: Option<String>,
    chunked: bool,
    receive_buffer: Option<usize>,
}

impl Call {
    pub(crate) fn new(addr: SocketAddr, ledger: Ledger, model: &str) -> Self {
        let fields =
            json!({"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": true});
        Self {
            addr,
            ledger,
            path: "/v1/chat/completions".to_owned(),
            fields,
            body: None,
            headers: Vec::new(),
            key: None,
            chunked: false,
            receive_buffer: None,
        }
    }

    /// Without streaming.
    #[must_use]
    pub fn plain(self) -> Self {
        self.set("stream", false)
    }

    /// One member of the body.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields[name] = value.into();
        self
    }

    /// These bytes as the body.
    #[must_use]
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = Some(bytes.into());
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this key, or without one.
    #[must_use]
    pub fn key<'a>(mut self, key: impl Into<Option<&'a str>>) -> Self {
        self.key = key.into().map(str::to_owned);
        self
    }

    /// Another path.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// The body in chunks, without a length.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// A client whose socket holds so little.
    #[must_use]
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.receive_buffer = Some(bytes);
        self
    }

    /// The bytes of the request.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let body = self.body.clone().unwrap_or_else(|| self.fields.to_string().into_bytes());
        let mut head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n",
            self.path, self.addr
        );
        if let Some(key) = &self.key {
            head.push_str(&format!("authorization: Bearer {key}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.chunked {
            let head = format!("{head}content-length: {}\r\n\r\n", body.len());
            return [head.into_bytes(), body].concat();
        }
        let mut bytes = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
        for chunk in body.chunks(16 << 10) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    /// Sends it and hands the client over while the answer is on its way.
    pub async fn begin(&self) -> Client {
        let client = match self.receive_buffer {
            None => Client::open(self.addr).await,
            Some(size) => Client::open_small(self.addr, size).await,
        };
        let mut client = client.logged(&self.ledger);
        client.send(&self.bytes()).await;
        client
    }

    /// The same on a connection that is there already.
    pub async fn on(&self, client: &mut Client) -> Response {
        client.send(&self.bytes()).await;
        client.finish().await
    }
}

impl IntoFuture for Call {
    type Output = Response;
    type IntoFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.begin().await.finish().await })
    }
}
