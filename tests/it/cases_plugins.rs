//! Worked cases of plugins: one that never returns, what a failing one does, new ones that are no good.

use crate::expect::{LATE, has, together};
use crate::guests::{entry, generation, guest, policy, put};
use crate::running::start;
use harness::prelude::*;

const DENY: &str = "on_error: deny\n";

fn with(headers: &[&str]) -> Setup {
    let plugins = json!({
        "dir": "./plugins.d", "settle": "50ms", "rescan": "1s", "deadline": "150ms", "concurrency": 8, "headers": headers,
    });
    Setup::new().set("/plugins", plugins).wide_gates()
}

async fn calls_of(x: &Case, plugin: &str, result: &str) -> f64 {
    x.metric("sluice_plugin_calls_total", &[("plugin", plugin), ("result", result)]).await
}

fn of_the_bundled_router(r: &Response) -> bool {
    policy(r).1.iter().any(|(kind, name, _)| kind == "router" && name == "weighted-router")
}

fn percentile(times: &mut [std::time::Duration], share: usize) -> std::time::Duration {
    times.sort();
    times[(times.len() - 1) * share / 100]
}

async fn latencies(x: &Case, count: usize, times: &mut Vec<std::time::Duration>) {
    for _ in 0..count {
        let began = now();
        x.plain("chat").await.answered().tags("A/a1", false);
        times.push(now() - began);
        tokio::time::sleep(ms(50).saturating_sub(now() - began)).await;
    }
}

#[tokio::test]
async fn b092_a_plugin_that_never_returns() {
    let x = with(&["x-loop"])
        .set("/plugins/deadline", "20ms")
        .env("TOKIO_WORKER_THREADS", "2")
        .file("plugins.d/looping.wasm", guest("looping-router"))
        .start()
        .await;
    let mut usual = Vec::new();
    latencies(&x, 10, &mut usual).await;
    let looping: Vec<_> = (0..64).map(|_| start(x.plain("chat").header("x-loop", "1"))).collect();
    let mut beside = Vec::new();
    for _ in 0..10 {
        latencies(&x, 2, &mut beside).await;
        assert_eq!(x.get("/readyz").await.status, 200);
    }
    for call in looping {
        let r = call.answer().await;
        r.answered().tags("A/a1", false);
        assert!(of_the_bundled_router(&r), "{r:?}");
    }
    let (usual, slow) = (percentile(&mut usual, 50), percentile(&mut beside, 99));
    assert!(slow < usual + ms(100) + LATE, "normal calls took {slow:?}, {usual:?} before");
    let cut = calls_of(&x, "looping", "timeout").await;
    assert!((3.0..=64.0).contains(&cut), "{cut} calls were cut");
    let (full, spared) =
        (calls_of(&x, "looping", "saturated").await, calls_of(&x, "looping", "set_aside").await);
    assert!(cut + full + spared >= 64.0, "{cut} cut, {full} without a place, {spared} spared");
    // Calls beside them that it answered well may have been between its failures; now there are none.
    for _ in 0..5 {
        x.plain("chat").header("x-loop", "1").await.answered();
    }
    x.gateway.wait_for_event("plugin_set_aside", |_| true).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn b092_a_plugin_that_never_returns_and_is_to_deny() {
    let x = with(&["x-loop"])
        .set("/plugins/deadline", "20ms")
        .env("TOKIO_WORKER_THREADS", "2")
        .file("plugins.d/looping.wasm", guest("looping-router"))
        .file("plugins.d/looping.yaml", DENY)
        .start()
        .await;
    let looping = together((0..64).map(|_| x.plain("chat").header("x-loop", "1").into_future())).await;
    for r in &looping {
        r.refused(503, "plugin_denied");
    }
    x.calls([0, 0, 0]);
    let (cut, full) = (calls_of(&x, "looping", "timeout").await, calls_of(&x, "looping", "saturated").await);
    assert!(cut >= 3.0 && (cut + full - 64.0).abs() < 0.5, "{cut} were cut, {full} had no place");
    x.outcome("denied", 64).await;
    has(&x.record(&looping[0]).await, &json!({"outcome": "denied", "status_code": 503, "attempts": []}));
    has(&entry(&x, "looping").await, &json!({"state": "active", "on_error": "deny", "instances": "fresh"}));
    for target in ["A/a1", "B/b1"] {
        x.breaker_is(target, "closed", 0).await;
    }
    x.plain("chat").await.answered().tags("A/a1", false);
    x.end().await;
}

/// `count` calls, eight at a time: as many as may run of one plugin.
async fn many(x: &Case, count: usize, call: impl Fn() -> harness::call::Call) -> Vec<Response> {
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let batch = (0..8.min(count - all.len())).map(|_| call().into_future());
        all.extend(together(batch).await);
    }
    assert_eq!(x.get("/readyz").await.status, 200);
    all
}

#[tokio::test]
async fn b095_what_a_failing_plugin_does_is_its_operators_choice() {
    let x = with(&["x-trap", "x-trap-classifier", "x-trap-tagger"])
        .set("/breaker/consecutive", 1_000_000)
        .file("plugins.d/strict.wasm", guest("hostile-router"))
        .file("plugins.d/strict.yaml", DENY)
        .file("plugins.d/soft.wasm", guest("soft-classifier"))
        .file("plugins.d/note.wasm", guest("note-tagger"))
        .start()
        .await;
    for r in many(&x, 500, || x.plain("chat").header("x-trap", "1")).await {
        r.refused(503, "plugin_denied");
    }
    x.calls([0, 0, 0]);
    x.metric_becomes("sluice_plugin_calls_total", &[("plugin", "strict"), ("result", "trap")], 500.0).await;
    has(&entry(&x, "strict").await, &json!({"state": "active", "failures": {"trap": 500}}));
    for target in ["A/a1", "B/b1"] {
        x.breaker_is(target, "closed", 0).await;
    }

    x.a.play(STATUS(503));
    let answers = many(&x, 500, || x.plain("chat").header("x-trap-classifier", "1")).await;
    for r in &answers {
        // There is a tagger in the folder, which writes nothing of the host's.
        r.answered();
        assert_eq!(r.json()["model"], "b1", "{r:?}");
    }
    has(&x.record(&answers[499]).await, &json!({"failure_kind": "retryable_upstream"}));
    let page = x.gateway.admin_json("/debug/decisions").await;
    has(&page["decisions"][0]["verdicts"][0], &json!({"plugin": "standard-classifier"}));
    x.a.healthy();
    let (traps, spared) = (calls_of(&x, "soft", "trap").await, calls_of(&x, "soft", "set_aside").await);
    assert!(
        (5.0..50.0).contains(&traps) && (traps + spared - 500.0).abs() < 0.5,
        "{traps} traps, {spared} spared"
    );

    for r in many(&x, 500, || x.plain("chat").header("x-trap-tagger", "1")).await {
        r.answered().tags("A/a1", false);
        assert_eq!(r.header("x-note"), None, "{r:?}");
    }
    // Once for the head and once for the record of each.
    let asked = x
        .poll(harness::PATIENCE, async || {
            let (traps, spared) =
                (calls_of(&x, "note", "trap").await, calls_of(&x, "note", "set_aside").await);
            let before = calls_of(&x, "note", "ok").await;
            (5.0..100.0).contains(&traps) && (traps + spared - 1000.0).abs() < 0.5 && before >= 1000.0
        })
        .await;
    assert!(asked, "{:#?}", entry(&x, "note").await);
    let set_aside = x.gateway.events("plugin_set_aside");
    assert!(["soft", "note"].iter().all(|name| set_aside.iter().any(|event| event["plugin"] == *name)));
    assert!(
        set_aside.iter().all(|event| event["plugin"] != "strict"),
        "a plugin that denies is never set aside"
    );
    x.end().await;
}

#[tokio::test]
async fn b095_a_tagger_that_is_to_deny_takes_the_answer_back_and_blames_nobody() {
    let x = with(&["x-trap-tagger"])
        .file("plugins.d/note.wasm", guest("note-tagger"))
        .file("plugins.d/note.yaml", DENY)
        .start()
        .await;
    for call in [x.call("chat"), x.plain("chat")] {
        let r = call.header("x-trap-tagger", "1").await;
        r.refused(503, "plugin_denied").route_tags(false);
        has(&x.record(&r).await, &json!({"outcome": "denied", "status_code": 503}));
    }
    // Asked once for each: no second time about the refusal, none about its record.
    x.metric_becomes("sluice_plugin_calls_total", &[("plugin", "note"), ("result", "trap")], 2.0).await;
    x.breaker_is("A/a1", "closed", 0).await;
    let r = x.plain("chat").await;
    r.answered();
    assert_eq!(r.header("x-note"), Some("written by a plugin"));
    x.end().await;
}

#[tokio::test]
async fn b095_a_classifier_that_is_to_deny_ends_the_call_and_blames_nobody() {
    let x = with(&["x-trap-classifier"])
        .file("plugins.d/soft.wasm", guest("soft-classifier"))
        .file("plugins.d/soft.yaml", DENY)
        .start()
        .await;
    x.a.play(STATUS(503));
    x.plain("chat").header("x-trap-classifier", "1").await.refused(503, "plugin_denied");
    x.calls([1, 0, 0]);
    x.breaker_is("A/a1", "closed", 0).await;
    x.plain("chat").await.answered().tags("B/b1", true);
    x.end().await;
}

#[tokio::test]
async fn b096_a_new_module_that_is_no_good() {
    let x = with(&[]).file("plugins.d/r.wasm", guest("reverse-router")).start().await;
    let noise: Vec<u8> = (0..10_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let table = [
        (noise, "magic"),
        (guest("wrong-world"), "contract"),
        (guest("wrong-shape"), "contract"),
        (guest("extra-import"), "import"),
        (guest("big-memory"), "resources"),
        (guest("loop-start"), "instantiate"),
        (guest("error-configure"), "configure"),
        ([b"\0asm\x0d\0\x01\0".as_slice(), &[0; 100 << 20]].concat(), "size"),
    ];
    let before = generation(&x).await;
    for (n, (bytes, reason)) in table.iter().enumerate() {
        put(&x, "r.wasm", bytes);
        let began = now();
        x.gateway.wait_for_event("plugin_rejected", |event| event["reason"] == *reason).await;
        let rejected =
            x.poll(harness::PATIENCE, async || x.gateway.events("plugin_rejected").len() > n).await;
        let took = now() - began;
        assert!(rejected && took < ms(1000) + 4 * LATE, "{reason}: {took:?}\n{}", x.gateway.log());
        has(&x.gateway.events("plugin_rejected")[n], &json!({"plugin": "r", "reason": reason}));
        has(&entry(&x, "r").await, &json!({"state": "last_good", "rejection": {"reason": reason}}));
        let r = x.plain("chat").await;
        r.answered();
        assert_eq!(r.header("x-sluice-upstream"), Some("B"), "the good one prefers the last: {r:?}");
        assert_eq!(x.get("/readyz").await.status, 200);
    }
    for (reason, count) in [("contract", 2.0), ("size", 1.0), ("resources", 1.0)] {
        let labels = [("plugin", "r"), ("result", "rejected"), ("reason", reason)];
        x.metric_becomes("sluice_plugin_reloads_total", &labels, count).await;
    }
    assert_eq!(generation(&x).await, before, "nothing has changed");
    x.end().await;
}

#[tokio::test]
async fn b096_a_first_start_with_only_a_bad_module_is_served_by_the_bundled_policy() {
    let x = with(&[]).file("plugins.d/r.wasm", guest("trap-configure")).start().await;
    assert_eq!(x.get("/readyz").await.status, 200);
    let r = x.plain("chat").await;
    r.answered().tags("A/a1", false);
    assert!(of_the_bundled_router(&r), "{r:?}");
    has(&entry(&x, "r").await, &json!({"state": "rejected", "rejection": {"reason": "configure"}}));
    x.end().await;
}

#[tokio::test]
async fn b096_a_first_start_with_only_a_bad_module_that_is_to_deny_is_not_ready() {
    let x = with(&[])
        .file("plugins.d/r.wasm", guest("trap-configure"))
        .file("plugins.d/r.yaml", DENY)
        .start()
        .await;
    let readyz = x.get("/readyz").await;
    assert_eq!(readyz.status, 503);
    has(&readyz.json(), &json!({"ready": false, "reason": "plugin", "routes": {"chat": 0, "solo": 0}}));
    assert_eq!(x.get("/livez").await.status, 200);
    for route in ["chat", "solo"] {
        for call in [x.call(route), x.plain(route)] {
            // The bundled tagger writes what it can.
            call.await.refused(503, "plugin_denied").route_tags(false);
        }
    }
    x.calls([0, 0, 0]);
    x.outcome("denied", 4).await;
    has(
        &entry(&x, "r").await,
        &json!({"state": "rejected", "on_error": "deny", "rejection": {"reason": "configure"}}),
    );
    put(&x, "r.wasm", &guest("reverse-router"));
    assert!(
        x.poll(harness::PATIENCE, async || x.get("/readyz").await.status == 200).await,
        "{}",
        x.gateway.log()
    );
    let r = x.plain("chat").await;
    r.answered();
    assert_eq!(r.header("x-sluice-upstream"), Some("B"), "{r:?}");
    x.end().await;
}

#[tokio::test]
async fn more_plugins_than_the_engine_has_room_for_cost_no_call() {
    let mut setup = with(&[]);
    for n in 0..80 {
        setup = setup.file(&format!("plugins.d/r{n:02}.wasm"), guest("reverse-router"));
    }
    let x = setup.start().await;
    let page = x.gateway.admin_json("/debug/plugins").await;
    let states = |wanted: &str| {
        let entries = page["plugins"].as_array().expect("a list of plugins").iter();
        entries.filter(|entry| entry["state"] == wanted && !entry["file"].is_null()).count()
    };
    assert_eq!(states("active") + states("rejected"), 80, "{page:#}");
    assert!(states("active") >= 32 && states("rejected") >= 1, "{} run", states("active"));
    for _ in 0..3 {
        let r = x.plain("chat").await;
        r.answered();
        assert_eq!(r.header("x-sluice-upstream"), Some("B"), "{r:?}");
    }
    x.end().await;
}
