//! The values of those headers, one form after the other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From here on a number is a moment of the Unix epoch in seconds (2001), and no longer a span (31 years).
const EPOCH_SECONDS: f64 = 1e9;
/// From here on it is one in milliseconds.
const EPOCH_MILLIS: f64 = 1e12;

/// A wait in any form: seconds, a span with units, an HTTP date, an RFC 3339 time, a moment of the Unix epoch.
/// A moment that is over is a wait of nothing.
pub(super) fn wait(value: &str, wall: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let moment = if let Some(number) = decimal(value) {
        if number < EPOCH_SECONDS {
            return Duration::try_from_secs_f64(number).ok();
        }
        let seconds = if number < EPOCH_MILLIS { number } else { number / 1000.0 };
        UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?
    } else if let Some(span) = span(value) {
        return Some(span);
    } else {
        httpdate::parse_http_date(value).ok().or_else(|| rfc3339(value))?
    };
    Some(moment.duration_since(wall).unwrap_or(Duration::ZERO))
}

/// A number of milliseconds.
pub(super) fn millis(value: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(decimal(value.trim())? / 1000.0).ok()
}

/// A number of requests or tokens.
pub(super) fn count(value: &str) -> Option<f64> {
    decimal(value.trim())
}

/// Digits with at most one point among them; no sign, no exponent, no names of numbers.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let digit = text.bytes().any(|byte| byte.is_ascii_digit());
    if plain && digit { text.parse().ok() } else { None }
}

/// `1h2m3.5s`, `1m30s`, `20.5s`, `6ms`, `2d`: numbers, each with its unit.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|at| *at > 0)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let seconds = match unit {
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(decimal(number)? * seconds).ok()?)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

/// `2026-03-01T12:00:00Z`, also with a fraction, an offset, or a space for the `T`.
fn rfc3339(text: &str) -> Option<SystemTime> {
    let (date, time) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text.as_bytes()[10], b'T' | b't' | b' ') {
        return None;
    }
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = fields(time.get(..8)?, ':', [2, 2, 2])?;
    let days = days_from_epoch(year, month, day)?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = &time[8..];
    let zone = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (fraction, zone) = rest.split_at(zone);
    let fraction =
        if fraction.is_empty() { 0.0 } else { decimal(fraction).filter(|_| fraction.starts_with('.'))? };
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?;
    let whole = UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))?;
    whole.checked_add(Duration::try_from_secs_f64(fraction).ok()?)
}

/// `Z` or `+01:30`, in seconds east.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let [hours, minutes] = fields(&zone[1..], ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Whole numbers of given widths between separators.
fn fields<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut out = [0; N];
    for (out, width) in out.iter_mut().zip(widths) {
        let part = parts.next()?;
        if part.len() != width || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *out = part.parse().ok()?;
    }
    parts.next().is_none().then_some(out)
}

/// Days between 1970-01-01 and a date of the Gregorian calendar; none for a date that is none, or before it.
fn days_from_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month - 1).ok()?;
    if year < 1970 || day < 1 || day > *lengths.get(before)? {
        return None;
    }
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    Some(years + lengths[..before].iter().sum::<i64>() + day - 1)
}
