//! Several plugins of a kind, their weights, and routes that name their own.

use crate::expect::has;
use crate::guests::{entry, guest, policy, put, take_out};
use harness::prelude::*;

fn several() -> Setup {
    let plugins = json!({
        "dir": "./plugins.d", "settle": "50ms", "rescan": "1s", "deadline": "150ms", "headers": ["x-trap-tagger"],
    });
    Setup::new().set("/plugins", plugins).wide_gates()
}

fn asked(r: &Response, kind: &str) -> Vec<String> {
    policy(r).1.into_iter().filter(|(of, ..)| of == kind).map(|(_, name, _)| name).collect()
}

fn upstream(r: &Response) -> &str {
    r.header("x-sluice-upstream").unwrap_or_default()
}

#[tokio::test]
async fn scores_are_weighed_by_sidecars_and_shown_for_each_router() {
    let bundled = std::fs::read("../plugins/weighted-router/weighted-router.wasm").expect("a built plugin");
    let x = several()
        .file("plugins.d/back.wasm", guest("reverse-router"))
        .file("plugins.d/front.wasm", bundled)
        .file("plugins.d/front.yaml", "weight: 3\nsettings: { mode: priority }\n")
        .start()
        .await;
    let r = x.plain("chat").await;
    assert_eq!((upstream(&r), asked(&r, "router")), ("A", vec!["back".to_owned(), "front".to_owned()]));
    put(&x, "back.yaml", b"weight: 9\n");
    let page = x.poll(harness::PATIENCE, async || entry(&x, "back").await["weight"] == 9.0).await;
    assert!(page, "{:#}", entry(&x, "back").await);
    let served = x.poll(harness::PATIENCE, async || upstream(&x.plain("chat").await) == "B").await;
    assert!(served, "the heavier router decides");
    let r = x.plain("chat").await;
    let record = x.record(&r).await;
    let page =
        x.gateway.admin_json(&format!("/debug/decisions?request_id={}", r.request_id().unwrap())).await;
    let scores = page["decisions"][0]["scores"].as_array().expect("a list of scores");
    let score = |router: &str, target: &str| {
        let row = scores.iter().find(|row| row["router"] == router && row["target"] == target);
        row.and_then(|row| row["score"].as_f64())
            .unwrap_or_else(|| panic!("no {router} of {target}: {page:#}"))
    };
    assert_eq!(scores.len(), 4, "{page:#}");
    for (at, target) in ["A/a1", "B/b1"].into_iter().enumerate() {
        let sum = 9.0 * score("back", target) + 3.0 * score("front", target);
        let written = record["decision"][at]["score"].as_f64().expect("a score");
        assert!((sum - written).abs() < 1e-9, "{target}: {sum} and {written}");
    }
    assert_eq!(scores[0]["reason"], "place 0 from the end");
    x.end().await;
}

#[tokio::test]
async fn a_route_asks_those_it_names_and_the_others_whoever_is_there() {
    let x = several()
        .file("plugins.d/back.wasm", guest("reverse-router"))
        .file("plugins.d/note.wasm", guest("note-tagger"))
        .file("plugins.d/soft.wasm", guest("soft-classifier"))
        .set(
            "/routes/chat/plugins",
            json!({"routers": [], "taggers": ["standard-tagger", "note"], "classifiers": []}),
        )
        .set(
            "/routes/chat3/plugins",
            json!({"routers": ["back", "weighted-router"], "taggers": ["standard-tagger"]}),
        )
        .set("/routes/free", json!({"targets": ["A/a1", "B/b1"]}))
        .set("/routes/named", json!({"targets": ["A/a1", "B/b1"], "plugins": {"routers": [], "classifiers": ["soft"]}}))
        .set(
            "/routes/turned",
            json!({"targets": ["A/a1", "B/b1"], "plugins": {"routers": [], "classifiers": ["standard-classifier", "soft"]}}),
        )
        .start()
        .await;
    let r = x.plain("chat").await;
    r.answered().tags("A/a1", false);
    assert_eq!(r.header("x-note"), Some("written by a plugin"), "both taggers");
    assert_eq!(asked(&r, "router"), ["weighted-router"]);
    assert_eq!(asked(&r, "tagger"), ["standard-tagger", "note"]);
    let r = x.plain("chat3").await;
    assert_eq!(
        (r.header("x-note"), asked(&r, "router")),
        (None, vec!["back".to_owned(), "weighted-router".to_owned()])
    );
    let r = x.plain("free").await;
    let record = x.record(&r).await;
    has(&record["plugins"], &json!([{"name": "back"}, {"name": "note"}]));
    assert_eq!(record["upstream"], "B", "all of the folder, and no bundled one");
    x.a.play(STATUS(503));
    let r = x.plain("chat").await;
    assert_eq!((upstream(&r), asked(&r, "classifier")), ("B", vec!["standard-classifier".to_owned()]));
    // The bundled one is asked last where nobody puts it first, and it always has an opinion.
    for (route, classifiers) in
        [("named", &["soft", "standard-classifier"][..]), ("turned", &["standard-classifier"])]
    {
        let r = x.plain(route).await;
        let record = x.record(&r).await;
        let names =
            record["plugins"].as_array().expect("plugins").iter().filter(|of| of["kind"] == "classifier");
        let names: Vec<_> = names.map(|of| of["name"].as_str().expect("a name")).collect();
        assert_eq!(
            (record["upstream"].as_str(), names.as_slice()),
            (Some("B"), classifiers),
            "{route}: {record}"
        );
    }
    x.end().await;
}

#[tokio::test]
async fn what_a_router_excludes_after_a_failure_is_not_tried_even_when_it_alone_is_left() {
    let x = several()
        .set("/plugins/headers", json!(["x-exclude", "x-exclude-later"]))
        .file("plugins.d/exclude.wasm", guest("exclude-router"))
        .start()
        .await;
    let call = || x.plain("chat3").header("x-exclude", "nobody").header("x-exclude-later", "B/b1");
    x.a.play(STATUS(503));
    call().await.answered().tags("C/c1", true).attempts(2);
    x.c.play(STATUS(503));
    call().await.refused(503, "retryable_upstream").attempts(2);
    x.calls([2, 0, 2]);
    // It excludes everything for whoever says nothing.
    take_out(&x, "exclude.wasm");
    let gone = x.poll(harness::PATIENCE, async || x.plain("chat").await.status == 200);
    assert!(gone.await, "the router still runs: {}", x.gateway.log());
    x.end().await;
}

#[tokio::test]
async fn a_plugin_that_a_route_names_and_that_goes_away_is_replaced_with_one_line() {
    let x = several()
        .file("plugins.d/back.wasm", guest("reverse-router"))
        .set("/routes/chat/plugins", json!({"routers": ["back"]}))
        .start()
        .await;
    assert_eq!(upstream(&x.plain("chat").await), "B");
    take_out(&x, "back.wasm");
    let fell_back = x.poll(harness::PATIENCE, async || upstream(&x.plain("chat").await) == "A").await;
    assert!(fell_back, "{}", x.gateway.log());
    for n in 0..2 {
        // Each is a generation of its own.
        put(&x, &format!("soft-{n}.wasm"), &guest("soft-classifier"));
        x.gateway.wait_for_event("plugin_loaded", |event| event["plugin"] == format!("soft-{n}")).await;
    }
    let lines = |text: &str| x.gateway.log().lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines("asks for the router"), 1, "{}", x.gateway.log());
    put(&x, "back.wasm", &guest("reverse-router"));
    assert!(x.poll(harness::PATIENCE, async || upstream(&x.plain("chat").await) == "B").await);
    assert_eq!(lines("asks for the router"), 1);
    x.end().await;
}

#[tokio::test]
async fn a_name_of_no_plugin_is_a_mistake_of_the_configuration() {
    let refused = several()
        .file("plugins.d/back.wasm", guest("reverse-router"))
        .set("/routes/chat/plugins", json!({"routers": ["bakc"]}))
        .try_start()
        .await;
    let Err(refused) = refused else { panic!("it started") };
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.log.contains("routes.chat.plugins.routers[0]: there is no plugin of this name in the plugins folder; did you mean \"back\"?"),
        "{}",
        refused.log
    );
}

#[tokio::test]
async fn a_plugin_that_is_to_deny_and_does_not_run_spares_the_routes_that_never_ask_it() {
    let own = json!({"routers": [], "classifiers": [], "taggers": []});
    let x = several()
        .file("plugins.d/guard.wasm", guest("trap-configure"))
        .file("plugins.d/guard.yaml", "on_error: deny\n")
        .set("/routes/solo/plugins", own)
        .set("/routes/other/plugins", json!({"routers": [], "classifiers": []}))
        .start()
        .await;
    x.plain("solo").await.answered().tags("A/a1", false);
    // It may be a tagger: nobody knows what never ran.
    for route in ["chat", "other"] {
        x.plain(route).await.refused(503, "plugin_denied");
    }
    let readyz = x.get("/readyz").await;
    assert_eq!(readyz.status, 200, "one route can take a call");
    has(&readyz.json(), &json!({"reason": null, "routes": {"chat": 0, "other": 0, "solo": 1}}));
    take_out(&x, "guard.wasm");
    let free = x.poll(harness::PATIENCE, async || x.plain("chat").await.status == 200).await;
    assert!(free, "what is not in the folder denies nothing: {}", x.gateway.log());
    x.end().await;
}
