//! What a new configuration changes in a running gateway, and what it leaves as it was.

use std::fs;

use harness::client::fetch;
use harness::prelude::*;
use harness::setup::caller_key;
use tokio::net::{TcpListener, TcpStream};

use crate::expect::{has, together};
use crate::guests::{generation, guest, one_generation, policy};

async fn gate(x: &Case, name: &str) -> Value {
    let page = x.gateway.admin_json("/debug/upstreams").await;
    let gates = page["gates"].as_array().unwrap();
    gates.iter().find(|gate| gate["gate"] == name).cloned().unwrap_or_default()
}

#[tokio::test]
async fn streams_run_on_through_many_reloads_and_each_call_keeps_one_generation() {
    let mut x = Setup::new().wide_gates().set("/defaults/idle", "off").start().await;
    let latch = Latch::new();
    x.a.queue([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let mut stream = x.call("chat").begin().await;
    stream.contents(1).await;
    let mut seen = Vec::new();
    for (n, targets) in [["B/b1", "A/a1"], ["A/a1", "B/b1"], ["B/b1", "C/c1"]].into_iter().enumerate() {
        x.change("/routes/chat/targets", json!(targets));
        let end = now() + harness::PATIENCE;
        loop {
            let r = x.plain("chat").await;
            r.answered();
            let (number, _) = policy(&r);
            let first = r.header("x-sluice-upstream") == Some(&targets[0][..1]);
            seen.push(r);
            if number == n as u64 + 2 && first {
                break;
            }
            assert!(now() < end, "generation {number}: {}", x.gateway.log());
        }
    }
    latch.open();
    let r = stream.finish().await;
    r.answered().tags("A/a1", false);
    assert_eq!(policy(&r).0, 1, "the stream kept its own");
    for r in seen.iter().chain([&r]) {
        one_generation(r, &x.record(r).await);
    }
    // One is the stream's; the other goes from generation to generation.
    assert_eq!(x.a.connections(), 2, "connections of an upstream that did not change go on");
    x.end().await;
}

#[tokio::test]
async fn breakers_are_kept_and_another_base_url_starts_fresh() {
    let mut x = Setup::new().set("/breaker/open", "1h").set("/breaker/open_max", "1h").start().await;
    x.open_a().await;
    x.change("/routes/chat/budget", "4s");
    x.reloaded(1).await;
    x.breaker_is("A/a1", "open", 3).await;
    x.call("chat").await.answered().tags("B/b1", true);
    x.calls([3, 4, 0]);
    x.change("/upstreams/A/base_url", x.a.base_url().replace("127.0.0.1", "localhost"));
    x.reloaded(2).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.call("chat").await.answered().tags("A/a1", false);
    x.end().await;
}

#[tokio::test]
async fn what_a_caller_has_used_counts_on_and_its_new_limits_hold() {
    let web = json!({"requests_per_minute": 2});
    let mut x = Setup::new().caller("ops", json!({})).caller("web", web).calls_as("ops").start().await;
    let call = |x: &Case| x.call("chat").key(caller_key("web").as_str());
    call(&x).await.answered();
    x.change("/routes/chat/budget", "4s");
    x.reloaded(1).await;
    call(&x).await.answered();
    call(&x).await.refused(429, "caller_limit");
    x.config["callers"][1]["requests_per_minute"] = json!(3);
    x.gateway.rewrite(&x.config);
    x.reloaded(2).await;
    call(&x).await.answered();
    call(&x).await.refused(429, "caller_limit");
    x.calls([3, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_changed_limit_holds_in_place_and_calls_above_it_finish() {
    let mut x = Setup::new().set("/defaults/idle", "off").start().await;
    let latch = Latch::new();
    x.a.play([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(x.call("solo").begin().await);
    }
    for stream in &mut streams {
        stream.contents(1).await;
    }
    x.change("/upstreams/A/max_in_flight", 1);
    x.change("/upstreams/A/queue", 0);
    x.reloaded(1).await;
    has(&gate(&x, "upstream:A").await, &json!({"in_flight": 3, "limit": 1}));
    x.call("solo").await.refused(503, "queue_full");
    x.change("/upstreams/A/max_in_flight", 4);
    x.reloaded(2).await;
    streams.push(x.call("solo").begin().await);
    streams[3].contents(1).await;
    x.change("/gates/max_in_flight", 2);
    x.change("/gates/queue", 0);
    x.reloaded(3).await;
    x.call("other").await.refused(503, "queue_full");
    latch.open();
    let all = together(streams.into_iter().map(|mut client| async move { client.finish().await })).await;
    all.iter().for_each(|r| {
        r.answered();
    });
    has(&gate(&x, "global").await, &json!({"limit": 2}));
    x.end().await;
}

#[tokio::test]
async fn an_upstream_that_goes_keeps_its_streams_and_loses_its_checks() {
    let probe = json!({"mode": "active", "interval": "50ms", "timeout": "300ms"});
    let quick = Setup::new().set("/upstreams/C/probe", probe).set("/breaker/open", ms(100));
    let mut x = quick.set("/defaults/idle", "off").set("/breaker/open_max", ms(100)).start().await;
    let latch = Latch::new();
    x.a.queue(STATUS(503)).queue(STATUS(503));
    x.b.queue(STATUS(503));
    x.c.queue([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let mut stream = x.call("chat3").begin().await;
    stream.contents(1).await;
    // Its breaker is opened by others, so that it is looked into again and again.
    x.c.play(STATUS(503));
    x.c.play_probes(STATUS(503));
    x.change("/routes/solo/targets", json!(["C/c1"]));
    x.reloaded(1).await;
    for _ in 0..3 {
        x.call("solo").await;
    }
    assert!(x.poll(harness::PATIENCE, async || x.c.probes().len() > 1).await, "it is not looked into");
    x.config["upstreams"].as_object_mut().unwrap().remove("C");
    x.config["routes"]["solo"]["targets"] = json!(["A/a1"]);
    x.config["routes"].as_object_mut().unwrap().remove("chat3");
    x.gateway.rewrite(&x.config);
    x.reloaded(2).await;
    let probes = x.c.probes().len();
    let more = x.poll(ms(500), async || x.c.probes().len() > probes + 1).await;
    assert!(!more, "it is still looked into");
    let page = x.gateway.admin_json("/debug/upstreams").await;
    assert!(!page.to_string().contains("C/c1"), "{page}");
    latch.open();
    stream.finish().await.answered();
    // Its connections go with the last request that held them.
    assert!(x.c.wait(harness::PATIENCE, |c| c.active() == 0).await);
    x.end().await;
}

#[tokio::test]
async fn listeners_move_and_streams_on_the_old_one_run_to_their_end() {
    let free = async || TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut x = Setup::new().set("/defaults/idle", "off").start().await;
    let (old, listen) = (x.gateway.addr(), free().await);
    let latch = Latch::new();
    x.a.queue([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let mut stream = x.call("chat").begin().await;
    stream.contents(1).await;
    // An address that is taken is one a gateway would not start with.
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    x.change("/listen", taken.local_addr().unwrap().to_string());
    let told = x.gateway.wait_for_event("config_rejected", |_| true).await;
    has(&told, &json!({"reason": "invalid"}));
    assert!(told["message"].as_str().unwrap().contains("listen: cannot listen on"), "{told}");
    x.call("chat").await.answered();
    x.change("/listen", listen.to_string());
    let moved = x.gateway.wait_for_event("listening", |line| line["listen"] == listen.to_string()).await;
    assert_eq!(moved["admin"], x.gateway.admin_addr().to_string());
    let closed = x.poll(harness::PATIENCE, async || TcpStream::connect(old).await.is_err()).await;
    assert!(closed, "the old address still lets in");
    assert_eq!(fetch(listen, &harness::client::get("/readyz")).await.status, 200);
    latch.open();
    stream.finish().await.answered();
    let mut gateway = x.gateway;
    assert_eq!(gateway.stop().await, 0);
}

#[tokio::test]
async fn what_needs_a_restart_is_said_and_the_rest_holds() {
    let mut x = Setup::new().start().await;
    x.config["state_dir"] = json!("./elsewhere");
    x.change("/decisions", 1);
    x.reloaded(1).await;
    let told = &x.gateway.events("config_reloaded")[0];
    has(told, &json!({"level": "warn", "generation": 2, "needs_restart": "state_dir"}));
    let page = x.gateway.admin_json("/debug/config").await;
    has(&page, &json!({"needs_restart": ["state_dir"], "last_rejection": null}));
    let shown = page["config"].as_str().unwrap();
    assert!(!shown.contains("elsewhere") && shown.contains("state_dir: "), "it shows what runs: {shown}");
    for _ in 0..2 {
        x.call("chat").await.answered();
    }
    x.outcome("success", 2).await;
    let kept = x.gateway.admin_json("/debug/decisions").await["decisions"].as_array().unwrap().len();
    assert_eq!(kept, 1);
    x.end().await;
}

#[tokio::test]
async fn log_names_and_budgets_follow() {
    let mut x = Setup::new().start().await;
    x.change("/routes/fresh", json!({"targets": ["C/c1"]}));
    x.reloaded(1).await;
    x.call("fresh").await.answered();
    x.metric_becomes("sluice_requests_total", &[("model", "fresh"), ("outcome", "success")], 1.0).await;
    x.change("/retry_budget", json!({"ratio": 0.0, "min_per_second": 0}));
    x.reloaded(2).await;
    x.a.queue(STATUS(503));
    x.call("chat").await.refused(503, "retryable_upstream");
    x.change("/log", json!({"level": "error", "format": "text"}));
    x.reloaded(3).await;
    let quiet = x.gateway.log().lines().count();
    x.a.queue(STATUS(503));
    x.call("chat").await.refused(503, "retryable_upstream");
    let written = x.poll(harness::PATIENCE, async || x.gateway.log().lines().count() > quiet).await;
    assert!(written, "the record is a record at any level");
    let log = x.gateway.log();
    let lines: Vec<_> = log.lines().skip(quiet).collect();
    assert_eq!(lines.len(), 1, "events below the level: {lines:?}");
    assert!(lines[0].contains(" request ") && !lines[0].starts_with('{'), "{lines:?}");
}

#[tokio::test]
async fn plugins_take_new_targets_limits_and_folders() {
    let mut x = Setup::new().file("other.d/router.wasm", guest("reverse-router")).start().await;
    x.call("chat").await.answered().tags("A/a1", false);
    x.change("/plugins/dir", "./other.d");
    x.reloaded(1).await;
    x.call("chat").await.answered().tags("B/b1", false);
    // Positions of targets change under a plugin that was configured with others.
    x.change("/routes/chat/targets", json!(["C/c1", "B/b1", "A/a1"]));
    x.reloaded(2).await;
    x.call("chat").await.answered().tags("A/a1", false);
    // A router that loops on demand: the header list and the deadline follow.
    let looping = guest("looping-router");
    x.config["plugins"]["headers"] = json!(["x-loop"]);
    x.change("/plugins/deadline", "150ms");
    x.reloaded(3).await;
    fs::write(x.gateway.dir().join("other.d/router.wasm"), looping).unwrap();
    let looped = x.poll(harness::PATIENCE, async || {
        x.call("chat").header("x-loop", "1").await.answered();
        x.metric("sluice_plugin_calls_total", &[("plugin", "router"), ("result", "timeout")]).await > 0.0
    });
    assert!(looped.await, "{}", x.gateway.log());
    assert!(generation(&x).await >= 5);
    x.end().await;
}

#[tokio::test]
async fn a_reload_that_plugins_refuse_changes_nothing() {
    let mut x = Setup::new().file("plugins.d/router.wasm", guest("reverse-router")).start().await;
    x.call("chat").await.answered().tags("B/b1", false);
    x.config["routes"]["chat"]["targets"] = json!(["C/c1", "A/a1"]);
    x.change("/plugins/memory", "64KiB");
    let told = x.gateway.wait_for_event("config_rejected", |_| true).await;
    has(&told, &json!({"reason": "invalid"}));
    assert!(told["message"].as_str().unwrap().contains("would not start"), "{told}");
    x.call("chat").await.answered().tags("B/b1", false);
    assert_eq!(generation(&x).await, 1);
    x.change("/plugins/memory", "16MiB");
    x.reloaded(1).await;
    x.call("chat").await.answered().tags("A/a1", false);
    x.end().await;
}
