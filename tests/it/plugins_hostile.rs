//! The hostile set: every way a plugin can be bad, in one gateway, while calls of another route go on. Each has a reason of
//! its own that an operator can see, and no call of the other route notices.

use std::fs::File;
use std::time::Duration;

use harness::prelude::*;

use crate::expect::{LATE, has};
use crate::guests::{FAULTS, entry, guest, policy, put};
use crate::running::{Traffic, traffic};

/// Of a call of a plugin, stated in the configuration.
const DEADLINE: Duration = ms(100);
/// A folder of plugins to be judged by an unoptimised gateway on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Files that must not get in: the name, the bytes, the reason, and words of its message.
fn files() -> Vec<(&'static str, Vec<u8>, &'static str, &'static str)> {
    let whole = guest("reverse-router");
    let mut core_module = b"\0asm\x01\0\0\0".to_vec();
    core_module.extend([0, 2, 1, b'x']);
    // The head of what the engine writes when it compiles ahead of time: an object file of its own kind.
    let mut compiled = b"\x7fELF\x02\x01\x01\xc8".to_vec();
    compiled.resize(64, 0);
    (compiled[16], compiled[20], compiled[48], compiled[52], compiled[58]) = (1, 1, 2, 64, 64);
    vec![
        ("empty.wasm", Vec::new(), "size", "empty"),
        ("noise.wasm", b"#!/bin/sh\nexit 0\n".to_vec(), "magic", "begins with 23 21"),
        ("core-module.wasm", core_module, "magic", "core module"),
        ("half.wasm", whole[..whole.len() / 2].to_vec(), "parse", "at byte"),
        ("compiled.cwasm", whole, "precompiled", "never accepted"),
        ("disguised.wasm", compiled, "precompiled", "never accepted"),
        ("clock-import.wasm", guest("clock-import"), "import", "wasi:clocks/"),
        ("extra-import.wasm", guest("extra-import"), "import", "wasi:"),
        ("wrong-world.wasm", guest("wrong-world"), "contract", "exports nothing of sluice:policy"),
        ("wrong-shape.wasm", guest("wrong-shape"), "contract", "0.1.0"),
        ("big-memory.wasm", guest("big-memory"), "resources", "initial memory"),
        ("loop-start.wasm", guest("loop-start"), "instantiate", "longer than its deadline"),
        ("loop-configure.wasm", guest("loop-configure"), "configure", "longer than its deadline"),
        ("trap-configure.wasm", guest("trap-configure"), "configure", "trapped"),
        ("error-configure.wasm", guest("error-configure"), "configure", "region"),
        ("trap-probe.wasm", guest("trap-probe"), "probe", "candidates"),
    ]
}

/// Calls of the route that asks no plugin of the folder.
fn quiet_calls(x: &Case) -> Traffic {
    traffic(x.plain("quiet"), ms(20))
}

/// Stops them. Each was answered by the bundled router and classifier; how long the slowest took.
async fn all_well(calls: Traffic) -> Duration {
    let answers = calls.stop().await;
    assert!(answers.len() > 10, "only {} calls", answers.len());
    for r in &answers {
        r.answered().tags("A/a1", false);
        let (_, by) = policy(r);
        assert!(
            by.iter().all(|(_, name, _)| name.starts_with("standard-") || name == "weighted-router"),
            "{r:?}"
        );
    }
    answers.iter().map(Response::took).max().unwrap()
}

async fn nothing_gets_in(x: &Case) {
    for (file, bytes, ..) in files() {
        put(x, file, &bytes);
    }
    // Without its bytes on the disk: only the size is looked at.
    let aside = x.gateway.dir().join("new-plugin");
    File::create(&aside).and_then(|file| file.set_len(100 << 20)).unwrap();
    std::fs::rename(aside, x.gateway.dir().join("plugins.d/vast.wasm")).unwrap();
    put(x, "other-bytes.yaml", format!("sha256: {}\n", "0".repeat(64)).as_bytes());
    put(x, "other-bytes.wasm", &guest("reverse-router"));
    put(x, "misread.yaml", b"on_eror: deny\n");
    put(x, "misread.wasm", &guest("reverse-router"));
    let more = [
        ("vast.wasm", Vec::new(), "size", "at most 67108864 bytes"),
        ("other-bytes.wasm", Vec::new(), "digest", "expected sha256 0000"),
        ("misread.wasm", Vec::new(), "sidecar", "on_eror"),
    ];
    for (file, _, reason, words) in files().into_iter().chain(more) {
        let (name, _) = file.split_once('.').unwrap();
        let refused = x.poll(PATIENCE, async || !entry(x, name).await["rejection"].is_null()).await;
        assert!(refused, "{file}: {:#}\n{}", entry(x, name).await, x.gateway.log());
        let entry = entry(x, name).await;
        has(&entry, &json!({"state": "rejected", "kinds": [], "rejection": {"reason": reason}}));
        let message = entry["rejection"]["message"].as_str().unwrap();
        assert!(message.contains(words) && message.len() < 4096, "{file}: {message}");
        let labels = [("plugin", name), ("result", "rejected"), ("reason", reason)];
        x.metric_becomes("sluice_plugin_reloads_total", &labels, 1.0).await;
        // The page may be there before the line is.
        let fits = |event: &Value| event["plugin"] == name && event["reason"] == reason;
        x.gateway.wait_for_event("plugin_rejected", fits).await;
    }
}

async fn calls_are_cut_and_counted(x: &Case) {
    let counted = async |result: &str| {
        let labels = [("plugin", "hostile"), ("kind", "router"), ("result", result)];
        x.metric("sluice_plugin_calls_total", &labels).await
    };
    for (header, result) in FAULTS {
        let before = counted(result).await;
        let r = x.plain("chat").header(header, "1").await;
        r.answered().tags("A/a1", false);
        let (_, by) = policy(&r);
        assert!(
            by.iter().any(|(_, name, _)| name == "weighted-router"),
            "{header}: the bundled one answers: {by:?}"
        );
        let labels = [("plugin", "hostile"), ("kind", "router"), ("result", result)];
        x.metric_becomes("sluice_plugin_calls_total", &labels, before + 1.0).await;
        let failures = entry(x, "hostile").await["failures"][result].as_u64();
        assert_eq!(failures, Some(before as u64 + 1), "{header}: the page says so, too");
        // A good call in between, so that it is not set aside.
        x.plain("chat").await.answered().tags("A/a1", false);
    }
    x.plain("chat").header("x-flood", "1").await.answered().tags("A/a1", false);
    // Lines are written beside the call.
    let told = async || x.gateway.log().contains("more lines in one call were dropped");
    assert!(x.poll(harness::PATIENCE, told).await, "{}", x.gateway.log());
    let log = x.gateway.log();
    let lines = log.lines().filter(|line| line.contains("line 3") && line.contains("hostile")).count();
    assert!(lines <= 32, "{lines} lines of a flood");
    assert!(log.lines().all(|line| line.len() < 8192), "the words of a guest are bounded");
}

#[tokio::test]
async fn the_hostile_set_has_its_reasons_and_no_other_call_notices() {
    let headers: Vec<_> = FAULTS.iter().map(|(header, _)| *header).chain(["x-flood"]).collect();
    let x = Setup::new()
        .wide_gates()
        .set("/plugins", json!({"dir": "./plugins.d", "settle": "50ms", "rescan": "1s", "headers": headers}))
        .set("/plugins/deadline", DEADLINE)
        .set("/routes/chat/plugins", json!({"routers": ["hostile"]}))
        .set("/routes/quiet", json!({"targets": ["A/a1", "B/b1"], "plugins": {"routers": [], "classifiers": [], "taggers": []}}))
        .file("plugins.d/hostile.wasm", guest("hostile-router"))
        .start()
        .await;
    let before = quiet_calls(&x);
    tokio::time::sleep(ms(1000)).await;
    let usual = all_well(before).await;

    let beside = quiet_calls(&x);
    nothing_gets_in(&x).await;
    all_well(beside).await;

    let beside = quiet_calls(&x);
    calls_are_cut_and_counted(&x).await;
    let slowest = all_well(beside).await;
    assert!(slowest < usual + DEADLINE + 2 * LATE, "{slowest:?} beside, {usual:?} before");

    has(&entry(&x, "hostile").await, &json!({"state": "active"}));
    x.breaker_is("A/a1", "closed", 0).await;
    assert_eq!(x.get("/readyz").await.status, 200);
    x.end().await;
}
