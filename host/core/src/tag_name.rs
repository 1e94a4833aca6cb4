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
    "x-request-id",
    "x-should-retry",
];

/// Families of such headers.
const RESERVED_PREFIXES: &[&str] = &["access-control-", "content-", "proxy-", "sec-", "x-forwarded-"];

/// Whether a text can be the name of a tag: 1 to [`NAME_MAX`] of `a-z 0-9 - _`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// Whether a header of this name belongs to the host or to HTTP itself.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED.binary_search(&name).is_ok() || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_reserved_names_can_be_searched() {
        assert!(RESERVED.is_sorted());
    }
}
