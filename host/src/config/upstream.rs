//! `upstreams`: provider accounts and their models.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::header::AUTHORIZATION;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretString;
use sluice_core::quota::Limits;

use super::checked::{BaseUrl, Capability, Credential, Gate, Model, Price, Probe, Upstream};
use super::field::{Field, Map, SOME};
use super::headers::{Use, refused};
use super::top;

/// Largest file of root certificates, bytes.
const CERTIFICATES_MAX: u64 = 4 << 20;

/// An upstream as routes look it up. Its names are known even when something else about it is wrong, so
/// that one mistake is not reported again at every route.
pub(super) struct Account {
    /// None when it had mistakes.
    pub(super) upstream: Option<Arc<Upstream>>,
    pub(super) models: BTreeMap<Arc<str>, Model>,
}

pub(super) fn read_all(field: &Field<'_>, gates: Gate) -> BTreeMap<Arc<str>, Account> {
    let mut accounts = BTreeMap::new();
    let entries = field.named();
    if entries.is_empty() && field.node().is_some_and(|node| matches!(node.kind(), "a map" | "nothing")) {
        field.error("expected at least one upstream");
    }
    for (name, entry) in entries {
        if !top::is_short_name(name) {
            field.key_error(name, "the name of an upstream is 1 to 64 characters of A-Z a-z 0-9 _ -");
        }
        let name: Arc<str> = name.into();
        let account = entry.map(|m| read(m, &name, gates));
        accounts.insert(name, account);
    }
    accounts
}

fn read(m: &Map<'_>, name: &Arc<str>, gates: Gate) -> Account {
    let base = m.require("base_url").base_url();
    m.get("protocol").choice(&[("openai", ())]);
    let credentials: Vec<Credential> =
        m.get("credentials").list().unwrap_or_default().iter().filter_map(Field::credential).collect();
    let auth_header = m.get("auth_header").header_name(Use::Fixed).unwrap_or(AUTHORIZATION);
    let region = m.get("region").text("text").map(str::to_owned);
    let attributes = attributes(&m.get("attributes"));
    let models = models(&m.require("models"), region.as_ref(), &attributes);
    let gate = Gate {
        max_in_flight: m.get("max_in_flight").count(1..=1_000_000).unwrap_or(256),
        queue: m.get("queue").count(0..=1_000_000).unwrap_or(gates.queue),
        queue_wait: m.get("queue_wait").duration(Duration::ZERO).unwrap_or(gates.queue_wait),
    };
    let headers = headers(&m.get("headers"), (!credentials.is_empty()).then_some(&auth_header));
    let pool_idle = m.get("pool_idle").duration(Duration::ZERO).unwrap_or(Duration::from_secs(15));
    let ca_file = m.get("ca_file").certificates();
    let probe = m.get("probe").map(probe);
    let quota = m.get("quota").map(|m| {
        let limit = |key| m.get(key).count(1..=1_000_000_000);
        Limits { requests: limit("requests_per_minute"), tokens: limit("tokens_per_minute") }
    });
    let upstream = base.map(|base| {
        Arc::new(Upstream {
            name: Arc::clone(name),
            base,
            credentials,
            auth_header,
            gate,
            headers,
            pool_idle,
            ca_file,
            quota: (quota != Limits::default()).then_some(quota),
            probe,
            region,
        })
    });
    Account { upstream, models }
}

fn probe(m: &Map<'_>) -> Probe {
    let active = m.get("mode").choice(&[("passive", false), ("active", true)]).unwrap_or(false);
    // Checked in either mode: a mistake should not wait for the day the mode is changed.
    let path = m.get("path");
    let text = path.text("a path that starts with \"/\"").unwrap_or("/models");
    if !text.starts_with('/') || !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        path.error("expected a path that starts with \"/\", in visible ASCII");
    }
    let interval = m.get("interval").duration(SOME).unwrap_or(Duration::from_secs(10));
    let timeout = m.get("timeout").duration(SOME).unwrap_or(Duration::from_secs(2));
    if active { Probe::Active { path: text.to_owned(), interval, timeout } } else { Probe::Passive }
}

fn models(
    field: &Field<'_>,
    region: Option<&String>,
    shared: &BTreeMap<String, String>,
) -> BTreeMap<Arc<str>, Model> {
    let entries = field.named();
    if entries.is_empty() && field.node().is_some_and(|node| matches!(node.kind(), "a map" | "nothing")) {
        field.error("expected at least one model");
    }
    let mut models = BTreeMap::new();
    for (name, entry) in entries {
        if let Some(flaw) = top::name_flaw(name) {
            field.key_error(name, format!("the name of a model {flaw}"));
        }
        let model = entry.map(|m| Model {
            context: m.get("context").count(1..=1_000_000_000),
            supports: supports(&m.get("supports")),
            price: price(&m.get("price")),
            region: m.get("region").text("text").map(str::to_owned).or_else(|| region.cloned()),
            attributes: shared.clone().into_iter().chain(self::attributes(&m.get("attributes"))).collect(),
        });
        models.insert(name.into(), model);
    }
    models
}

fn supports(field: &Field<'_>) -> Option<Vec<Capability>> {
    let words = [Capability::Tools, Capability::Images, Capability::Json]
        .map(|capability| (capability.as_str(), capability));
    let mut supports = Vec::new();
    for item in field.list()? {
        match item.choice(&words) {
            Some(capability) if supports.contains(&capability) => item.error("is in the list already"),
            Some(capability) => supports.push(capability),
            None => {}
        }
    }
    Some(supports)
}

fn price(field: &Field<'_>) -> Option<Price> {
    if field.node().is_none_or(super::tree::Node::is_null) {
        return None;
    }
    field.map(|m| {
        let of = |key| m.require(key).decimal(0.0..=1_000_000.0);
        let (input, output) = (of("input"), of("output"));
        Some(Price { input: input?, output: output? })
    })
}

fn attributes(field: &Field<'_>) -> BTreeMap<String, String> {
    let entries = field.named().into_iter();
    entries
        .filter_map(|(name, entry)| {
            Some((name.to_owned(), entry.text("text (in quotes if it looks like a number)")?.to_owned()))
        })
        .collect()
}

fn headers(field: &Field<'_>, key_header: Option<&HeaderName>) -> Vec<(HeaderName, SecretString)> {
    let mut headers: Vec<(HeaderName, SecretString)> = Vec::new();
    for (text, entry) in field.named() {
        let Ok(name) = HeaderName::from_bytes(text.as_bytes()) else {
            field.key_error(text, "a key here is not a valid header name");
            continue;
        };
        if let Some(why) = refused(&name, Use::Fixed) {
            field.key_error(text, format!("the header {name} {why}"));
        } else if key_header == Some(&name) {
            field.key_error(
                text,
                format!("the header {name} already carries the credential of this upstream"),
            );
        } else if headers.iter().any(|(other, _)| *other == name) {
            field.key_error(text, format!("the header {name} is there already, in other letters"));
        } else if let Some(value) = entry.header_value() {
            headers.push((name, value));
        }
    }
    headers
}

impl Field<'_> {
    pub(super) fn base_url(&self) -> Option<BaseUrl> {
        let text = self.text("an http:// or https:// URL")?;
        parse_url(text).map_err(|why| self.error(why)).ok()
    }

    /// A file of PEM certificates that can be read and holds at least one.
    fn certificates(&self) -> Option<std::path::PathBuf> {
        let path = self.path()?;
        certificates_in(self.cx.read(&path, CERTIFICATES_MAX)).map_err(|why| self.error(why)).ok()?;
        Some(path)
    }
}

/// Takes a base URL apart; the error never repeats it, since a user part or a query may be a secret.
fn parse_url(text: &str) -> Result<BaseUrl, &'static str> {
    if text.contains('#') {
        return Err("a base URL has no fragment (\"#…\")");
    }
    // The URI type takes other letters in a path; upstreams would not agree on their bytes.
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("is not a valid URL: visible ASCII only, the rest percent-encoded");
    }
    let uri: http::Uri = text.parse().map_err(|_| "is not a valid URL")?;
    let tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err("expected an http:// or https:// URL"),
    };
    let authority = uri.authority().cloned().ok_or("the URL has no host")?;
    if authority.as_str().contains('@') {
        return Err("a base URL has no user or password; credentials go into \"credentials\"");
    }
    let port_text = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    if authority.host().is_empty()
        || (!port_text.is_empty() && authority.port_u16().is_none_or(|port| port == 0))
    {
        return Err("the host or port of the URL is not valid");
    }
    let path = uri.path().trim_end_matches('/').to_owned();
    let query = uri.query().filter(|query| !query.is_empty()).map(str::to_owned);
    Ok(BaseUrl { tls, authority, path, query })
}

fn certificates_in(pem: Result<Vec<u8>, String>) -> Result<(), String> {
    let pem = pem.map_err(|text| format!("the file {text}"))?;
    let found: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(()),
        Ok(_) => Err("the file holds no PEM certificate".to_owned()),
        Err(_) => Err("the file holds a PEM section that is not valid".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_url;

    #[test]
    fn a_base_url_is_taken_apart_once() {
        for (text, tls, authority, path, query) in [
            ("https://api.example.com/v1", true, "api.example.com", "/v1", None),
            ("http://127.0.0.1:8000/v1/", false, "127.0.0.1:8000", "/v1", None),
            ("http://[::1]:8000", false, "[::1]:8000", "", None),
            ("http://[::1]", false, "[::1]", "", None),
            ("https://h/openai/?api-version=1&x=", true, "h", "/openai", Some("api-version=1&x=")),
            ("https://h?", true, "h", "", None),
        ] {
            let base = parse_url(text).unwrap_or_else(|why| unreachable!("{text}: {why}"));
            assert_eq!((base.tls, base.authority.as_str()), (tls, authority), "{text}");
            assert_eq!((base.path.as_str(), base.query.as_deref()), (path, query), "{text}");
        }
    }

    #[test]
    fn a_url_that_could_mislead_is_refused() {
        for text in [
            "",
            "/v1",
            "api.example.com/v1",
            "ftp://h/",
            "https://",
            "https:///v1",
            "https://u@h/",
            "https://u:p@h/",
            "https://h/#f",
            "https://h:0/",
            "https://h:99999/",
            "https://h:/",
            "https://h /",
            "https://h/\u{fc}",
        ] {
            assert!(parse_url(text).is_err(), "{text}");
        }
    }
}
