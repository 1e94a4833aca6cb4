#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn a_key_is_read_from_the_first_header_that_is_there_and_from_no_other() {
    let bearer = ("authorization", "Bearer k1");
    for (headers, key) in [
        (&[bearer][..], "k1"),
        (&[("authorization", "bEARER   k1 ")], "k1"),
        (&[("authorization", "Bearer k 1")], "k 1"),
        (&[("x-api-key", "k1")], "k1"),
        (&[("api-key", " k1 ")], "k1"),
        (&[("api-key", "k3"), ("x-api-key", "k2"), bearer], "k1"),
        (&[("api-key", "k3"), ("x-api-key", "k2")], "k2"),
        // What is there and cannot be read is not made good by another.
        (&[("authorization", "Basic azE6"), ("x-api-key", "k1")], ""),
        (&[("authorization", "k1")], ""),
        (&[("authorization", "Bearer")], ""),
        (&[("authorization", "Bearer ")], ""),
        (&[("authorization", "Bearerk1")], ""),
        (&[("authorization", "")], ""),
        (&[bearer, bearer], ""),
        (&[bearer, ("authorization", "Bearer k2")], ""),
        (&[("x-api-key", "k1"), ("x-api-key", "k2")], ""),
        (&[("cookie", "k1")], ""),
        (&[], ""),
    ] {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        assert_eq!(presented(&map), key.as_bytes(), "{headers:?}");
    }
}

#[test]
fn a_hash_is_of_its_key_alone() {
    let hash = KeyHash::of(b"k1");
    assert!(hash.is(&KeyHash::of(b"k1")) && !hash.is(&KeyHash::of(b"k2")) && !hash.is(&KeyHash::of(b"")));
    assert_eq!(format!("{hash:?}"), "KeyHash");
}
