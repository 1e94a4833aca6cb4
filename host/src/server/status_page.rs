//! The status page: one file of HTML with its style and scripts in it, built from the sources beside this file.
//!
//! It reads the JSON pages of the same listener and nothing else. The page is the same for everybody and holds no
//! fact of this gateway, so that its policy for browsers can name style and scripts by their digests: whatever
//! else might find its way into the document is neither run nor loaded.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use sha2::{Digest as _, Sha256};

use crate::proxy::Body;

const FRAME: &str = include_str!("status_page/index.html");
const STYLE: &str = include_str!("status_page/page.css");
/// In the order in which they need each other, each using only those before it.
const SCRIPTS: &[&str] = &[
    include_str!("status_page/format.js"),
    include_str!("status_page/problems.js"),
    include_str!("status_page/dom.js"),
    include_str!("status_page/requests.js"),
    include_str!("status_page/sections.js"),
    include_str!("status_page/poll.js"),
];
const STYLE_HERE: &str = "/* style */";
const SCRIPT_HERE: &str = "/* script */";

struct Built {
    html: String,
    policy: Option<HeaderValue>,
}

static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let script = format!("'use strict';\n{}", SCRIPTS.concat());
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        digest(STYLE),
        digest(&script)
    );
    let html = FRAME.replacen(STYLE_HERE, STYLE, 1).replacen(SCRIPT_HERE, &script, 1);
    Built { html, policy: HeaderValue::from_str(&policy).ok() }
});

/// Makes `response`, an empty page, the status page.
pub(super) fn answer(response: Response<Body>) -> Response<Body> {
    let (mut head, _) = response.into_parts();
    write_head(&mut head.headers);
    Response::from_parts(head, Body::full(BUILT.html.as_bytes().into()))
}

fn write_head(headers: &mut HeaderMap) {
    let fixed: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        // Another release has another page.
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // A policy is visible ASCII; without one a page that may do anything would go out.
    let policy = BUILT.policy.clone().unwrap_or(HeaderValue::from_static("default-src 'none'"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
}

/// SHA-256 in base64, as content security policies name it.
fn digest(text: &str) -> String {
    base64(&Sha256::digest(text.as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at > group.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it fails")]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (&[0xfb, 0xff, 0xfe], "+//+"),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn the_policy_names_what_is_in_the_page_and_allows_nothing_beside_it() {
        let html = &BUILT.html;
        let between = |from: &str, to: &str| {
            let (_, rest) = html.split_once(from).expect(from);
            rest.split_once(to).expect(to).0
        };
        let policy = BUILT.policy.as_ref().expect("a policy").to_str().expect("visible ASCII");
        for (kind, text) in
            [("style-src", between("<style>", "</style>")), ("script-src", between("<script>", "</script>"))]
        {
            assert!(text.len() > 1000, "{kind}: it is in the page");
            assert!(policy.contains(&format!("{kind} 'sha256-{}';", digest(text))), "{kind}: {policy}");
        }
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!((html.matches("<script").count(), html.matches("<style").count()), (1, 1));
        for outside in
            ["http://", "https://", "//cdn", "style=", "onclick", "innerHTML", "insertAdjacent", "eval("]
        {
            let found = html.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(outside), "{outside}");
        }
    }
}
