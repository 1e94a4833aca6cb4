//! `cors`: pages of which origins may call, spelled as browsers spell them.

use std::time::Duration;

use http::HeaderValue;
use http::uri::Authority;

use super::checked::Tags;
use super::field::{Field, Map};
use super::top::TAG_NAMES;

/// Headers of an answer that pages may read beside the tags and what is passed back.
const EXPOSED: [&str; 9] = [
    "x-request-id",
    "retry-after",
    "x-should-retry",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
];

/// Who may call from a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// From where.
    pub origins: Origins,
    /// For how long a browser may go by one answer.
    pub max_age: Duration,
    /// Names of the headers that pages may read, as the list of a header.
    pub expose: HeaderValue,
}

/// `cors.origins`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// `*`.
    Any,
    /// These, in the spelling of the `origin` header.
    Listed(Vec<String>),
}

impl Origins {
    /// Whether pages of this origin may call.
    #[must_use]
    pub fn allow(&self, origin: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(origins) => origins.iter().any(|listed| listed.as_bytes() == origin),
        }
    }
}

/// None: nobody may, which is also what an empty section and an empty list say.
pub(super) fn read(field: &Field<'_>, tags: &Tags, returned: &[http::HeaderName]) -> Option<Cors> {
    let (listed, max_age) = field.map(|m: &Map<'_>| {
        let max_age = m.get("max_age").duration(Duration::ZERO).unwrap_or(Duration::from_secs(600));
        let origins = m.get("origins");
        if m.get("max_age").is_set() && !origins.is_set() {
            m.needs("missing key \"origins\"");
        }
        (if origins.is_set() { origins_of(&origins) } else { None }, max_age)
    });
    let origins = listed?;
    let named = TAG_NAMES.iter().filter_map(|(short, default)| match tags.names.get(*short) {
        Some(name) => name.as_deref(),
        None => Some(*default),
    });
    let names: Vec<&str> =
        EXPOSED.into_iter().chain(named).chain(returned.iter().map(http::HeaderName::as_str)).collect();
    // Header names are fit for a header value.
    let expose = HeaderValue::from_str(&names.join(", ")).ok()?;
    Some(Cors { origins, max_age, expose })
}

fn origins_of(field: &Field<'_>) -> Option<Origins> {
    let items = field.list()?;
    if let Some(any) = items.iter().find(|item| item.maybe_text() == Some("*")) {
        if items.len() > 1 {
            any.error("\"*\" allows every origin; it stands alone");
        }
        return Some(Origins::Any);
    }
    let mut origins = Vec::new();
    for item in items {
        match item.text(EXPECTED).map(origin) {
            Some(Ok(origin)) if origins.contains(&origin) => item.error("the origin is in the list already"),
            Some(Ok(origin)) => origins.push(origin),
            Some(Err(why)) => item.error(why),
            None => {}
        }
    }
    (!origins.is_empty()).then_some(Origins::Listed(origins))
}

const EXPECTED: &str = "an origin such as https://app.example or http://localhost:3000, or \"*\"";

/// The origin as browsers write it: in lower case, without the port that its scheme has anyway.
fn origin(text: &str) -> Result<String, String> {
    if text == "null" {
        return Err("\"null\" is the origin of any page that hides its own; it cannot be allowed".to_owned());
    }
    let Some((scheme, rest)) = text.split_once("://") else { return Err(format!("expected {EXPECTED}")) };
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(letters) {
        return Err(format!("expected {EXPECTED}"));
    }
    if rest.contains(['/', '?', '#']) {
        return Err("an origin ends with its host or port: no path, and no / at its end".to_owned());
    }
    if rest.contains('@') {
        return Err("an origin names no user".to_owned());
    }
    if rest.contains('*') {
        return Err("an origin is one host; \"*\" alone allows all of them".to_owned());
    }
    let authority: Authority = match rest.parse() {
        Ok(authority) if rest.is_ascii() => authority,
        _ => return Err(format!("expected {EXPECTED}; a host beyond ASCII in its xn-- form")),
    };
    let (scheme, host) = (scheme.to_ascii_lowercase(), authority.host().to_ascii_lowercase());
    let port = match &rest[authority.host().len()..] {
        "" => None,
        port => match port
            .strip_prefix(':')
            .filter(|port| !port.starts_with('+'))
            .and_then(|port| port.parse::<u16>().ok())
        {
            Some(port) => Some(port),
            None => return Err("expected a port from 0 to 65535 after the host".to_owned()),
        },
    };
    let usual = match scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    Ok(match port.filter(|port| Some(*port) != usual) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    })
}
