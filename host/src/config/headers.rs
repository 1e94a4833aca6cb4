//! Which header names a file may use for what. Framing, hop-by-hop, cookie and credential headers never
//! cross the gateway, whatever a list says.

use http::HeaderName;
use sluice_core::tag_name;

use super::field::Field;

/// Belong to one connection or to the message's framing; the host alone writes them.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Of a caller, towards us: never an upstream's or a plugin's to see.
const CALLERS_OWN: &[&str] =
    &["api-key", "authorization", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key"];
/// Of an upstream, towards us: never a caller's to see; or describe bytes that the host frames anew.
const UPSTREAMS_OWN: &[&str] =
    &["content-encoding", "proxy-authenticate", "set-cookie", "www-authenticate", "x-request-id"];

/// Whether a header of this name, in lower case, stays on its side of the gateway whatever a file lists.
#[must_use]
pub fn never_crosses(name: &str) -> bool {
    [FRAMING, CALLERS_OWN, UPSTREAMS_OWN].iter().any(|names| names.contains(&name))
}

/// What a header name in the file is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// `forward_headers`.
    Forward,
    /// `return_headers`.
    Return,
    /// `plugins.headers`.
    Plugins,
    /// `headers` and `auth_header` of an upstream.
    Fixed,
    /// `tags.names`.
    Tag,
}

/// Why `name` cannot be used so.
pub(super) fn refused(name: &HeaderName, purpose: Use) -> Option<&'static str> {
    let name = name.as_str();
    if FRAMING.contains(&name) {
        return Some("belongs to the connection or the framing, which the gateway alone decides");
    }
    match purpose {
        Use::Forward | Use::Plugins if CALLERS_OWN.contains(&name) => {
            Some("may carry a caller's credential or cookie, which stays here")
        }
        Use::Forward if name == "accept-encoding" => {
            Some("is the gateway's to send: it asks for plain answers")
        }
        Use::Return if UPSTREAMS_OWN.contains(&name) => Some("is between the upstream and the gateway"),
        Use::Return if name.starts_with("access-control-") => {
            Some("is between a browser and the gateway: \"cors\" says what it is")
        }
        Use::Return if name.starts_with("x-sluice-") => Some("is the gateway's own"),
        Use::Fixed if matches!(name, "accept-encoding" | "content-type" | "x-request-id") => {
            Some("is the gateway's to send")
        }
        Use::Tag if tag_name::is_reserved(name) => Some("already means something else on an answer"),
        Use::Tag if !tag_name::is_name(name) => {
            Some("has a name that no tag can have: expected 1 to 64 of a-z 0-9 - _")
        }
        _ => None,
    }
}

impl Field<'_> {
    /// A header name in lower case that may be used so.
    pub(super) fn header_name(&self, purpose: Use) -> Option<HeaderName> {
        let text = self.text("the name of a header")?;
        let Ok(name) = HeaderName::from_bytes(text.as_bytes()) else {
            self.error("is not a valid header name");
            return None;
        };
        match refused(&name, purpose) {
            Some(why) => {
                self.error(format!("the header {why}"));
                None
            }
            None => Some(name),
        }
    }

    /// A list of header names, each once.
    pub(super) fn header_names(&self, purpose: Use) -> Vec<HeaderName> {
        let mut names = Vec::new();
        for item in self.list().unwrap_or_default() {
            match item.header_name(purpose) {
                Some(name) if names.contains(&name) => item.error("the header is in the list already"),
                Some(name) => names.push(name),
                None => {}
            }
        }
        names
    }
}
