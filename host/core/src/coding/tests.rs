#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;

use super::*;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compression, GzBuilder};
use proptest::prelude::*;

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Everything that comes out, and how it ends.
fn decode(coding: Coding, pieces: &[&[u8]]) -> (Vec<u8>, Result<(), Corrupt>) {
    let mut decoder = Decoder::new(coding);
    let mut out = Vec::new();
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        loop {
            match decoder.next_piece() {
                Ok(Some(decoded)) => {
                    assert!(!decoded.is_empty() && decoded.len() <= PIECE);
                    out.extend_from_slice(&decoded);
                }
                Ok(None) => break,
                Err(corrupt) => return (out, Err(corrupt)),
            }
        }
    }
    (out, decoder.ended())
}

#[test]
fn which_codings_are_understood() {
    let cases = [
        ("", Ok(None)),
        ("identity", Ok(None)),
        ("gzip", Ok(Some(Coding::Gzip))),
        (" X-GZIP ", Ok(Some(Coding::Gzip))),
        ("identity, gzip", Ok(Some(Coding::Gzip))),
        ("deflate", Ok(Some(Coding::Deflate))),
        ("br", Err("br")),
        ("gzip, gzip", Err("gzip, gzip")),
    ];
    for (header, expected) in cases {
        assert_eq!(
            Coding::of(header),
            expected.map_err(|got| UnknownCoding { got: got.to_owned() }),
            "{header:?}"
        );
    }
}

#[test]
fn what_is_flushed_comes_out_at_once() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut decoder = Decoder::new(Coding::Gzip);
    for event in ["data: one\n\n", "data: two\n\n", &format!("data: {}\n\n", "x".repeat(3 * PIECE))] {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        decoder.push(std::mem::take(encoder.get_mut()).into());
        let mut out = Vec::new();
        while let Some(piece) = decoder.next_piece().unwrap() {
            out.extend_from_slice(&piece);
        }
        assert_eq!(out, event.as_bytes());
    }
}

#[test]
fn every_form_of_header_and_several_members_are_read() {
    let mut full =
        GzBuilder::new().filename("n").comment("c").extra("extra").write(Vec::new(), Compression::default());
    full.write_all(b"one ").unwrap();
    let mut both = full.finish().unwrap();
    both.extend(gzip(b"two"));
    for size in [1, 2, 7, both.len()] {
        let pieces: Vec<&[u8]> = both.chunks(size).collect();
        assert_eq!(decode(Coding::Gzip, &pieces), (b"one two".to_vec(), Ok(())));
    }
    // With a checksum over the header, which this crate's encoder never writes.
    let mut summed = gzip(b"x");
    summed[3] = 1 << 1;
    summed.splice(10..10, [7, 7]);
    assert_eq!(decode(Coding::Gzip, &[&summed]), (b"x".to_vec(), Ok(())));
    let mut empty_extra = gzip(b"x");
    empty_extra[3] = 1 << 2;
    empty_extra.splice(10..10, [0, 0]);
    assert_eq!(decode(Coding::Gzip, &[&empty_extra]), (b"x".to_vec(), Ok(())));
}

#[test]
fn damage_is_told_apart() {
    let good = gzip(b"hello hello hello");
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] ^= byte;
        bad
    };
    let sum = good.len() - 8;
    let cases = [
        (b"data: plain text\n\n".to_vec(), Corrupt::Header),
        (with(2, 1), Corrupt::Header),
        (with(3, 0x80), Corrupt::Header),
        (with(10, 0xff), Corrupt::Data),
        (with(sum, 1), Corrupt::Checksum),
        (with(sum + 4, 1), Corrupt::Checksum),
        (good[..good.len() - 1].to_vec(), Corrupt::Truncated),
        (good[..12].to_vec(), Corrupt::Truncated),
        (good[..3].to_vec(), Corrupt::Truncated),
        ([&good[..], b"x"].concat(), Corrupt::Header),
    ];
    for (bytes, expected) in cases {
        assert_eq!(decode(Coding::Gzip, &[&bytes]).1, Err(expected), "{bytes:?}");
    }
    assert_eq!(decode(Coding::Gzip, &[]), (vec![], Ok(())));
    assert_eq!(decode(Coding::Deflate, &[&[7]]).1, Err(Corrupt::Truncated));
}

#[test]
fn a_small_body_that_grows_large_comes_in_bounded_pieces() {
    let packed = gzip(&vec![0; 8 << 20]);
    assert!(packed.len() < 16 << 10);
    let (out, end) = decode(Coding::Gzip, &[&packed]);
    assert_eq!((out.len(), end), (8 << 20, Ok(())));
}

proptest! {
    #[test]
    fn however_it_is_split_the_same_comes_out(plain in proptest::collection::vec(0u8..4, 0..100_000), size in 1usize..5000) {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&plain).unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
        raw.write_all(&plain).unwrap();
        let forms = [
            (Coding::Gzip, gzip(&plain)),
            (Coding::Deflate, zlib.finish().unwrap()),
            (Coding::Deflate, raw.finish().unwrap()),
        ];
        for (coding, packed) in forms {
            let pieces: Vec<&[u8]> = packed.chunks(size).collect();
            let (out, end) = decode(coding, &pieces);
            prop_assert!(out == plain, "{coding:?}: {} bytes of {}", out.len(), plain.len());
            prop_assert_eq!(end, Ok(()));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut behind = gzip(b"")[..10].to_vec();
        behind.extend_from_slice(&bytes);
        for coding in [Coding::Gzip, Coding::Deflate] {
            decode(coding, &[&bytes]).1.ok();
            decode(coding, &[&behind]).1.ok();
        }
    }
}
