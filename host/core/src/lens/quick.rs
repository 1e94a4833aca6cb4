//! A JSON reader for what is read most: events of a stream and whole answers in their usual shape.
//!
//! It reads on as long as everything is as it nearly always is, and otherwise gives up: then the general reader says
//! what the text is. So it never refuses anything, and what it accepts is JSON. It walks over the bytes once and
//! keeps nothing.

use super::scan::first_special;

/// Deepest nesting it follows.
const DEPTH_MAX: u32 = 32;

/// Reading of one text. Every step gives none where something is unusual or wrong.
pub(super) struct Quick<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// A string as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Raw<'a> {
    /// Between the quotes.
    pub raw: &'a [u8],
    /// Length of the text in bytes, escapes undone.
    pub text: usize,
    /// It has escapes.
    pub escaped: bool,
}

impl<'a> Quick<'a> {
    /// At the beginning of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0 }
    }

    /// The first byte of what comes next, white space left out.
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Nothing but white space is left.
    pub fn ended(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn literal(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    /// True when there was a null, which is behind us then.
    pub fn null(&mut self) -> Option<bool> {
        if self.peek()? == b'n' { self.literal(b"null").map(|()| true) } else { Some(false) }
    }

    /// A whole number that is not negative.
    pub fn whole(&mut self) -> Option<u64> {
        self.peek()?;
        let rest = &self.bytes[self.at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let fits = (1..=18).contains(&digits) && (digits == 1 || rest[0] != b'0');
        if !fits || matches!(rest.get(digits), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.at += digits;
        Some(rest[..digits].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }

    /// A string.
    pub fn string(&mut self) -> Option<Raw<'a>> {
        self.eat(b'"')?;
        let rest = self.bytes.get(self.at..)?;
        let length = first_special(rest)?;
        let (raw, end) = rest.split_at_checked(length)?;
        if end.first() == Some(&b'"') {
            self.at += length + 1;
            return Some(Raw { raw, text: length, escaped: false });
        }
        self.escaped()
    }

    /// The rest of a string, with escapes in it or wrong.
    #[inline(never)]
    fn escaped(&mut self) -> Option<Raw<'a>> {
        let start = self.at;
        let mut less = 0;
        loop {
            self.at += first_special(&self.bytes[self.at..])?;
            match self.bytes[self.at] {
                b'"' => break,
                b'\\' => {}
                _ => return None,
            }
            let (skip, text) = match self.bytes.get(self.at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => (2, 1),
                b'u' => (6, utf8_len(self.bytes.get(self.at + 2..self.at + 6)?)?),
                _ => return None,
            };
            self.at += skip;
            less += skip - text;
        }
        let raw = &self.bytes[start..self.at];
        self.at += 1;
        Some(Raw { raw, text: raw.len() - less, escaped: less > 0 })
    }

    /// An object: `member` is told each key, and reads the value.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.eat(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.peek()?;
            let key = self.string()?;
            if key.escaped {
                return None;
            }
            self.eat(b':')?;
            member(self, key.raw)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(())
    }

    /// A list: `item` reads each item. Gives their number.
    pub fn list(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<usize> {
        self.eat(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(0);
        }
        let mut items = 0;
        loop {
            item(self)?;
            items += 1;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(items)
    }

    /// Any value, as it stands.
    pub fn any(&mut self) -> Option<&'a str> {
        self.peek()?;
        let start = self.at;
        self.skip()?;
        self.text.get(start..self.at)
    }

    /// Passes over any value.
    pub fn skip(&mut self) -> Option<()> {
        self.skip_within(DEPTH_MAX)
    }

    fn skip_within(&mut self, depth: u32) -> Option<()> {
        let deeper = depth.checked_sub(1)?;
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' => self.object(|reader, _| reader.skip_within(deeper)),
            b'[' => self.list(|reader| reader.skip_within(deeper)).map(drop),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Option<()> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        let zero = self.bytes.get(self.at) == Some(&b'0');
        let whole = self.digits()?;
        if zero && whole > 1 {
            return None;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<usize> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(count)
    }
}

/// Bytes of the character that four hexadecimal digits stand for. None for halves of a pair.
fn utf8_len(digits: &[u8]) -> Option<usize> {
    let mut code = 0u32;
    for digit in digits {
        code = code * 16 + char::from(*digit).to_digit(16)?;
    }
    char::from_u32(code).map(char::len_utf8)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop where it fails")]

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn accepts(text: &str) -> bool {
        let mut reader = Quick::new(text);
        reader.skip().and_then(|()| reader.ended()).is_some()
    }

    #[test]
    fn what_is_no_json_is_never_accepted() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "01",
            "-",
            "-01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "+1",
            "nul",
            "nulll",
            "true false",
            "\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"a\nb\"",
            "\"\u{1}\"",
            "1 2",
            "{} {}",
            "\"\\ud800\"",
            "'a'",
            "{\"a\":1 \"b\":2}",
            "[1 2]",
        ] {
            assert!(!accepts(text), "{text:?}");
        }
    }

    #[test]
    fn usual_json_is_accepted() {
        for text in [
            "null",
            " true ",
            "0",
            "-0",
            "-1.5e+10",
            "1E5",
            "[]",
            "[ ]",
            "{}",
            "{ }",
            "\"\"",
            "\"é\\n\\u00e9\\/\"",
            "{\"a\":[1,{\"b\":null}] , \"c\":\"d\"}",
        ] {
            assert!(accepts(text), "{text:?}");
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{text:?}");
        }
        assert!(!accepts(&"[".repeat(10_000)), "deep nesting is left to the general reader");
    }

    #[test]
    fn whole_numbers_are_read_and_others_are_not() {
        let read = |text: &str| Quick::new(text).whole();
        assert_eq!(
            (read("0"), read(" 7,"), read("123}"), read("999999999999999999")),
            (Some(0), Some(7), Some(123), Some(999_999_999_999_999_999))
        );
        for text in ["-1", "1.0", "1e3", "01", "x", "", "1000000000000000000"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn texts_have_the_length_that_a_parser_finds(text: String, cut in 0usize..40) {
            let json = Value::from(text.clone()).to_string();
            let raw = Quick::new(&json).string();
            prop_assert_eq!(raw.map(|raw| raw.text), Some(text.len()));
            // Escaped as much as can be.
            let all: String = text.chars().take(cut).map(|c| format!("\\u{:04x}", c as u32 & 0xffff)).collect();
            let json = format!("\"{all}\"");
            if let Some(raw) = Quick::new(&json).string() {
                prop_assert_eq!(raw.text, serde_json::from_str::<String>(&json).unwrap().len());
            }
        }

        #[test]
        fn whatever_is_accepted_a_parser_accepts(text in "[\\[\\]{}:,\"\\\\ 0-9eE.+\\-a-fnrtu]{0,12}") {
            if accepts(&text) {
                prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{}", text);
            }
        }
    }
}
