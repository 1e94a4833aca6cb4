//! Content codings: gzip and deflate undone piece by piece, as the bytes come.
//!
//! Upstreams are asked for plain bytes; some compress all the same. What comes out of one push is handed
//! over in pieces of bounded size, so that a small input that grows large is never in memory at once. How
//! much may come in all is the caller's limit, on decoded bytes.

mod gzip;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use gzip::{Header, Trailer};

/// Most bytes handed over at once.
const PIECE: usize = 32 << 10;

/// What was done to the bytes of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, or the bare RFC 1951 that some servers send under the same name.
    Deflate,
}

/// The body is in a coding that is not understood here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected content-encoding identity, gzip or deflate, got {got:?}")]
pub struct UnknownCoding {
    /// What came, cut to 64 characters.
    pub got: String,
}

/// The bytes are not what the coding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// No gzip header.
    #[error("the compressed body does not begin with a gzip header")]
    Header,
    /// The compressed data are damaged.
    #[error("the compressed body is damaged")]
    Data,
    /// Length or checksum do not fit what came out.
    #[error("the compressed body does not fit its checksum")]
    Checksum,
    /// The body ended before the compressed data did.
    #[error("the compressed body ends too early")]
    Truncated,
}

impl Coding {
    /// The coding that a `content-encoding` header names; none for plain bytes.
    ///
    /// # Errors
    /// When it names another one, or several.
    pub fn of(header: &str) -> Result<Option<Self>, UnknownCoding> {
        let mut codings =
            header.split(',').map(str::trim).filter(|c| !c.is_empty() && !c.eq_ignore_ascii_case("identity"));
        let is = |name: &str, known: &[&str]| known.iter().any(|k| k.eq_ignore_ascii_case(name));
        match (codings.next(), codings.next()) {
            (None, _) => Ok(None),
            (Some(name), None) if is(name, &["gzip", "x-gzip"]) => Ok(Some(Self::Gzip)),
            (Some(name), None) if is(name, &["deflate"]) => Ok(Some(Self::Deflate)),
            _ => Err(UnknownCoding { got: header.chars().take(64).collect() }),
        }
    }
}

/// Undoes one coding.
pub struct Decoder {
    input: Bytes,
    state: State,
}

enum State {
    /// The first bytes of a gzip member.
    Header(Header),
    /// The first two bytes of a deflate body decide which of the two it is.
    Sniff(Vec<u8>),
    /// Compressed data.
    Data(Box<Data>),
    /// The last bytes of a gzip member.
    Trailer(Trailer),
    /// Nothing is expected any more; what comes is not looked at.
    Over,
    /// Damaged.
    Failed(Corrupt),
}

struct Data {
    inflate: Decompress,
    /// The sum over what came out; none for deflate.
    sum: Option<flate2::Crc>,
    /// More may come out without further input.
    full: bool,
}

impl Data {
    fn state(zlib_header: bool, gzip: bool) -> State {
        State::Data(Box::new(Self {
            inflate: Decompress::new(zlib_header),
            sum: gzip.then(flate2::Crc::new),
            full: false,
        }))
    }
}

impl Decoder {
    /// A decoder of which nothing has come yet.
    pub fn new(coding: Coding) -> Self {
        let state = match coding {
            Coding::Gzip => State::Header(Header::default()),
            Coding::Deflate => State::Sniff(Vec::new()),
        };
        Self { input: Bytes::new(), state }
    }

    /// Adds bytes. Call [`Decoder::next_piece`] until it gives none before adding more.
    pub fn push(&mut self, chunk: Bytes) {
        if self.input.is_empty() {
            self.input = chunk;
        } else {
            self.input = [&self.input[..], &chunk[..]].concat().into();
        }
    }

    /// The next decoded bytes; none: more input is needed.
    ///
    /// # Errors
    /// When the bytes are not what the coding says.
    pub fn next_piece(&mut self) -> Result<Option<Bytes>, Corrupt> {
        loop {
            let (next, piece) = match &mut self.state {
                State::Data(data) if !self.input.is_empty() || data.full => {
                    match inflate(data, &mut self.input) {
                        Ok((piece, None)) if piece.is_empty() => return Ok(None),
                        Ok((piece, next)) => (next, Some(piece).filter(|piece| !piece.is_empty())),
                        Err(corrupt) => (Some(State::Failed(corrupt)), None),
                    }
                }
                State::Failed(corrupt) => return Err(*corrupt),
                _ if self.input.is_empty() => return Ok(None),
                State::Header(header) => (Some(header.read(&mut self.input)), None),
                State::Sniff(first) => (sniff(first, &mut self.input), None),
                State::Trailer(trailer) => (Some(trailer.read(&mut self.input)), None),
                State::Data(_) | State::Over => {
                    self.input = Bytes::new();
                    return Ok(None);
                }
            };
            if let Some(next) = next {
                self.state = next;
            }
            if piece.is_some() {
                return Ok(piece);
            }
        }
    }

    /// The body has ended properly.
    ///
    /// # Errors
    /// When the compressed data had not.
    pub fn ended(&self) -> Result<(), Corrupt> {
        match &self.state {
            State::Over => Ok(()),
            // Nothing at all is an empty body, and nothing after a member is its end.
            State::Header(header) if header.is_empty() => Ok(()),
            State::Sniff(first) if first.is_empty() => Ok(()),
            State::Failed(corrupt) => Err(*corrupt),
            _ => Err(Corrupt::Truncated),
        }
    }
}

fn sniff(first: &mut Vec<u8>, input: &mut Bytes) -> Option<State> {
    while first.len() < 2 && !input.is_empty() {
        first.extend_from_slice(&input.split_to(1));
    }
    let [method, flags] = *first.as_slice() else { return None };
    let zlib = method & 0x0f == 8 && u16::from_be_bytes([method, flags]).is_multiple_of(31);
    let rest = std::mem::take(input);
    *input = [&first[..], &rest[..]].concat().into();
    Some(Data::state(zlib, false))
}

/// One piece, and the state that follows when the data are over.
fn inflate(data: &mut Data, input: &mut Bytes) -> Result<(Bytes, Option<State>), Corrupt> {
    let mut out = Vec::with_capacity(PIECE);
    let before = data.inflate.total_in();
    let status =
        data.inflate.decompress_vec(input, &mut out, FlushDecompress::None).map_err(|_| Corrupt::Data)?;
    let used = usize::try_from(data.inflate.total_in() - before).unwrap_or(usize::MAX);
    drop(input.split_to(used.min(input.len())));
    data.full = out.len() == out.capacity();
    if let Some(sum) = &mut data.sum {
        sum.update(&out);
    }
    let next = match (status, &data.sum) {
        (Status::StreamEnd, Some(sum)) => Some(State::Trailer(Trailer::new(sum))),
        (Status::StreamEnd, None) => Some(State::Over),
        (Status::Ok | Status::BufError, _) => None,
    };
    Ok((out.into(), next))
}

#[cfg(test)]
mod tests;
