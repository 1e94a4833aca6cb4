//! Which names a tag may have, and which headers a tag may never be.

/// Longest name, bytes.
pub const NAME_MAX: usize = 64;

/// Headers of the host or of HTTP itself.
const RESERVED: &[&str] = &[
    "age",
    "allow",
    "alt-svc",
    "authorization",
    "cache-control",
    "connection",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "location",
    "refresh",
    "retry-after",
    "server",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "vary",
    "via",
    "www-authenticate",
];

/// Families of such headers.
const RESERVED_PREFIXES: &[&str] = &["access-control-", "content-", "proxy-", "sec-"];

/// Those that begin with `x-`.
const RESERVED_X: &[&str] = &["x-request-id", "x-should-retry"];

/// Families of those that begin with `x-`.
const RESERVED_X_PREFIXES: &[&str] = &["x-forwarded-"];

/// Whether a text can be the name of a tag: 1 to [`NAME_MAX`] of `a-z 0-9 - _`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(|byte| ALLOWED[usize::from(byte)])
}

/// The position in [`USUAL`] of one of those names.
#[must_use]
pub fn usual(name: &str) -> Option<usize> {
    USUAL.iter().position(|usual| *usual == name)
}

/// The headers that the bundled tagger writes as long as nobody gives them other names: what they may be is known, and
/// need not be found out again for every answer.
pub const USUAL: [&str; 9] = [
    "x-sluice-model",
    "x-sluice-route",
    "x-sluice-degraded",
    "x-sluice-upstream",
    "x-sluice-served-model",
    "x-sluice-failure-kind",
    "x-sluice-attempts",
    "x-sluice-latency-ms",
    "x-sluice-policy",
];

/// Which bytes a name may have.
const ALLOWED: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let letter = byte as u8;
        allowed[byte] =
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, b'-' | b'_');
        byte += 1;
    }
    allowed
};

/// Whether a header of this name belongs to the host or to HTTP itself.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    // Most tags begin like this, and few such headers are reserved.
    let (names, prefixes) = match name.strip_prefix("x-") {
        Some(_) => (RESERVED_X, RESERVED_X_PREFIXES),
        None => (RESERVED, RESERVED_PREFIXES),
    };
    names.binary_search(&name).is_ok() || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reserved_name_is_found() {
        assert!(RESERVED.is_sorted() && RESERVED_X.is_sorted());
        for name in RESERVED.iter().chain(RESERVED_X) {
            assert!(is_reserved(name), "{name}");
        }
        for prefix in RESERVED_PREFIXES.iter().chain(RESERVED_X_PREFIXES) {
            assert!(is_reserved(prefix) && is_reserved(&format!("{prefix}any")), "{prefix}");
        }
        for name in ["x", "x-", "x-sluice-model", "x-forwarded", "hosts", "content", "team"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn the_usual_names_may_be_written() {
        for (at, name) in USUAL.into_iter().enumerate() {
            assert!(is_name(name) && !is_reserved(name), "{name}");
            assert_eq!(usual(name), Some(at), "{name}");
        }
        assert_eq!(usual("x-sluice-other"), None);
    }

    #[test]
    fn a_name_is_made_of_small_letters_digits_and_two_signs() {
        for byte in 0..=u8::MAX {
            let named = is_name(&char::from(byte).to_string());
            assert_eq!(named, matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'), "{byte}");
        }
        assert!(!is_name("") && is_name(&"a".repeat(64)) && !is_name(&"a".repeat(65)));
    }
}
