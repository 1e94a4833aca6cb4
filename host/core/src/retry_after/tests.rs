#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// 2026-03-01 12:00:00 UTC.
fn wall() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_772_366_400)
}

fn read(headers: &[(&str, &str)]) -> Option<u64> {
    hint(headers.iter().copied(), wall(), HOUR).map(|wait| u64::try_from(wait.as_micros()).unwrap())
}

#[test]
fn every_form_is_read() {
    for (name, value, micros) in [
        ("retry-after", "7", 7_000_000),
        ("Retry-After", " 7 ", 7_000_000),
        ("retry-after", "1.5", 1_500_000),
        ("retry-after", ".5", 500_000),
        ("retry-after", "Sun, 01 Mar 2026 12:00:04 GMT", 4_000_000),
        ("retry-after", "Sunday, 01-Mar-26 12:00:04 GMT", 4_000_000),
        ("retry-after", "Sun Mar  1 12:00:04 2026", 4_000_000),
        ("retry-after", "2026-03-01T12:00:09Z", 9_000_000),
        ("retry-after", "20s", 20_000_000),
        ("retry-after-ms", "1500", 1_500_000),
        ("retry-after-ms", "0.5", 500),
        ("x-ms-retry-after-ms", "250", 250_000),
        ("x-ratelimit-reset-requests", "1m30s", 90_000_000),
        ("x-ratelimit-reset-requests", "6ms", 6_000),
        ("x-ratelimit-reset-tokens", "20.5s", 20_500_000),
        ("X-RateLimit-Reset-Tokens", "1h0m0s", 3_600_000_000),
        ("x-ratelimit-reset-tokens", "1m2.25s", 62_250_000),
        ("x-ratelimit-reset-tokens", "450µs", 450),
        ("x-ratelimit-reset", "30", 30_000_000),
        ("x-ratelimit-reset", "1772366415", 15_000_000),
        ("x-ratelimit-reset", "1772366415500", 15_500_000),
        ("x-ratelimit-reset-after", "1.25", 1_250_000),
        ("ratelimit-reset", "12", 12_000_000),
        ("anthropic-ratelimit-requests-reset", "2026-03-01T12:00:30Z", 30_000_000),
        ("anthropic-ratelimit-input-tokens-reset", "2026-03-01T12:00:30.250Z", 30_250_000),
        ("anthropic-ratelimit-tokens-reset", "2026-03-01T13:00:30+01:00", 30_000_000),
        ("anthropic-ratelimit-tokens-reset", "2026-03-01t06:30:30-05:30", 30_000_000),
    ] {
        assert_eq!(read(&[(name, value)]), Some(micros), "{name}: {value}");
    }
}

#[test]
fn garbage_and_waits_of_nothing_are_no_hint() {
    for value in [
        "",
        " ",
        "0",
        "0.0",
        "0s",
        "-1",
        "-1s",
        "+1",
        "1e3",
        "inf",
        "nan",
        "NaN",
        "infinity",
        ".",
        "..",
        "1.2.3",
        "1..2",
        "soon",
        "1 s",
        "s",
        "1x",
        "1m30",
        "m",
        "0x10",
        "١",
        "1,5",
        "Sun, 01 Mar 2026 11:59:59 GMT",
        "Sun, 32 Mar 2026 12:00:04 GMT",
        "2026-03-01T11:59:59Z",
        "2026-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-04-00T12:00:00Z",
        "2026-04-01T24:00:00Z",
        "2026-04-01T12:00:00",
        "2026-04-01T12:00:00+1:00",
        "2026-04-01T12:00:00.Z",
        "2026-04-01T12:00:001Z",
        "2026-04-01",
        "2026-04-01T",
        "1969-04-01T00:00:00Z",
        "2026-04-0é12:00:00Z",
        "1000000001",
    ] {
        for name in [
            "retry-after",
            "x-ratelimit-reset",
            "x-ratelimit-reset-tokens",
            "anthropic-ratelimit-tokens-reset",
        ] {
            assert_eq!(read(&[(name, value)]), None, "{name}: {value:?}");
        }
    }
    for (name, value) in [
        ("retry-after-ms", "soon"),
        ("x-retry", "5"),
        ("x-ratelimit-resets", "5"),
        ("x-ratelimit", "5"),
        ("anthropic-ratelimit-reset", "5"),
        ("x-ratelimit-remaining", "5"),
        ("é-ratelimit-reset", "5"),
    ] {
        assert_eq!(read(&[(name, value)]), None, "{name}: {value}");
    }
}

#[test]
fn waits_are_clamped() {
    for value in [
        "86400",
        "999999999",
        "99999999999999",
        "3000h",
        "Fri, 01 Mar 2030 12:00:04 GMT",
        "9999-12-31T23:59:59Z",
    ] {
        assert_eq!(read(&[("retry-after", value)]), Some(3_600_000_000), "{value}");
    }
    let far = "9".repeat(400);
    assert_eq!(read(&[("retry-after", &far)]), None, "a number that no clock holds is garbage");
}

#[test]
fn the_outright_header_wins_and_milliseconds_before_seconds() {
    let headers = [("x-ratelimit-reset", "50"), ("retry-after", "2"), ("retry-after-ms", "1500")];
    assert_eq!(read(&headers), Some(1_500_000));
    assert_eq!(read(&headers[..2]), Some(2_000_000));
    assert_eq!(
        read(&[("retry-after-ms", "soon"), ("retry-after", "later"), ("retry-after", "3")]),
        Some(3_000_000)
    );
    assert_eq!(read(&[("retry-after", "later"), ("x-ratelimit-reset", "50")]), Some(50_000_000));
}

#[test]
fn the_scarcest_quota_tells_the_wait() {
    let tokens_gone = [
        ("x-ratelimit-limit-requests", "500"),
        ("x-ratelimit-remaining-requests", "499"),
        ("x-ratelimit-reset-requests", "120s"),
        ("x-ratelimit-limit-tokens", "30000"),
        ("x-ratelimit-remaining-tokens", "900"),
        ("x-ratelimit-reset-tokens", "57s"),
    ];
    assert_eq!(read(&tokens_gone), Some(57_000_000));
    assert_eq!(
        read(&[
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "3s"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ]),
        Some(3_000_000)
    );
    // Nothing tells which one it was: the latest is safe.
    assert_eq!(
        read(&[("x-ratelimit-reset-requests", "3s"), ("x-ratelimit-reset-tokens", "9s")]),
        Some(9_000_000)
    );
}

#[test]
fn the_share_left_is_that_of_the_scarcest_quota() {
    for (headers, left) in [
        (&[("x-ratelimit-limit-requests", "500"), ("x-ratelimit-remaining-requests", "250")][..], Some(0.5)),
        (&[("X-RateLimit-Limit", "10"), ("x-ratelimit-REMAINING", "1")][..], Some(0.1)),
        (&[("ratelimit-limit", "10"), ("ratelimit-remaining", "20")][..], Some(1.0)),
        (
            &[
                ("anthropic-ratelimit-requests-limit", "50"),
                ("anthropic-ratelimit-requests-remaining", "49"),
                ("anthropic-ratelimit-output-tokens-limit", "8000"),
                ("anthropic-ratelimit-output-tokens-remaining", "2000"),
            ][..],
            Some(0.25),
        ),
        (&[("x-ratelimit-limit-requests", "500"), ("x-ratelimit-remaining-tokens", "250")][..], None),
        (&[("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "0")][..], None),
        (&[("x-ratelimit-limit", "ten"), ("x-ratelimit-remaining", "1")][..], None),
        (&[][..], None),
    ] {
        assert_eq!(quota_left(headers.iter().copied()), left, "{headers:?}");
    }
}

#[test]
fn a_flood_of_quotas_is_bounded() {
    let names: Vec<String> = (0..1000).map(|n| format!("x-ratelimit-limit-{n}")).collect();
    assert_eq!(quotas(names.iter().map(|name| (name.as_str(), "1")), None).len(), MAX_QUOTAS);
}

#[test]
fn dates_are_those_of_the_calendar() {
    // Every day of 130 years, against the library that reads HTTP dates.
    for day in 0..47_500_u64 {
        let moment = UNIX_EPOCH + Duration::from_secs(day * 86_400 + 12 * 3600);
        let http = httpdate::fmt_http_date(moment);
        let parts: Vec<&str> = http.split(' ').collect();
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let month = months.iter().position(|name| *name == parts[2]).unwrap() + 1;
        let text = format!("{}-{month:02}-{}T12:00:00Z", parts[3], parts[1]);
        let expected = Duration::from_secs(day * 86_400 + 12 * 3600);
        assert_eq!(value::wait(&text, UNIX_EPOCH), Some(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn no_value_panics_or_exceeds_the_ceiling(name in "(retry-after(-ms)?|x-ratelimit-(reset|limit|remaining)(-[a-z]{0,3})?)", value in "(?s).{0,40}|[0-9.:TZ+hms -]{0,40}") {
        let headers = [(name.as_str(), value.as_str())];
        if let Some(wait) = hint(headers.into_iter(), wall(), HOUR) {
            prop_assert!(!wait.is_zero() && wait <= HOUR);
        }
        prop_assert!(quota_left(headers.into_iter()).is_none_or(|left| (0.0..=1.0).contains(&left)));
    }
}
