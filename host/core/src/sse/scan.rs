//! The line grammar of an event stream: where lines end, and when they make an event.

use std::ops::Range;

/// A finished event, as offsets from its first byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// One past its last byte.
    pub end: usize,
    /// What follows `data:` in each data line.
    pub data: Vec<Range<usize>>,
    /// It is exactly `data: `, one line, a line feed, an empty line.
    pub canonical: bool,
}

/// How far the unfinished event was looked at. Offsets are from the event's first byte, so that nothing is
/// looked at twice however small the pieces are.
#[derive(Debug, Default)]
pub(super) struct Scan {
    looked: usize,
    line_start: usize,
    data: Vec<Range<usize>>,
    /// The last line ended with a carriage return: a line feed right after it belongs to it.
    after_return: bool,
}

impl Scan {
    /// Looks on in `bytes`, which begin with the first byte of the unfinished event.
    pub fn advance(&mut self, bytes: &[u8]) -> Option<Found> {
        loop {
            if self.after_return && self.looked < bytes.len() {
                self.after_return = false;
                if bytes[self.looked] == b'\n' {
                    self.looked += 1;
                    self.line_start = self.looked;
                }
            }
            let Some(at) = memchr::memchr2(b'\n', b'\r', &bytes[self.looked..]) else {
                self.looked = bytes.len();
                return None;
            };
            let line_end = self.looked + at;
            let line = self.line_start..line_end;
            self.looked = line_end + 1;
            self.line_start = self.looked;
            self.after_return = bytes[line_end] == b'\r';
            if !line.is_empty() {
                self.line(bytes, line);
            } else if let Some(found) = self.event(bytes) {
                return Some(found);
            }
        }
    }

    fn line(&mut self, bytes: &[u8], line: Range<usize>) {
        let text = &bytes[line.clone()];
        let skip = match text {
            [b'd', b'a', b't', b'a', b':', b' ', ..] => 6,
            [b'd', b'a', b't', b'a', b':', ..] => 5,
            b"data" => 4,
            _ => return,
        };
        self.data.push(line.start + skip..line.end);
    }

    /// An empty line was read. Lines without data before it are consumed like data, and make no event.
    fn event(&mut self, bytes: &[u8]) -> Option<Found> {
        let end = self.looked;
        // The carriage return that ends this event may have a line feed to come; it is then skipped as the
        // first byte of the next event.
        let after_return = self.after_return;
        let scan = std::mem::take(self);
        self.after_return = after_return;
        let canonical = matches!(scan.data.as_slice(), [only] if only.start == 6 && only.end + 2 == end)
            && bytes.starts_with(b"data: ")
            && bytes[..end].ends_with(b"\n\n");
        Some(Found { end, data: scan.data, canonical })
    }
}
