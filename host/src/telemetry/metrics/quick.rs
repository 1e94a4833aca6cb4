//! A hash for look-ups that are made several times for every request.
//!
//! The keys of the tables that use it are names of the configuration and of the plugins folder, or of closed sets:
//! nobody who sends requests can put keys in, and so nobody can choose keys that meet.

use std::hash::{BuildHasherDefault, Hasher};

/// Makes hashers.
pub(super) type Quick = BuildHasherDefault<Mix>;

/// Mixes in eight bytes at a time.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Mix(u64);

impl Mix {
    fn mix(&mut self, word: u64) {
        // An odd number whose bits look random.
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0xf135_7aea_2e62_a9c5);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(last));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.mix(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        // Tables look at the lowest and the highest bits; the best of a product are the high ones.
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher as _;

    use super::*;

    #[test]
    fn names_that_look_alike_have_hashes_that_do_not() {
        let names = (0..4096).map(|n| format!("upstream-{n}/model-{}", n % 7));
        let hashes: Vec<u64> = names.map(|name| Quick::default().hash_one(name.as_str())).collect();
        let kinds = |bits: u32, high: bool| {
            let cut = |hash: &u64| if high { hash >> (64 - bits) } else { hash & ((1 << bits) - 1) };
            hashes.iter().map(cut).collect::<HashSet<_>>().len()
        };
        assert_eq!(kinds(64, true), 4096);
        // Of 4096 random numbers of twelve bits about 2590 differ.
        assert!(kinds(12, false) > 2300, "{}", kinds(12, false));
        assert_eq!(kinds(7, true), 128);
    }
}
