//! One exchange as a scripted upstream saw it.

use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;

/// How an attempt came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Its script ran to the end.
    Finished,
    /// The gateway closed the connection.
    Closed,
    /// The gateway reset it.
    Reset,
}

/// One exchange as the upstream saw it.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Counted from 0.
    pub n: usize,
    /// When the whole request was there.
    pub at: Instant,
    /// The request head as it came, without the empty line.
    pub head: String,
    /// The request body, de-chunked.
    pub body: Bytes,
    /// Which connection.
    pub connection: u64,
    /// Not the first request of its connection.
    pub reused: bool,
    /// When and how it ended; none while it runs.
    pub over: Option<(Instant, How)>,
    /// Bytes of the answer that the socket took.
    pub written: u64,
}

impl Attempt {
    /// `POST`, and so on.
    #[must_use]
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    /// Path and query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Names (lower case) and values, in order.
    pub fn headers(&self) -> impl Iterator<Item = (String, &str)> {
        self.head.lines().skip(1).filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim()))
        })
    }

    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The requested model.
    #[must_use]
    pub fn model(&self) -> String {
        self.json()["model"].as_str().unwrap_or_default().to_owned()
    }

    /// The bearer credential.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }
}
