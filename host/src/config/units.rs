//! Durations and sizes: a whole number and a unit, both required, nothing between them.

use std::time::Duration;

/// The longest duration a file may ask for. A year keeps every sum of times far from overflow.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

const DURATIONS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// `30s` and the like; saturates above [`LONGEST`].
pub(super) fn duration(text: &str) -> Option<Duration> {
    scaled(text, &DURATIONS).map(Duration::from_millis)
}

/// `16MiB` and the like, in bytes; saturates.
pub(super) fn size(text: &str) -> Option<u64> {
    scaled(text, &SIZES)
}

/// The shortest way to write a duration that [`duration`] reads.
pub(super) fn show_duration(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    show(ms, &DURATIONS, "0ms")
}

/// The shortest way to write a size that [`size`] reads.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, &SIZES, "0B")
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    // Too many digits for 64 bits are still a number: out of range, not another type.
    let number = if number.is_empty() {
        return None;
    } else {
        number.parse::<u64>().unwrap_or(u64::MAX)
    };
    Some(number.saturating_mul(factor))
}

fn show(value: u64, units: &[(&str, u64)], zero: &str) -> String {
    let fits = |&&(_, factor): &&(&str, u64)| value.is_multiple_of(factor);
    match units.iter().filter(fits).max_by_key(|(_, factor)| *factor) {
        Some((unit, factor)) if value > 0 => format!("{}{unit}", value / factor),
        _ => zero.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_whole_number_and_a_unit_and_nothing_else() {
        for (text, ms) in [("0ms", 0), ("1800ms", 1800), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "30", "s", "1.8s", "-1s", "+1s", "1 s", "1S", "1d", "1s ", "1sec", "٣s", "1s1s"] {
            assert_eq!(duration(text), None, "{text:?}");
        }
        assert!(duration("99999999999999999999999h").is_some_and(|long| long > LONGEST));
    }

    #[test]
    fn a_size_tells_thousands_from_1024s() {
        for (text, bytes) in
            [("0B", 0), ("1KB", 1000), ("1KiB", 1024), ("32MiB", 32 << 20), ("2GB", 2_000_000_000)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["1", "1kb", "1K", "1 MiB", "1.5MiB", "-1B", "MiB"] {
            assert_eq!(size(text), None, "{text:?}");
        }
        assert_eq!(size("99999999999GiB"), Some(u64::MAX));
    }

    #[test]
    fn a_bound_is_shown_as_a_file_would_write_it() {
        for text in ["0ms", "1ms", "450ms", "30s", "90s", "5m", "8760h"] {
            assert_eq!(duration(text).map(show_duration).as_deref(), Some(text));
        }
        for text in ["0B", "1B", "1000B", "64KiB", "4GiB"] {
            let shown = size(text).map(show_size);
            assert_eq!(shown.as_deref().and_then(size), size(text), "{text}");
        }
    }
}
