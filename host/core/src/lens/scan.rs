//! Where a JSON string ends, or stops being plain: the innermost loop of whatever reads or writes JSON here.
//!
//! Most strings are keys and short words, for which a search that prepares itself costs more than the look at them;
//! so eight bytes at a time are looked at in one word, and only what is long is gone through in wider steps.

/// Bytes looked at word by word before the wider steps.
const SHORT: usize = 32;
/// Bytes of a wider step: a loop of this length becomes a few vector instructions.
const WIDE: usize = 64;

const ONES: u64 = u64::MAX / 255;

/// Where the first byte is that cannot stand in a JSON string as it is: a control character, a quote, a backslash.
#[must_use]
pub fn first_special(bytes: &[u8]) -> Option<usize> {
    match bytes.split_at_checked(SHORT) {
        Some((short, long)) => in_words(short).or_else(|| in_steps(long).map(|found| SHORT + found)),
        None => in_words(bytes),
    }
}

fn in_steps(bytes: &[u8]) -> Option<usize> {
    let (steps, rest) = bytes.as_chunks::<WIDE>();
    for (at, step) in steps.iter().enumerate() {
        if step.iter().fold(false, |any, byte| any | is_special(*byte)) {
            return in_words(step).map(|found| at * WIDE + found);
        }
    }
    in_words(rest).map(|found| bytes.len() - rest.len() + found)
}

fn in_words(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return Some(at * 8 + (marks.trailing_zeros() / 8) as usize);
        }
    }
    rest.iter().position(|byte| is_special(*byte)).map(|found| words.len() * 8 + found)
}

const fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// The high bit of the lowest special byte of a word, and nothing below it. Above it bits may be set that mean nothing,
/// because a subtraction borrows from the next byte.
const fn marks(word: u64) -> u64 {
    const fn zero(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word
    }
    let control = word.wrapping_sub(ONES * b' ' as u64) & !word;
    let quote = zero(word ^ (ONES * b'"' as u64));
    let backslash = zero(word ^ (ONES * b'\\' as u64));
    (control | quote | backslash) & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_byte_is_judged_alike_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            let special = byte < 32 || byte == b'"' || byte == b'\\';
            for before in (0..110).chain([159, 160, 161, 199]) {
                for after in [0, 1, 7, 9, 40] {
                    let mut text = vec![b'a'; before + 1 + after];
                    text[before] = byte;
                    assert_eq!(first_special(&text), special.then_some(before), "{byte} {before} {after}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_of_several_is_found(bytes in proptest::collection::vec(any::<u8>(), 0..300), seed: u8) {
            // Few special ones, so that they are met at all distances.
            let bytes: Vec<u8> = bytes
                .into_iter()
                .map(|byte| if byte ^ seed < 6 { byte & 0x7f } else { byte | 0x80 })
                .collect();
            prop_assert_eq!(first_special(&bytes), bytes.iter().position(|byte| is_special(*byte)));
        }
    }
}
