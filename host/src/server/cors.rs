//! What a browser is told before and beside an answer, so that a page of a configured origin may call and read.
//!
//! A preflight carries no key and is answered before anybody is asked for one. Every other answer, an error too,
//! is marked here and nowhere else, so that there is one word about the origin on it, whatever an upstream said.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use crate::config::{Cors, Origins};

/// Allowed where a browser does not say which headers it wants to send.
const HEADERS: &str =
    "authorization, content-type, x-api-key, api-key, x-request-id, x-sluice-budget-ms, x-sluice-task";
/// A longer list of headers is not read.
const ASKED_MAX: usize = 4096;
/// Headers of an answer that every page may read, and those that are of no use to one.
const NOT_EXPOSED: [&str; 8] = [
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "date",
    "vary",
    "www-authenticate",
    "x-accel-buffering",
];

/// The page behind a request, if there is one.
pub(super) struct Page {
    cors: Arc<Cors>,
    /// Its origin, as it is told back; none: it may not call, or there is no page.
    allowed: Option<HeaderValue>,
}

/// Whether a browser asks if it may ask.
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    let has = |name: HeaderName| request.headers().contains_key(name);
    request.method() == Method::OPTIONS && has(ORIGIN) && has(ACCESS_CONTROL_REQUEST_METHOD)
}

impl Page {
    /// The page that a request comes from.
    pub(super) fn of<B>(cors: &Arc<Cors>, request: &Request<B>) -> Self {
        let mut origins = request.headers().get_all(ORIGIN).iter();
        let origin = origins.next().filter(|_| origins.next().is_none());
        let origin = origin.filter(|origin| cors.origins.allow(origin.as_bytes()));
        let allowed = origin.map(|origin| match cors.origins {
            Origins::Any => HeaderValue::from_static("*"),
            Origins::Listed(_) => origin.clone(),
        });
        Self { cors: cors.clone(), allowed }
    }

    /// Says on the answer to a preflight what the page may ask.
    pub(super) fn permit<B>(&self, request: &Request<B>, head: &mut HeaderMap) {
        head.append(VARY, HeaderValue::from_name(ACCESS_CONTROL_REQUEST_HEADERS));
        if !self.allow(head) {
            return;
        }
        // Any header may come: those that no list names go nowhere. A list is read as a whole or not at all.
        let asked = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS).filter(|list| are_names(list));
        head.insert(
            ACCESS_CONTROL_ALLOW_HEADERS,
            asked.cloned().unwrap_or_else(|| HeaderValue::from_static(HEADERS)),
        );
        head.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
        head.insert(ACCESS_CONTROL_MAX_AGE, self.cors.max_age.as_secs().into());
    }

    /// Says on an answer whether the page may read it, and what of its head.
    pub(super) fn mark(&self, head: &mut HeaderMap) {
        if !self.allow(head) {
            return;
        }
        let listed = self.cors.expose.to_str().unwrap_or_default();
        let is_listed = |name: &str| listed.split(", ").any(|listed| listed == name);
        let further: Vec<&str> = head
            .keys()
            .map(HeaderName::as_str)
            .filter(|name| {
                !name.starts_with("access-control-") && !NOT_EXPOSED.contains(name) && !is_listed(name)
            })
            .collect();
        let further = HeaderValue::from_str(&further.join(", ")).ok().filter(|further| !further.is_empty());
        head.insert(ACCESS_CONTROL_EXPOSE_HEADERS, self.cors.expose.clone());
        if let Some(further) = further {
            head.append(ACCESS_CONTROL_EXPOSE_HEADERS, further);
        }
    }

    /// The origin, on every answer that depends on it; false: the page may not call.
    fn allow(&self, head: &mut HeaderMap) -> bool {
        if self.cors.origins != Origins::Any {
            head.append(VARY, HeaderValue::from_name(ORIGIN));
        }
        let Some(allowed) = &self.allowed else { return false };
        head.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed.clone());
        true
    }
}

/// Whether a value is a list of header names and nothing else.
fn are_names(list: &HeaderValue) -> bool {
    let names =
        |text: &str| text.split(',').all(|name| HeaderName::from_bytes(name.trim().as_bytes()).is_ok());
    list.len() <= ASKED_MAX && list.to_str().is_ok_and(names)
}

#[cfg(test)]
mod tests;
