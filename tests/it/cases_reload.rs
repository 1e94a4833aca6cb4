//! Section 13 of the cases: what goes down goes down in order, and what is wrong in a file changes nothing.

use std::fs;

use harness::prelude::*;

use crate::expect::{LATE, has};
use crate::guests::generation;
use crate::running::traffic;

#[tokio::test]
async fn b088_drain() {
    let drain = json!({"window": "1500ms", "limit": "10s"});
    let mut x = Setup::new().set("/drain", drain).set("/defaults/idle", "10s").start().await;
    let running: Vec<Step> = (0..20).flat_map(|_| [TXT("more "), SLEEP(100)]).collect();
    x.a.queue([&[ROLE], &running[..], &[FIN("stop"), DONE]].concat());
    let mut stream = x.call("chat").begin().await;
    stream.contents(1).await;
    let signalled = now();
    x.gateway.terminate().await;
    let gone = x.poll(ms(100) + LATE, async || x.get("/readyz").await.status == 503).await;
    assert!(gone, "still ready {:?} after the signal", now() - signalled);
    let mut served = 0;
    while now() - signalled < ms(1000) {
        assert_eq!(x.get("/livez").await.status, 200);
        assert_eq!(x.get("/readyz").await.status, 503);
        let r = x.call("chat").await;
        r.answered();
        assert_eq!(r.header("connection"), Some("close"), "{r:?}");
        served += 1;
    }
    assert!(served > 0);
    let r = stream.finish().await;
    assert_eq!((r.end, r.text().matches("more ").count()), (End::Complete, 20), "{r:?}");
    assert!(r.raw.windows(12).any(|bytes| bytes == b"data: [DONE]"), "{r:?}");
    let ended = now();
    assert_eq!(x.gateway.exit_code(harness::PATIENCE).await, 0);
    assert!(now() - ended < ms(1500) + LATE, "the exit took {:?} after the last stream", now() - ended);
}

#[tokio::test]
async fn b090_half_a_file_is_waited_out() {
    let x = Setup::new().wide_gates().start().await;
    let whole = fs::read_to_string(x.gateway.file()).unwrap();
    let rejected = async || x.metric("sluice_config_reloads_total", &[("result", "rejected")]).await;
    for attempt in 1.. {
        let before = rejected().await;
        let begun = now();
        fs::write(x.gateway.file(), &whole[..whole.len() / 2]).unwrap();
        // Half of the time without a change after which a file is read.
        tokio::time::sleep(ms(200)).await;
        fs::write(x.gateway.file(), &whole).unwrap();
        let pause = now() - begun;
        // Whoever asks is told what the look after the second write found.
        x.gateway.hang_up().await;
        let looked = async || x.gateway.events("config_unchanged").len() == attempt;
        assert!(x.poll(harness::PATIENCE, looked).await, "{}", x.gateway.log());
        if pause < ms(350) {
            assert!(rejected().await <= before, "a half-written file was judged: {}", x.gateway.log());
            break;
        }
        // A machine so busy that it left half a file at rest has shown nothing.
        assert!(attempt < 20, "the second half is written {pause:?} after the first, again and again");
    }
    assert_eq!(generation(&x).await, 1);
    x.end().await;
}

#[tokio::test]
async fn b090_a_bad_config_file_changes_nothing() {
    let mut x = Setup::new().wide_gates().start().await;
    let shown = x.gateway.admin_json("/debug/config").await;
    let calls = traffic(x.call("chat"), ms(20));
    let rejected = async |x: &Case| x.metric("sluice_config_reloads_total", &[("result", "rejected")]).await;

    let mut unknown = x.config.clone();
    unknown["routes"]["chat"]["targets"] = json!(["NOWHERE/zz"]);
    let mut unplugged = x.config.clone();
    unplugged["routes"]["chat"]["plugins"] = json!({"routers": ["not-there"]});
    let bad = [
        (Some("{{{{ not yaml".to_owned()), "syntax", "sluice.yaml:1:"),
        (Some(serde_json::to_string_pretty(&unknown).unwrap()), "invalid", "routes.chat.targets[0]"),
        (Some(serde_json::to_string_pretty(&unplugged).unwrap()), "invalid", "routes.chat.plugins"),
        (Some(String::new()), "read", "is empty"),
        (None, "read", "cannot be read"),
    ];
    for (n, (text, reason, word)) in bad.iter().enumerate() {
        let labels = [("result", "rejected"), ("reason", *reason)];
        let before = x.metric("sluice_config_reloads_total", &labels).await;
        match text {
            Some(text) => fs::write(x.gateway.file(), text).unwrap(),
            None => fs::remove_file(x.gateway.file()).unwrap(),
        }
        x.metric_becomes("sluice_config_reloads_total", &labels, before + 1.0).await;
        assert!(
            (rejected(&x).await - (n as f64 + 1.0)).abs() < 1e-9,
            "{reason}: counted once, as this alone"
        );
        assert_eq!(generation(&x).await, 1, "{reason}: a refused file made a generation");
        assert_eq!(x.get("/readyz").await.status, 200);
        let page = x.gateway.admin_json("/debug/config").await;
        assert_eq!(page["config"], shown["config"], "{reason}: the page shows what does not run");
        assert_eq!((&page["generation"], &page["loaded_at"]), (&shown["generation"], &shown["loaded_at"]));
        has(&page["last_rejection"], &json!({"reason": reason, "standing": true}));
        let told = &x.gateway.events("config_rejected")[n];
        has(told, &json!({"level": "error", "reason": reason, "mistakes": 1}));
        let message = told["message"].as_str().unwrap();
        assert!(message.contains(word) && message.contains("sluice.yaml:"), "{message}");
        assert_eq!(page["last_rejection"]["message"], message);
    }

    x.config["routes"]["fresh"] = json!({"targets": ["C/c1"]});
    let written = now();
    x.gateway.rewrite(&x.config);
    let active = x.poll(harness::PATIENCE, async || x.plain("fresh").await.status == 200).await;
    let took = now() - written;
    assert!(active && took <= ms(1000) + LATE, "active after {took:?}: {}", x.gateway.log());
    let answers = calls.stop().await;
    assert!(answers.len() > 100, "only {} calls", answers.len());
    answers.iter().for_each(|r| {
        r.answered();
    });
    assert_eq!(generation(&x).await, 2);
    x.reloaded(1).await;
    let page = x.gateway.admin_json("/debug/config").await;
    assert!(page["config"].as_str().unwrap().contains("fresh:"), "{page}");
    has(&page, &json!({"generation": 2, "needs_restart": [], "last_rejection": {"standing": false}}));
    has(&x.gateway.events("config_reloaded")[0], &json!({"generation": 2}));
    x.end().await;
}
