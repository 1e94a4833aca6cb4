//! Rows 13 and 14: plugins come, go and fail under running calls, and no call notices.

use crate::expect::{has, together};
use crate::guests::{FAULTS, entry, generation, guest, one_generation, policy, put, records, take_out};
use harness::client::Client;
use harness::metrics::Metrics;
use harness::prelude::*;

/// Files are looked at soon after they change.
fn quick() -> Setup {
    let faults = FAULTS.iter().map(|(header, _)| *header);
    let headers: Vec<_> = faults.chain(["x-trap-tagger", "x-trap-classifier"]).collect();
    let plugins = json!({
        "dir": "./plugins.d", "settle": "50ms", "rescan": "1s", "deadline": "150ms", "headers": headers,
    });
    Setup::new().set("/plugins", plugins).wide_gates()
}

/// Calls, one after the other, until an answer is as wanted; every answer on the way is a good one.
async fn call_until(x: &Case, seen: &mut Vec<Response>, wanted: impl Fn(&Response) -> bool) {
    let end = now() + 3 * harness::PATIENCE;
    loop {
        let r = x.plain("chat").await;
        r.answered();
        let done = wanted(&r);
        seen.push(r);
        if done {
            return;
        }
        assert!(now() < end, "the change took no effect: {:?}\n{}", seen.last(), x.gateway.log());
    }
}

/// Who served it, and the header that the tagger of its generation writes. The bundled tagger writes none of
/// them, and is not asked where there is another.
fn by(response: &Response, model: &str, header: Option<&str>) -> bool {
    let notes = ["x-note", "x-all-kinds"].into_iter().filter(|name| response.header(name).is_some());
    response.json()["model"] == model && notes.eq(header)
}

async fn running_streams(x: &Case, count: usize) -> Vec<Client> {
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        clients.push(x.call("chat").begin().await);
    }
    for client in &mut clients {
        client.contents(1).await;
    }
    clients
}

#[tokio::test]
async fn row_13_plugins_are_swapped_under_200_running_streams() {
    let x = quick().set("/defaults/idle", "off").start().await;
    let latch = Latch::new();
    x.a.play([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let clients = running_streams(&x, 200).await;
    x.a.healthy();
    let mut seen = Vec::new();
    put(&x, "router.wasm", &guest("reverse-router"));
    put(&x, "classifier.wasm", &guest("soft-classifier"));
    put(&x, "tagger.wasm", &guest("note-tagger"));
    call_until(&x, &mut seen, |r| by(r, "b1", Some("x-note"))).await;
    put(&x, "router.wasm", &guest("looping-router"));
    put(&x, "classifier.wasm", &guest("switch-classifier"));
    call_until(&x, &mut seen, |r| by(r, "a1", Some("x-note"))).await;
    put(&x, "tagger.wasm", &guest("all-kinds"));
    call_until(&x, &mut seen, |r| by(r, "b1", Some("x-all-kinds"))).await;
    for file in ["router.wasm", "classifier.wasm", "tagger.wasm"] {
        take_out(&x, file);
    }
    call_until(&x, &mut seen, |r| by(r, "a1", None)).await;
    assert_eq!(x.a.active(), 200, "the streams outlasted every swap");
    latch.open();
    let streams = together(clients.into_iter().map(|mut client| async move { client.finish().await })).await;
    x.metric_becomes("sluice_requests_total", &[], (seen.len() + 200) as f64).await;
    let written = x.poll(harness::PATIENCE, async || records(&x).len() == seen.len() + 200).await;
    assert!(written, "{} records of {}", records(&x).len(), seen.len() + 200);
    let records = records(&x);
    let record_of = |r: &Response| &records[r.request_id().unwrap()];
    for r in &streams {
        r.answered().tags("A/a1", false);
        assert_eq!(r.header("x-note"), None, "{r:?}");
        let record = record_of(r);
        one_generation(r, record);
        has(record, &json!({"generation": 1, "outcome": "success", "tags": {}}));
        assert_eq!(record["tags"], json!({}), "a tagger that came later wrote into {record}");
    }
    let mut last = 1;
    for r in &seen {
        let record = record_of(r);
        one_generation(r, record);
        let number = record["generation"].as_u64().unwrap();
        assert!(number >= last, "generation {number} after {last}");
        last = number;
        let noted = r.header("x-note").is_some();
        assert_eq!(
            noted,
            record["tags"]["note"].is_string(),
            "head and record of two taggers: {r:?} {record}"
        );
    }
    assert!(last >= 5, "only {last} generations");
    x.outcome("success", seen.len() + 200).await;
    x.end().await;
}

#[tokio::test]
async fn row_13_a_broken_file_changes_nothing_and_is_reported() {
    let good = guest("reverse-router");
    let half = good[..good.len() / 2].to_vec();
    let noise: Vec<u8> = (0..10_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let x = quick().file("plugins.d/router.wasm", good.clone()).start().await;
    let call = async || {
        let r = x.plain("chat").await;
        r.answered();
        assert_eq!(r.header("x-sluice-upstream"), Some("B"), "the good router prefers the last: {r:?}");
    };
    call().await;
    let before = generation(&x).await;
    let table = [
        (noise, "magic"),
        (half, "parse"),
        (guest("wrong-world"), "contract"),
        (guest("wrong-shape"), "contract"),
        (guest("extra-import"), "import"),
        (guest("trap-probe"), "probe"),
        (guest("trap-configure"), "configure"),
        (guest("loop-configure"), "configure"),
        (guest("loop-start"), "instantiate"),
    ];
    let mut clients = running_streams(&x, 3).await;
    for (n, (bytes, reason)) in table.iter().enumerate() {
        put(&x, "router.wasm", bytes);
        let rejected = x.poll(harness::PATIENCE, async || {
            call().await;
            x.gateway.events("plugin_rejected").len() > n
        });
        assert!(rejected.await, "{reason}: not reported\n{}", x.gateway.log());
        let told = &x.gateway.events("plugin_rejected")[n];
        has(told, &json!({"plugin": "router", "reason": reason}));
        let page = entry(&x, "router").await;
        has(&page, &json!({"state": "last_good", "rejection": {"reason": reason}}));
        assert!(page["rejection"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{page}");
        assert_eq!(generation(&x).await, before, "{reason}: a refused file made a generation");
        assert_eq!(x.get("/readyz").await.status, 200);
        call().await;
    }
    for reason in ["magic", "parse", "contract", "import", "probe", "configure", "instantiate"] {
        let want = table.iter().filter(|(_, known)| *known == reason).count() as f64;
        let labels = [("plugin", "router"), ("result", "rejected"), ("reason", reason)];
        x.metric_becomes("sluice_plugin_reloads_total", &labels, want).await;
    }
    for client in &mut clients {
        client.finish().await.answered();
    }
    put(&x, "router.wasm", &guest("looping-router"));
    let mut seen = Vec::new();
    call_until(&x, &mut seen, |r| by(r, "a1", None)).await;
    has(&entry(&x, "router").await, &json!({"state": "active", "rejection": null}));
    x.end().await;
}

#[tokio::test]
async fn row_14_a_router_that_misbehaves_in_a_call_costs_the_call_nothing() {
    let x = quick().file("plugins.d/hostile.wasm", guest("hostile-router")).start().await;
    for (n, (header, result)) in FAULTS.into_iter().enumerate() {
        let r = x.plain("chat").header(header, "1").await;
        r.answered().tags("A/a1", false);
        let (_, by) = policy(&r);
        let routers: Vec<_> =
            by.iter().filter(|(kind, ..)| kind == "router").map(|(_, name, _)| name).collect();
        assert!(routers.iter().any(|name| *name == "weighted-router"), "{header}: {routers:?}");
        let want = FAULTS[..=n].iter().filter(|(_, same)| *same == result).count() as f64;
        let of = |result| [("plugin", "hostile"), ("kind", "router"), ("result", result)];
        x.metric_becomes("sluice_plugin_calls_total", &of(result), want).await;
        // A call that goes well in between shows that the plugin still runs.
        x.plain("chat").await.answered().tags("A/a1", false);
        x.metric_becomes("sluice_plugin_calls_total", &of("ok"), (n + 1) as f64).await;
    }
    has(
        &entry(&x, "hostile").await,
        &json!({"state": "active", "failures": {"trap": 2, "timeout": 1, "memory": 1, "stack": 1, "invalid": 3}}),
    );
    x.breaker_is("A/a1", "closed", 0).await;
    x.outcome("success", 2 * FAULTS.len()).await;
    x.end().await;
}

#[tokio::test]
async fn row_14_a_classifier_or_tagger_that_traps_costs_the_call_nothing() {
    let x = quick()
        .file("plugins.d/soft.wasm", guest("soft-classifier"))
        .file("plugins.d/note.wasm", guest("note-tagger"))
        .start()
        .await;
    x.a.queue(STATUS(503));
    let r = x.plain("chat").header("x-trap-classifier", "1").await;
    r.answered();
    assert_eq!(r.header("x-note"), Some("written by a plugin"));
    let served =
        json!({"outcome": "fallback_success", "failure_kind": "retryable_upstream", "upstream": "B"});
    has(&x.record(&r).await, &served);
    let r = x.call("chat").header("x-trap-tagger", "1").await;
    // The host's own headers go out.
    r.answered().tags("A/a1", false);
    assert_eq!(r.header("x-note"), None);
    x.record(&r).await;
    for (plugin, kind, traps) in [("soft", "classifier", 1.0), ("note", "tagger", 2.0)] {
        let labels = [("plugin", plugin), ("kind", kind), ("result", "trap")];
        x.metric_becomes("sluice_plugin_calls_total", &labels, traps).await;
    }
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

/// A time that the tagger was told is the one of the record.
#[track_caller]
fn told_of(record: &Value, name: &str) {
    let told: u64 = record["tags"][name].as_str().unwrap().parse().unwrap();
    let written = record[format!("{name}_ms")].as_u64().unwrap();
    assert_eq!(written, told, "{name}: {record}");
}

#[tokio::test]
async fn a_tagger_is_told_the_times_that_the_record_has() {
    let x = quick().file("plugins.d/note.wasm", guest("note-tagger")).start().await;
    x.a.play([SLEEP(60), ROLE, TXT("one "), SLEEP(300), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    // To commit and to the end are one moment, or two.
    for (call, apart) in [(x.call("solo"), 250), (x.plain("solo"), 0)] {
        let r = call.await;
        r.answered();
        let record = x.record(&r).await;
        let times = ["latency_ms", "duration_ms"].map(|name| record[name].as_u64().unwrap());
        told_of(&record, "latency");
        told_of(&record, "duration");
        assert!(times[1] >= times[0] + apart, "{record}");
    }
    let mut leaves = x.call("solo").begin().await;
    leaves.contents(1).await;
    leaves.close();
    let left = |record: &Value| record["outcome"] == "client_cancelled";
    let record = x.gateway.wait_for_event("request", left).await;
    told_of(&record, "duration");
    x.end().await;
}

#[tokio::test]
async fn counters_of_plugins_begin_at_zero_and_go_with_their_plugins() {
    let x = quick().start().await;
    let there = |metrics: &Metrics| metrics.by("sluice_plugin_calls_total", "plugin");
    let names = |metrics: &Metrics| there(metrics).into_keys().collect::<Vec<_>>();
    let metrics = x.metrics().await;
    assert_eq!(names(&metrics), ["last-resort", "standard-classifier", "standard-tagger", "weighted-router"]);
    assert!(there(&metrics).values().all(|calls| *calls < 0.5), "{:?}", there(&metrics));
    put(&x, "note.wasm", &guest("note-tagger"));
    let came =
        x.poll(harness::PATIENCE, async || names(&x.metrics().await).contains(&"note".to_owned())).await;
    assert!(came, "it has no counters before its first call");
    // The next two changes: a name is kept over one, for calls that still run.
    take_out(&x, "note.wasm");
    for n in 0..2 {
        let before = generation(&x).await;
        put(&x, &format!("other-{n}.wasm"), &guest("soft-classifier"));
        assert!(x.poll(harness::PATIENCE, async || generation(&x).await > before).await);
    }
    let gone =
        x.poll(harness::PATIENCE, async || !names(&x.metrics().await).contains(&"note".to_owned())).await;
    assert!(gone, "{:?}", names(&x.metrics().await));
    x.end().await;
}
