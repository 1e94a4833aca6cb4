//! Event boundaries in a byte stream, whatever way the bytes are split.
//!
//! The scanner finds whole events and says for each what its data is. An event that is already one
//! `data: ` line, one line feed and one empty line is handed on as the bytes it is; any other is given
//! as its data alone, to be written anew by [`write_event`]. Comments, `id:`, `retry:` and `event:` lines
//! are dropped here. What the data means is no business of this module.

mod scan;
#[cfg(test)]
mod tests;

use bytes::{Bytes, BytesMut};
use scan::{Found, Scan};

/// One event with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The data; several lines are joined by a space, which JSON reads like the line feed it replaces.
    pub data: Bytes,
    /// The event's own bytes when they are already in the form clients read best.
    pub wire: Option<Bytes>,
}

/// An event grew past the limit without ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {limit} bytes")]
pub struct EventTooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

/// Appends `data` to `out` as one event of one line.
pub fn write_event(data: &[u8], out: &mut BytesMut) {
    out.reserve(data.len() + 8);
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}

/// Finds events. Holds at most one unfinished event and the chunk that is being looked at.
#[derive(Debug)]
pub struct Scanner {
    source: Source,
    scan: Scan,
    limit: usize,
    at_start: bool,
}

/// Where the bytes are. A chunk is looked at where it lies; only what it leaves unfinished is copied.
#[derive(Debug)]
enum Source {
    Chunk(Bytes),
    Tail(BytesMut),
}

impl Source {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Chunk(bytes) => bytes,
            Self::Tail(bytes) => bytes,
        }
    }

    fn take(&mut self, len: usize) -> Bytes {
        match self {
            Self::Chunk(bytes) => bytes.split_to(len),
            Self::Tail(bytes) => bytes.split_to(len).freeze(),
        }
    }
}

impl Scanner {
    /// A scanner that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { source: Source::Chunk(Bytes::new()), scan: Scan::default(), limit, at_start: true }
    }

    /// Adds bytes. Call [`Scanner::next_event`] until it gives none before adding more.
    pub fn push(&mut self, chunk: Bytes) {
        let rest = match &mut self.source {
            Source::Chunk(rest) if rest.is_empty() => {
                self.source = Source::Chunk(chunk);
                return;
            }
            Source::Chunk(rest) => std::mem::take(rest),
            Source::Tail(tail) if tail.is_empty() => {
                self.source = Source::Chunk(chunk);
                return;
            }
            Source::Tail(tail) => {
                tail.extend_from_slice(&chunk);
                return;
            }
        };
        let mut tail = BytesMut::with_capacity((rest.len() + chunk.len()).next_power_of_two());
        tail.extend_from_slice(&rest);
        tail.extend_from_slice(&chunk);
        self.source = Source::Tail(tail);
    }

    /// The next whole event that has data.
    ///
    /// # Errors
    /// When the unfinished event is larger than the limit; the scanner is of no use afterwards.
    pub fn next_event(&mut self) -> Result<Option<Event>, EventTooLarge> {
        if !self.skip_byte_order_mark() {
            return Ok(None);
        }
        loop {
            let Some(found) = self.scan.advance(self.source.as_slice()) else {
                return if self.source.as_slice().len() > self.limit {
                    Err(EventTooLarge { limit: self.limit })
                } else {
                    Ok(None)
                };
            };
            if found.end > self.limit {
                return Err(EventTooLarge { limit: self.limit });
            }
            if let Some(event) = self.cut(&found) {
                return Ok(Some(event));
            }
        }
    }

    /// The event that the end of the body completes: some servers leave out the last empty line.
    pub fn finish(&mut self) -> Option<Event> {
        self.push(Bytes::from_static(b"\n\n"));
        self.next_event().ok().flatten()
    }

    /// Bytes of the unfinished event.
    pub fn pending(&self) -> usize {
        self.source.as_slice().len()
    }

    fn cut(&mut self, found: &Found) -> Option<Event> {
        let bytes = self.source.take(found.end);
        let first = found.data.first()?.clone();
        if found.canonical {
            return Some(Event { data: bytes.slice(first), wire: Some(bytes) });
        }
        let data = if found.data.len() == 1 {
            bytes.slice(first)
        } else {
            let mut joined = Vec::with_capacity(found.end);
            for (i, line) in found.data.iter().enumerate() {
                if i > 0 {
                    joined.push(b' ');
                }
                joined.extend_from_slice(&bytes[line.clone()]);
            }
            joined.into()
        };
        Some(Event { data, wire: None })
    }

    /// True once it is known whether the stream begins with a byte-order mark; the mark is dropped.
    fn skip_byte_order_mark(&mut self) -> bool {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if !self.at_start {
            return true;
        }
        let bytes = self.source.as_slice();
        let seen = bytes.len().min(MARK.len());
        if bytes[..seen] != MARK[..seen] {
            self.at_start = false;
        } else if seen == MARK.len() {
            self.source.take(MARK.len());
            self.at_start = false;
        }
        !self.at_start
    }
}
