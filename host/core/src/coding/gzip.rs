//! What stands around the compressed data of a gzip member, read however it is split.

use bytes::{Buf as _, Bytes};

use super::{Corrupt, Data, State};

/// Longest header that is read: names and comments have no bound of their own.
const HEADER_MAX: usize = 64 << 10;

const CHECKSUM: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// The part of a header that has come.
#[derive(Default)]
pub(super) struct Header {
    /// The ten fixed bytes.
    fixed: Vec<u8>,
    /// The optional parts that are still to come.
    left: Option<Vec<Part>>,
    read: usize,
}

/// An optional part of a header.
#[derive(Clone, Copy)]
enum Part {
    /// The length of what follows: first byte, then second.
    Length(Option<u8>),
    /// So many bytes.
    Bytes(usize),
    /// Bytes up to a zero.
    Text,
}

impl Header {
    pub fn is_empty(&self) -> bool {
        self.read == 0
    }

    /// Reads on. Gives the state that follows, which is this one until the header is whole.
    pub fn read(&mut self, input: &mut Bytes) -> State {
        while let Some(&byte) = input.first() {
            input.advance(1);
            self.read += 1;
            if self.read > HEADER_MAX || !self.takes(byte) {
                return State::Failed(Corrupt::Header);
            }
            if self.left.as_ref().is_some_and(Vec::is_empty) {
                return Data::state(false, true);
            }
        }
        State::Header(std::mem::take(self))
    }

    fn takes(&mut self, byte: u8) -> bool {
        let Some(left) = &mut self.left else {
            self.fixed.push(byte);
            return match self.fixed.len() {
                1 => byte == 0x1f,
                2 => byte == 0x8b,
                3 => byte == 8,
                4 => byte & RESERVED == 0,
                10 => {
                    self.left = Some(parts(self.fixed[3]));
                    true
                }
                _ => true,
            };
        };
        // The parts lie in reverse order: the next one is last.
        match left.pop() {
            Some(Part::Length(None)) => left.push(Part::Length(Some(byte))),
            Some(Part::Length(Some(low))) => {
                let length = usize::from(u16::from_le_bytes([low, byte]));
                if length > 0 {
                    left.push(Part::Bytes(length));
                }
            }
            Some(Part::Bytes(length)) if length > 1 => left.push(Part::Bytes(length - 1)),
            Some(Part::Text) if byte != 0 => left.push(Part::Text),
            Some(Part::Bytes(_) | Part::Text) | None => {}
        }
        true
    }
}

fn parts(flags: u8) -> Vec<Part> {
    let all =
        [(CHECKSUM, Part::Bytes(2)), (COMMENT, Part::Text), (NAME, Part::Text), (EXTRA, Part::Length(None))];
    all.into_iter().filter(|(flag, _)| flags & flag != 0).map(|(_, part)| part).collect()
}

/// Checksum and length behind the data.
pub(super) struct Trailer {
    expected: [u8; 8],
    seen: usize,
}

impl Trailer {
    pub fn new(sum: &flate2::Crc) -> Self {
        let mut expected = [0; 8];
        expected[..4].copy_from_slice(&sum.sum().to_le_bytes());
        expected[4..].copy_from_slice(&sum.amount().to_le_bytes());
        Self { expected, seen: 0 }
    }

    /// Reads on. Gives the state that follows: this one, the header of a further member, or damage.
    pub fn read(&mut self, input: &mut Bytes) -> State {
        while let Some(&byte) = input.first() {
            input.advance(1);
            if self.expected[self.seen] != byte {
                return State::Failed(Corrupt::Checksum);
            }
            self.seen += 1;
            if self.seen == self.expected.len() {
                return State::Header(Header::default());
            }
        }
        State::Trailer(Self { ..*self })
    }
}
