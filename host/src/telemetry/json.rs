//! JSON written straight into bytes, for lines that are written once for every request.
//!
//! Names and closed words are copied as they stand in the source; only text that came from elsewhere is looked
//! at, eight bytes at a time. What is in a line, and in which order, is decided by whoever writes it.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::value::RawValue;
use sluice_core::lens::scan::first_special;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests;

/// JSON in the making. Brackets, commas and names are the caller's: see [`Json::put`].
#[derive(Debug, Default)]
pub struct Json(Vec<u8>);

/// Every number below a hundred, in two digits.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

impl Json {
    /// Nothing yet, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// What was written.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// What was written so far.
    pub fn written(&self) -> &[u8] {
        &self.0
    }

    /// Takes back the last byte.
    pub fn take_back(&mut self) {
        self.0.pop();
    }

    /// Bytes as they stand.
    pub fn copy(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// What was written, as a value that goes where values go.
    ///
    /// # Errors
    /// It is not one whole JSON value.
    pub fn into_value(self) -> Result<Box<RawValue>, serde_json::Error> {
        RawValue::from_string(String::from_utf8_lossy(&self.0).into_owned())
    }

    /// A piece of syntax: it is JSON as it stands.
    #[inline]
    pub fn put(&mut self, syntax: &'static str) {
        self.0.extend_from_slice(syntax.as_bytes());
    }

    /// A word of a closed set: in quotes, and known to need no escape.
    pub fn word(&mut self, word: &'static str) {
        debug_assert_eq!(first_special(word.as_bytes()), None, "{word}");
        self.0.push(b'"');
        self.0.extend_from_slice(word.as_bytes());
        self.0.push(b'"');
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.0.reserve(text.len() + 2);
        self.0.push(b'"');
        let mut rest = text.as_bytes();
        while let Some(at) = first_special(rest) {
            self.0.extend_from_slice(&rest[..at]);
            self.escape(rest[at]);
            rest = &rest[at + 1..];
        }
        self.0.extend_from_slice(rest);
        self.0.push(b'"');
    }

    fn escape(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            _ => {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                self.0.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
                return;
            }
        };
        self.0.extend_from_slice(&[b'\\', short]);
    }

    /// A whole number.
    pub fn number(&mut self, number: impl Into<u64>) {
        let mut left: u64 = number.into();
        if left < 10 {
            // Counts, and most of them are 0 or 1.
            self.0.push(pair(left)[1]);
            return;
        }
        let mut digits = [0; 20];
        let mut at = digits.len();
        while left >= 100 {
            at -= 2;
            digits[at..at + 2].copy_from_slice(pair(left % 100));
            left /= 100;
        }
        if left >= 10 {
            at -= 2;
            digits[at..at + 2].copy_from_slice(pair(left));
        } else {
            at -= 1;
            digits[at] = pair(left)[1];
        }
        self.0.extend_from_slice(&digits[at..]);
    }

    /// A number; null when it is none, because JSON knows no infinity.
    pub fn float(&mut self, number: f64) {
        const WHOLE_MAX: f64 = 1e15;
        if (0.0..WHOLE_MAX).contains(&number) && number.is_sign_positive() {
            // What has a fraction is another number after this.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                clippy::float_cmp,
                reason = "in range, and whether it is whole is what is asked"
            )]
            let (whole, is_whole) = (number as u64, (number as u64) as f64 == number);
            if is_whole {
                self.number(whole);
                self.put(".0");
                return;
            }
        }
        self.value(&number);
    }

    /// True or false.
    pub fn flag(&mut self, flag: bool) {
        self.put(if flag { "true" } else { "false" });
    }

    /// A value that may be absent, which is a null.
    pub fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.put("null"),
        }
    }

    /// A value in the shape that its type gives it. One that has none is a null.
    pub fn value(&mut self, value: &impl Serialize) {
        let before = self.0.len();
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.0.truncate(before);
            self.put("null");
        }
    }

    /// An object of texts.
    pub fn texts<'a>(&mut self, members: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.put("{");
        for (at, (name, value)) in members.into_iter().enumerate() {
            if at > 0 {
                self.put(",");
            }
            self.text(name);
            self.put(":");
            self.text(value);
        }
        self.put("}");
    }

    /// A list.
    pub fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Self, T)) {
        self.put("[");
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                self.put(",");
            }
            write(self, item);
        }
        self.put("]");
    }

    /// A time as RFC 3339 in UTC with milliseconds. Times that it cannot write are shown as the epoch.
    pub fn time(&mut self, time: SystemTime) {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since = if since < YEAR_10000 { since } else { Duration::ZERO };
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = date(days);
        let mut text = *b"\"0000-00-00T00:00:00.000Z\"";
        let mut put = |at: usize, number: u64| text[at..at + 2].copy_from_slice(pair(number));
        put(1, year / 100);
        put(3, year % 100);
        put(6, month);
        put(9, day);
        put(12, second / 3600);
        put(15, second / 60 % 60);
        put(18, second % 60);
        let millis = u64::from(since.subsec_millis());
        put(22, millis % 100);
        text[21] = pair(millis / 100)[1];
        self.0.extend_from_slice(&text);
    }
}

/// The first moment whose year has five digits.
const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

/// Year, month and day of a day since the epoch. Counted in years that begin in March, so that the leap day is
/// the last of its year.
const fn date(days: u64) -> (u64, u64, u64) {
    /// Days in 400 years, and from March of the year 0 to the epoch.
    const ERA: u64 = 146_097;
    const TO_EPOCH: u64 = 719_468;
    let (era, day) = ((days + TO_EPOCH) / ERA, (days + TO_EPOCH) % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year, if month < 10 { month + 3 } else { month - 9 });
    (if month <= 2 { year + 1 } else { year }, month, of_month)
}

/// Two digits of a number below a hundred.
fn pair(number: u64) -> &'static [u8] {
    let at = usize::try_from(number % 100).unwrap_or(0) * 2;
    &PAIRS[at..at + 2]
}
