#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::Duration;

use super::*;

const PAGE: &str = "https://app.example";

fn cors(origins: Origins) -> Arc<Cors> {
    let expose = HeaderValue::from_static("x-request-id, x-sluice-route");
    Arc::new(Cors { origins, max_age: Duration::from_secs(600), expose })
}

fn listed() -> Arc<Cors> {
    cors(Origins::Listed(vec!["http://localhost:3000".to_owned(), PAGE.to_owned()]))
}

fn request(method: &str, headers: &[(&str, &str)]) -> Request<()> {
    let builder = Request::builder().method(method);
    headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value)).body(()).unwrap()
}

fn all<'a>(head: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    head.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

#[test]
fn a_preflight_is_one_only_as_browsers_send_it() {
    let (origin, method) = (("origin", PAGE), ("access-control-request-method", "POST"));
    for (verb, headers, is) in [
        ("OPTIONS", &[origin, method][..], true),
        ("OPTIONS", &[origin], false),
        ("OPTIONS", &[method], false),
        ("OPTIONS", &[], false),
        ("POST", &[origin, method], false),
    ] {
        assert_eq!(is_preflight(&request(verb, headers)), is, "{verb} {headers:?}");
    }
}

#[test]
fn only_a_listed_origin_is_allowed_and_only_as_it_is_written() {
    for (origin, allowed) in [
        (PAGE, true),
        ("http://localhost:3000", true),
        ("http://localhost", false),
        ("https://app.example.evil.example", false),
        ("https://app.example:443", false),
        ("http://app.example", false),
        ("https://APP.example", false),
        ("null", false),
        ("*", false),
        ("", false),
    ] {
        let mut head = HeaderMap::new();
        // Whatever an upstream said about it is not heard.
        head.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        let page = Page::of(&listed(), &request("POST", &[("origin", origin)]));
        if allowed {
            page.mark(&mut head);
            assert_eq!(all(&head, "access-control-allow-origin"), [origin]);
        }
        assert_eq!(page.allowed.is_some(), allowed, "{origin}");
    }
    let two = request("POST", &[("origin", PAGE), ("origin", PAGE)]);
    assert!(Page::of(&listed(), &two).allowed.is_none(), "two origins are none");
    assert!(Page::of(&listed(), &request("POST", &[])).allowed.is_none());
}

#[test]
fn a_preflight_names_the_headers_that_were_asked_for_if_they_are_names() {
    let long = "x".repeat(ASKED_MAX + 1);
    for (asked, echoed) in [
        (Some("authorization, content-type, x-stainless-os"), true),
        (Some("authorization,content-type"), true),
        (Some("a b"), false),
        (Some("a, , b"), false),
        (Some("a;b"), false),
        (Some(long.as_str()), false),
        (None, false),
    ] {
        let mut headers = vec![("origin", PAGE), ("access-control-request-method", "POST")];
        headers.extend(asked.map(|asked| ("access-control-request-headers", asked)));
        let request = request("OPTIONS", &headers);
        let (page, mut head) = (Page::of(&listed(), &request), HeaderMap::new());
        page.permit(&request, &mut head);
        let expected = asked.filter(|_| echoed).unwrap_or(HEADERS);
        assert_eq!(all(&head, "access-control-allow-headers"), [expected]);
        assert_eq!(all(&head, "access-control-allow-methods"), ["GET, POST"]);
        assert_eq!(all(&head, "access-control-max-age"), ["600"]);
        assert_eq!(all(&head, "vary"), ["access-control-request-headers", "origin"]);
        assert!(!head.contains_key(ACCESS_CONTROL_EXPOSE_HEADERS));
    }
}

#[test]
fn every_header_of_ours_can_be_read_also_one_that_a_plugin_wrote() {
    let mut head = HeaderMap::new();
    for name in ["content-type", "x-request-id", "x-cost", "vary"] {
        head.insert(HeaderName::from_static(name), HeaderValue::from_static("v"));
    }
    Page::of(&listed(), &request("POST", &[("origin", PAGE)])).mark(&mut head);
    assert_eq!(all(&head, "access-control-expose-headers"), ["x-request-id, x-sluice-route", "x-cost"]);
    assert_eq!(all(&head, "vary"), ["v", "origin"]);
}

#[test]
fn a_stranger_is_told_nothing_and_caches_are_told_that_it_depends() {
    let preflight = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let request = request("OPTIONS", &preflight);
    let (page, mut head) = (Page::of(&listed(), &request), HeaderMap::new());
    page.permit(&request, &mut head);
    let names: Vec<&str> = head.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["vary"]);
}

#[test]
fn any_origin_is_allowed_as_any() {
    let request = request("POST", &[("origin", "null")]);
    let (page, mut head) = (Page::of(&cors(Origins::Any), &request), HeaderMap::new());
    page.mark(&mut head);
    assert_eq!(all(&head, "access-control-allow-origin"), ["*"]);
    assert!(!head.contains_key(VARY), "the answer is the same for all");
}
