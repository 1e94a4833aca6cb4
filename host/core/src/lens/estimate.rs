//! How many input tokens a request is, about, before anyone has counted them.
//!
//! Four bytes of text count as one token. Text is what stands in strings, keys included, with escapes undone;
//! brackets and white space between them are nobody's input. Media is not text: a `data:` URL, and a long
//! value of a member `data` that is nothing but base64, counts as [`MEDIA_TOKENS`] whatever its size. The
//! estimate errs on the low side for most scripts and for code: what is too long all the same is for the
//! upstream to refuse, while a request that was wrongly kept from a target has no such way out.

use memchr::memchr2;

/// What an image, a sound or a file counts as.
pub const MEDIA_TOKENS: usize = 85;
/// Shorter values of `data` are text, whatever their letters.
const MEDIA_MIN: usize = 256;

/// Estimated tokens of a piece of JSON, which is known to be well-formed.
pub fn tokens(json: &str) -> usize {
    let bytes = json.as_bytes();
    let (mut text, mut media, mut at) = (0, 0, 0);
    let mut of_data = false;
    while let Some(start) = memchr::memchr(b'"', &bytes[at..]).map(|found| at + found + 1) {
        let (length, end) = string(bytes, start);
        let content = &bytes[start..end];
        at = (end + 1).min(bytes.len());
        let is_key = bytes[at..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        if is_key {
            of_data = content == b"data";
            text += length;
        } else if is_data_url(content) || (of_data && is_base64(content)) {
            media += 1;
        } else {
            text += length;
        }
    }
    text.div_ceil(4) + media * MEDIA_TOKENS
}

/// Length of the text of a string that begins at `start`, escapes undone, and where its end quote is.
fn string(bytes: &[u8], start: usize) -> (usize, usize) {
    let (mut at, mut less) = (start, 0);
    while let Some(found) = memchr2(b'"', b'\\', &bytes[at..]) {
        at += found;
        if bytes[at] == b'"' {
            return (at - start - less, at);
        }
        // `\u4f60` is three bytes of text at most, each other escape one.
        let (skip, text) = if bytes.get(at + 1) == Some(&b'u') { (6, 3) } else { (2, 1) };
        less += skip - text;
        at = (at + skip).min(bytes.len());
    }
    ((bytes.len() - start).saturating_sub(less), bytes.len())
}

fn is_data_url(content: &[u8]) -> bool {
    let head = &content[..content.len().min(MEDIA_MIN)];
    head.starts_with(b"data:") && memchr::memmem::find(head, b";base64,").is_some()
}

fn is_base64(content: &[u8]) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(byte);
    content.len() >= MEDIA_MIN && content.iter().all(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_counts_and_syntax_and_media_do_not() {
        let image = format!(r#"[{{"url":"data:image/png;base64,{}"}}]"#, "A".repeat(1 << 20));
        let sound = format!(r#"{{"data":"{}"}}"#, "Ab+/".repeat(1000));
        let prose = format!(r#"{{"data":"{}"}}"#, "a b ".repeat(1000));
        let letters = format!(r#"{{"text":"{}"}}"#, "x".repeat(4000));
        let cases = [
            (r#"[]"#, 0),
            (r#"["abcd"]"#, 1),
            (r#"["abcde"]"#, 2),
            (r#"[  {  "k" :  "abc" } ]"#, 1),
            (r#"["\n\n\n\n"]"#, 1),
            (r#"["\"\\\"\\"]"#, 1),
            (r#"["\u4f60\u597d"]"#, 2),
            (r#"["你好"]"#, 2),
            (r#"["data:"]"#, 2),
            (&image, 1 + MEDIA_TOKENS),
            (&sound, 1 + MEDIA_TOKENS),
            (&prose, 1001),
            (&letters, 1001),
        ];
        for (json, want) in cases {
            assert_eq!(tokens(json), want, "{json:.60}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_counted_without_a_panic_and_never_above_its_size(text in ".{0,200}", cut in 0usize..200) {
            let json = serde_json::Value::from(text).to_string();
            proptest::prop_assert!(tokens(&json) <= json.len());
            let cut = (0..=cut.min(json.len())).rev().find(|at| json.is_char_boundary(*at)).unwrap_or(0);
            tokens(&json[..cut]);
        }
    }
}
