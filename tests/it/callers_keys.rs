//! Who may call: keys, routes, and what is told to those who may not.

use crate::expect::has;
use harness::client::fetch;
use harness::prelude::*;
use harness::setup::{caller_key, key_of};

/// A caller who may do everything, and one for two of the routes.
fn keys() -> Setup {
    Setup::new().caller("ops", json!({})).caller("web", json!({"routes": ["solo", "other"]})).calls_as("ops")
}

/// A GET with a key, or without one.
async fn get(x: &Case, path: &str, key: Option<&str>) -> Response {
    let key = key.map_or_else(String::new, |key| format!("authorization: Bearer {key}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nhost: sluice\r\nconnection: close\r\n{key}\r\n");
    fetch(x.gateway.addr(), request.as_bytes()).await
}

fn listed(response: &Response) -> Vec<String> {
    let page: Value = serde_json::from_slice(&response.body).expect("a list of models");
    let names = page["data"].as_array().expect("a list").iter();
    names.map(|model| model["id"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn a_call_without_a_key_that_is_known_gets_nowhere() {
    let x = keys().start().await;
    let (good, cut) = (caller_key("ops"), caller_key("ops")[..20].to_owned());
    let refused = [
        x.call("chat").key(None),
        x.call("chat").key("sk-wrong"),
        x.call("chat").key(cut.as_str()),
        x.call("chat").key(""),
        x.call("chat").key(None).header("authorization", &format!("Basic {good}")),
        x.call("chat").key("sk-wrong").header("x-api-key", &good),
        x.call("chat").key(None).header("x-api-key", "sk-wrong"),
        // The key comes before everything else that is wrong with a request.
        x.call("no such model").key("sk-wrong"),
        x.call("chat").key("sk-wrong").body("{"),
        x.call("chat").key("x".repeat(20_000).as_str()),
    ];
    let count = refused.len();
    for call in refused {
        let r = call.await;
        r.refused(401, "invalid_api_key");
        assert_eq!(r.error()["type"], "authentication_error");
        assert_eq!(r.header("www-authenticate"), Some("Bearer"));
        assert!(!String::from_utf8_lossy(&r.raw).contains("sk-"), "a key is told back: {r:?}");
        has(
            &x.record(&r).await,
            &json!({"caller": null, "outcome": "denied", "status_code": 401, "attempts": []}),
        );
    }
    x.outcome("denied", count).await;
    x.calls([0, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_large_body_behind_a_wrong_key_is_not_waited_for() {
    let x = keys().start().await;
    let call = x.call("chat").key("sk-wrong").body(vec![b' '; 8 << 20]);
    let mut client = x.connect().await;
    let bytes = call.bytes();
    client.send(&bytes[..64 << 10]).await;
    client.head().await;
    let r = client.finish().await;
    r.refused(401, "invalid_api_key");
    assert!(r.took() < x.t(ms(1000)), "{r:?}");
    x.calls([0, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_known_key_is_taken_from_every_usual_header_and_goes_no_further() {
    let x = keys().start().await;
    let key = caller_key("web");
    for call in [
        x.call("solo").key(key.as_str()),
        x.call("solo").key(None).header("authorization", &format!("bearer {key}")),
        x.call("solo").key(None).header("x-api-key", &key),
        x.plain("solo").key(None).header("api-key", &key),
    ] {
        let r = call.await;
        r.answered().tags("A/a1", false);
        has(&x.record(&r).await, &json!({"caller": "web", "outcome": "success"}));
        let seen = x.a.attempts().pop().expect("an attempt");
        assert_eq!(seen.header("authorization"), Some(format!("Bearer {}", key_of("A")).as_str()));
        assert!(seen.headers().all(|(_, value)| !value.contains(&key)), "the caller's key went upstream");
    }
    x.end().await;
}

#[tokio::test]
async fn a_hash_in_the_file_is_as_good_as_the_key() {
    // printf %s hashed-caller-key-0123456789 | sha256sum
    let hash = "05ddad9af32bb6e359a6c4f9fae7a09cf31262dc47b0e0e9d65067190dad7b3d";
    let caller = json!([{"name": "hashed", "key_sha256": hash}]);
    let setup = Setup::new().set("/callers", caller).caller("ops", json!({})).calls_as("ops");
    let x = setup.start().await;
    let r = x.call("solo").key("hashed-caller-key-0123456789").await;
    r.answered();
    has(&x.record(&r).await, &json!({"caller": "hashed"}));
    x.call("solo").key(hash).await.refused(401, "invalid_api_key");
    x.end().await;
}

#[tokio::test]
async fn a_key_opens_only_its_routes_and_models_are_listed_accordingly() {
    let x = keys().start().await;
    let key = caller_key("web");
    let r = x.call("chat").key(key.as_str()).await;
    r.refused(403, "route_not_allowed");
    assert_eq!((&r.error()["type"], &r.error()["param"]), (&json!("permission_error"), &json!("model")));
    has(&x.record(&r).await, &json!({"caller": "web", "model": "chat", "outcome": "denied", "attempts": []}));
    x.call("no such model").key(key.as_str()).await.refused(404, "model_not_found");
    x.calls([0, 0, 0]);
    assert_eq!(listed(&get(&x, "/v1/models", Some(&key)).await), ["other", "solo"]);
    assert_eq!(
        listed(&get(&x, "/v1/models", Some(&caller_key("ops"))).await),
        ["chat", "chat3", "other", "solo"]
    );
    assert_eq!(get(&x, "/v1/models/solo", Some(&key)).await.status, 200);
    get(&x, "/v1/models/chat", Some(&key)).await.refused(404, "model_not_found");
    for path in ["/v1/models", "/v1/models/solo"] {
        for wrong in [None, Some("sk-wrong")] {
            let r = get(&x, path, wrong).await;
            r.refused(401, "invalid_api_key");
            assert_eq!(r.header("www-authenticate"), Some("Bearer"));
        }
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(get(&x, path, None).await.status, 200, "{path} asks for a key");
    }
    x.end().await;
}

#[tokio::test]
async fn without_callers_nobody_is_asked() {
    let x = Setup::new().start().await;
    let r = x.call("solo").key("whatever").await;
    r.answered();
    has(&x.record(&r).await, &json!({"caller": null}));
    assert!(r.header("x-ratelimit-limit-requests").is_none());
    assert_eq!(listed(&get(&x, "/v1/models", None).await).len(), 4);
    x.end().await;
}

#[tokio::test]
async fn beyond_this_machine_keys_or_a_word_are_needed() {
    let open = || Setup::new().set("/listen", "0.0.0.0:0");
    let refused = open().try_start().await.err().expect("it must not start");
    assert_eq!(refused.code, Some(2), "{}", refused.log);
    assert!(refused.log.contains("listen: listens beyond this machine"), "{}", refused.log);
    open().set("/allow_anonymous", true).start().await;
    open().caller("ops", json!({})).start().await;
}
