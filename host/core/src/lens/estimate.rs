//! How many input tokens a request is, about, before anyone has counted them.
//!
//! Four bytes of text count as one token. Text is what stands in strings, keys included, with escapes undone;
//! brackets and white space between them are nobody's input. Media is not text: a `data:` URL, and a long
//! value of a member `data` that is nothing but base64, counts as `MEDIA_TOKENS` whatever its size. The
//! estimate errs on the low side for most scripts and for code: what is too long all the same is for the
//! upstream to refuse, while a request that was wrongly kept from a target has no such way out.

use memchr::memchr2;

use super::scan::first_special;

/// What an image, a sound or a file counts as.
const MEDIA_TOKENS: usize = 85;
/// Shorter values of `data` are text, whatever their letters.
const MEDIA_MIN: usize = 256;

/// What one walk over a piece of JSON finds, which is known to be well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measure {
    /// Estimated tokens.
    pub tokens: usize,
    /// Items of the list; none of what is no list.
    pub items: usize,
    /// A string is there that may name the kind of an image. Without one there is no image.
    pub may_show: bool,
}

/// Estimated tokens of a piece of JSON, which is known to be well-formed.
pub fn tokens(json: &str) -> usize {
    measure(json).tokens
}

/// Walks over a piece of JSON, which is known to be well-formed.
pub fn measure(json: &str) -> Measure {
    let bytes = json.as_bytes();
    let (mut text, mut media, mut may_show, mut of_data) = (0, 0, false, false);
    let (mut depth, mut commas, mut empty) = (0usize, 0, true);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'[' | b'{' => {
                empty &= depth == 0;
                depth += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => commas += usize::from(depth == 1),
            b'"' => {
                empty = false;
                let (length, end) = string(bytes, at);
                let content = &bytes[at..end];
                at = (end + 1).min(bytes.len());
                may_show |= may_name_image(content, length);
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
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => empty = false,
        }
    }
    let is_list = bytes.first() == Some(&b'[') && !empty;
    Measure {
        tokens: text.div_ceil(4) + media * MEDIA_TOKENS,
        items: if is_list { commas + 1 } else { 0 },
        may_show,
    }
}

/// Whether a string may be `image`, `image_url` or `input_image`, of which any letter may be escaped.
fn may_name_image(content: &[u8], length: usize) -> bool {
    const LONGEST: usize = "input_image".len();
    let escaped = length < content.len() && content.len() <= 6 * LONGEST;
    escaped || content.starts_with(b"image") || content.starts_with(b"input_image")
}

/// Where the end quote of a string is that begins at `start`; past the end when there is none.
pub(super) fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

/// Length of the text of a string that begins at `start`, escapes undone, and where its end quote is.
fn string(bytes: &[u8], start: usize) -> (usize, usize) {
    let (mut at, mut less) = (start, 0);
    while let Some(found) = first_special(&bytes[at..]) {
        at += found;
        // `\u4f60` is three bytes of text at most, each other escape one.
        let (skip, text) = match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => return (at - start - less, at),
            (b'\\', Some(b'u')) => (6, 3),
            (b'\\', _) => (2, 1),
            // Not in JSON that is well-formed.
            _ => (1, 1),
        };
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

    #[test]
    fn items_of_the_outermost_list_are_counted_whatever_is_in_them() {
        for (json, want) in [
            ("[]", 0),
            ("[ \n ]", 0),
            ("{}", 0),
            ("7", 0),
            (r#""[1,2]""#, 0),
            ("[1]", 1),
            ("[[]]", 1),
            ("[{}, []]", 2),
            (r#"[",",",\"],[",{"a":[1,2],"b":"}"}]"#, 3),
            (r#"["\\",null,true]"#, 3),
        ] {
            assert_eq!(measure(json).items, want, "{json}");
        }
    }

    proptest::proptest! {
        #[test]
        fn items_are_as_many_as_a_parser_finds(texts in proptest::collection::vec(".{0,8}", 0..6)) {
            let list: Vec<_> = texts.iter().map(|text| serde_json::json!({ "a": [text, 1], "b": {} })).collect();
            proptest::prop_assert_eq!(measure(&serde_json::Value::from(list).to_string()).items, texts.len());
            proptest::prop_assert_eq!(measure(&serde_json::Value::from(texts.clone()).to_string()).items, texts.len());
        }

        #[test]
        fn any_text_is_counted_without_a_panic_and_never_above_its_size(text in ".{0,200}", cut in 0usize..200) {
            let json = serde_json::Value::from(text).to_string();
            proptest::prop_assert!(tokens(&json) <= json.len());
            let cut = (0..=cut.min(json.len())).rev().find(|at| json.is_char_boundary(*at)).unwrap_or(0);
            tokens(&json[..cut]);
        }
    }
}
