//! A response as it arrives: parsed strictly, every event stamped, every byte kept.

use std::fmt;
use std::time::Instant;

pub use crate::reading::Event;

/// How a response came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Still coming.
    Open,
    /// A proper end of body.
    Complete,
    /// The connection closed before it.
    Cut,
    /// The connection was reset.
    Reset,
    /// Bytes that are no HTTP.
    Broken,
}

/// A response, whole or on its way.
#[derive(Clone)]
pub struct Response {
    /// When its request had been sent.
    pub sent: Instant,
    /// 0 until the head is there.
    pub status: u16,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// When the head was complete.
    pub head_at: Option<Instant>,
    /// The body, framing removed.
    pub body: Vec<u8>,
    /// Complete blocks of an event stream.
    pub events: Vec<Event>,
    /// How it ended.
    pub end: End,
    /// When.
    pub ended: Option<Instant>,
    /// Everything as it came.
    pub raw: Vec<u8>,
    parsed: usize,
    blocks: usize,
    scanned: usize,
    framing: Framing,
}

#[derive(Clone, Copy, PartialEq)]
enum Framing {
    Head,
    Length(usize),
    Size,
    Chunk(usize),
    ChunkEnd,
    Trailer,
    UntilClose,
    Over,
}

impl Response {
    /// Nothing yet.
    #[must_use]
    pub fn new(sent: Instant) -> Self {
        Self {
            sent,
            status: 0,
            headers: Vec::new(),
            head_at: None,
            body: Vec::new(),
            events: Vec::new(),
            end: End::Open,
            ended: None,
            raw: Vec::new(),
            parsed: 0,
            blocks: 0,
            scanned: 0,
            framing: Framing::Head,
        }
    }

    /// More bytes from the connection. What follows a complete response is left in `raw`.
    pub fn feed(&mut self, bytes: &[u8], at: Instant) {
        self.raw.extend_from_slice(bytes);
        while self.end == End::Open {
            match self.advance(at) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Malformed) => self.over(End::Broken, at),
            }
        }
        self.find_events(at);
    }

    /// The connection ended.
    pub fn closed(&mut self, reset: bool, at: Instant) {
        if self.end != End::Open {
            return;
        }
        let end = match (reset, self.framing) {
            (true, _) => End::Reset,
            (false, Framing::UntilClose) => End::Complete,
            (false, _) => End::Cut,
        };
        self.over(end, at);
    }

    fn over(&mut self, end: End, at: Instant) {
        self.end = end;
        self.ended = Some(at);
    }

    /// One step of the parser; false when it needs more bytes.
    fn advance(&mut self, at: Instant) -> Result<bool, Malformed> {
        match self.framing {
            Framing::Head => {
                let Some(head) = self.take_until(b"\r\n\r\n") else {
                    return Ok(false);
                };
                self.read_head(&head, at)?;
            }
            Framing::Length(0) => {
                self.framing = Framing::Over;
                self.over(End::Complete, at);
            }
            Framing::Length(left) => {
                let took = self.take_body(left);
                self.framing = Framing::Length(left - took);
                return Ok(took > 0);
            }
            Framing::Size => {
                let Some(line) = self.take_until(b"\r\n") else {
                    return Ok(false);
                };
                let digits = line.split(';').next().unwrap_or_default();
                let size = usize::from_str_radix(digits.trim(), 16).map_err(|_| Malformed)?;
                self.framing = if size == 0 { Framing::Trailer } else { Framing::Chunk(size) };
            }
            Framing::Chunk(0) => self.framing = Framing::ChunkEnd,
            Framing::Chunk(left) => {
                let took = self.take_body(left);
                self.framing = Framing::Chunk(left - took);
                return Ok(took > 0);
            }
            Framing::ChunkEnd => match self.take_until(b"\r\n") {
                None => return Ok(false),
                Some(line) if line.is_empty() => self.framing = Framing::Size,
                Some(_) => return Err(Malformed),
            },
            Framing::Trailer => match self.take_until(b"\r\n") {
                None => return Ok(false),
                Some(line) if line.is_empty() => {
                    self.framing = Framing::Over;
                    self.over(End::Complete, at);
                }
                Some(_) => {}
            },
            Framing::UntilClose => return Ok(self.take_body(usize::MAX) > 0),
            Framing::Over => return Ok(false),
        }
        Ok(true)
    }

    fn take_until(&mut self, end: &[u8]) -> Option<String> {
        let rest = &self.raw[self.parsed..];
        let at = rest.windows(end.len()).position(|w| w == end)?;
        let taken = String::from_utf8_lossy(&rest[..at]).into_owned();
        self.parsed += at + end.len();
        Some(taken)
    }

    fn take_body(&mut self, most: usize) -> usize {
        let rest = &self.raw[self.parsed..];
        let took = rest.len().min(most);
        self.body.extend_from_slice(&rest[..took]);
        self.parsed += took;
        took
    }

    fn read_head(&mut self, head: &str, at: Instant) -> Result<(), Malformed> {
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).ok_or(Malformed)?;
        let status: u16 = status.get(..3).and_then(|n| n.parse().ok()).ok_or(Malformed)?;
        if (100..200).contains(&status) {
            return Ok(());
        }
        self.status = status;
        self.head_at = Some(at);
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(Malformed)?;
            self.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let chunked = self.header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
        let length = self.header("content-length").map(|v| v.parse().map_err(|_| Malformed)).transpose()?;
        self.framing = match (chunked, length) {
            (true, Some(_)) => return Err(Malformed),
            (true, None) => Framing::Size,
            (false, Some(length)) => Framing::Length(length),
            (false, None) if status == 204 || status == 304 => Framing::Length(0),
            (false, None) => Framing::UntilClose,
        };
        Ok(())
    }

    fn find_events(&mut self, at: Instant) {
        if !self.is_stream() {
            return;
        }
        while let Some(end) = self.body[self.scanned..].windows(2).position(|w| w == b"\n\n") {
            let end = self.scanned + end + 2;
            self.events.push(Event { at, raw: self.body[self.blocks..end].to_vec() });
            (self.blocks, self.scanned) = (end, end);
        }
        self.scanned = self.scanned.max(self.body.len().saturating_sub(1));
    }

    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the head says event stream.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|value| value.starts_with("text/event-stream"))
    }
}

struct Malformed;

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(1500)]).into_owned();
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("end", &self.end)
            .field("took", &self.took())
            .field("bytes", &self.body.len())
            .field("body", &body)
            .finish()
    }
}
