//! Where a call goes when a target does not serve it: who may be next, what may be waited for, and how long others wait for
//! a probe. What the gateway does is what `sluice explain` says of it.

use crate::author_support::sluice;
use crate::running::start;
use harness::prelude::*;

fn too_long() -> Script {
    JSON(400, &json!({"error": {"message": "m", "type": "t", "code": "context_length_exceeded"}}))
}

fn contexts(a: u32, b: u32, c: u32) -> Setup {
    Setup::new()
        .set("/upstreams/A/models/a1", json!({"context": a}))
        .set("/upstreams/B/models/b1", json!({"context": b}))
        .set("/upstreams/C/models/c1", json!({"context": c}))
}

/// The targets that a call of `chat3` would be sent to after these failures.
async fn explained(x: &Case, failures: &[&str]) -> Vec<String> {
    let file = x.gateway.file();
    let mut args = vec!["explain", "-c", file.to_str().unwrap(), "--json", "--model", "chat3"];
    args.extend(failures.iter().flat_map(|failure| ["--failure", failure]));
    let said = sluice(x.gateway.dir(), &args).await;
    assert_eq!(said.code, 0, "{}", said.all());
    let explained: Value = serde_json::from_str(&said.out).unwrap();
    let attempts = explained["attempts"].as_array().unwrap();
    attempts.iter().map(|attempt| attempt["target"].as_str().unwrap().to_owned()).collect()
}

/// A call that keeps the only place of C until the latch is opened.
async fn fills_c(x: &Case, latch: &Latch) -> crate::running::Running {
    x.c.queue([SSE, HOLD(latch), ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE, END]);
    let held = start(x.call("hold"));
    x.c.wait_for_attempts(1).await;
    held
}

#[tokio::test]
async fn after_a_too_small_context_a_clock_still_has_somewhere_to_go() {
    let x = contexts(1000, 8000, 4000).start().await;
    x.a.play(too_long());
    x.b.play(SILENT);
    let r = x.call("chat3").await;
    r.answered().tags("C/c1", true).attempts(3);
    x.near(r.took(), ms(1000));
    let failures = ["context_length_exceeded", "timeout"];
    assert_eq!(explained(&x, &failures).await, ["A/a1", "B/b1", "C/c1"]);
    x.calls([1, 1, 1]);
    x.end().await;
}

#[tokio::test]
async fn a_context_that_was_too_small_is_remembered_whatever_fails_after_it() {
    let x = contexts(4000, 8000, 4000).start().await;
    x.a.play(too_long());
    x.b.play(STATUS(503));
    let r = x.call("chat3").await;
    r.refused(503, "retryable_upstream").attempts(2);
    assert_eq!(explained(&x, &["context_length_exceeded", "503"]).await, ["A/a1", "B/b1"]);
    x.b.play(SILENT);
    // Nobody else is large enough: it may use what is left.
    x.call("chat3").await.refused(504, "budget_exhausted").attempts(2);
    x.calls([2, 2, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_full_gate_does_not_make_a_too_small_target_larger() {
    let setup = contexts(1000, 500, 8000)
        .set("/upstreams/C/max_in_flight", 1)
        .set("/upstreams/C/queue", 0)
        .set("/routes/hold", json!({"targets": ["C/c1"]}));
    let x = setup.set("/routes/chat3/targets", json!(["A/a1", "C/c1", "B/b1"])).start().await;
    let latch = Latch::new();
    let held = fills_c(&x, &latch).await;
    x.a.play(too_long());
    x.call("chat3").await.refused(503, "queue_full").attempts(1);
    x.calls([1, 0, 1]);
    latch.open();
    held.answer().await.answered();
    x.end().await;
}

#[tokio::test]
async fn a_target_that_needs_more_time_than_is_left_hides_nobody_behind_it() {
    let targets = json!(["A/a1", {"target": "B/b1", "min_budget": "20s"}, "C/c1"]);
    let x = Setup::new().set("/routes/chat3/targets", targets).start().await;
    x.a.play(STATUS(503));
    x.call("chat3").await.answered().tags("C/c1", true).attempts(2);
    assert_eq!(explained(&x, &["503"]).await, ["A/a1", "C/c1"]);
    x.a.play(SILENT);
    x.call("chat3").await.answered().tags("C/c1", true).attempts(2);
    assert_eq!(explained(&x, &["timeout"]).await, ["A/a1", "C/c1"]);
    x.calls([2, 0, 2]);
    x.end().await;
}

#[tokio::test]
async fn what_a_switch_needs_is_not_asked_of_a_retry() {
    let setup = Setup::new().set("/defaults/min_budget", "10s");
    let x = setup.set("/defaults/retry", json!({"upstream": 1, "backoff": "100ms"})).start().await;
    x.a.queue(STATUS(503)).queue(OK);
    x.call("chat").await.answered().tags("A/a1", false).attempts(2);
    x.calls([2, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_call_is_told_to_wait_for_those_that_can_take_it() {
    let x = Setup::new().set("/upstreams/B/models/b1", json!({"supports": ["json"]})).start().await;
    x.a.play(LIMITED(&[("retry-after", "30")]));
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let r = x.call("chat").set("tools", tools).await;
    r.refused(429, "retryable_rate_limit").attempts(1);
    let wait: u64 = r.header("retry-after").unwrap().parse().unwrap();
    assert!((25..=30).contains(&wait), "{r:?}");
    x.calls([1, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_probe_that_hangs_gives_way_at_its_own_limit_though_it_runs_on() {
    let setup = Setup::new().set("/breaker/consecutive", 1).set("/breaker/open", ms(800));
    let x = setup.set("/defaults/attempt", ms(500)).set("/defaults/first_content", ms(500)).start().await;
    x.a.queue(STATUS(503));
    x.call("solo").await.refused(503, "retryable_upstream");
    let latch = Latch::new();
    x.a.play([SSE, HOLD(&latch), ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE, END]);
    let opened = now();
    let able = async || x.gateway.admin_json("/debug/upstreams").await["targets"][0]["able"] == true;
    assert!(x.poll(ms(3000), able).await);
    let probe = start(x.call("solo"));
    x.gateway.wait_for_event("breaker_half_open", |_| true).await;
    let failed = x.gateway.wait_for_event("provider_probe_failed", |line| line["target"] == "A/a1").await;
    assert_eq!(failed["kind"], "retryable_timeout");
    let breaker = x.breaker("A/a1").await;
    assert_eq!((&breaker["state"], breaker["opens"].as_u64()), (&json!("open"), Some(2)), "{breaker}");
    assert!(now() - opened < x.t(ms(3000)), "bounded by its own limit, not by the deadline");
    // Its late answer is still good for its client, and teaches nothing.
    latch.open();
    probe.answer().await.answered().tags("A/a1", false).attempts(1);
    let breaker = x.breaker("A/a1").await;
    assert_eq!((&breaker["state"], breaker["opens"].as_u64()), (&json!("open"), Some(2)), "{breaker}");
    assert_eq!(x.gateway.events("provider_probe_failed").len(), 1);
    assert_eq!(x.gateway.events("provider_recovered").len(), 0);
    x.end().await;
}

#[tokio::test]
async fn in_the_window_of_a_drain_calls_go_on_where_they_may_not_wait() {
    let setup = Setup::new()
        .set("/drain", json!({"window": "20s", "limit": "20s"}))
        .set("/defaults/retry", json!({"upstream": 0, "rate_limit": 1}))
        .set("/defaults/budget", "30s")
        .set("/defaults/attempt", "30s")
        .set("/defaults/first_content", "30s")
        .set("/upstreams/C/max_in_flight", 1)
        .set("/routes/hold", json!({"targets": ["C/c1"]}));
    let mut x = setup.set("/routes/full", json!({"targets": ["C/c1", "B/b1"]})).start().await;
    let latch = Latch::new();
    let held = fills_c(&x, &latch).await;
    x.gateway.terminate().await;
    assert!(x.poll(harness::PATIENCE, async || x.get("/readyz").await.status == 503).await, "still ready");
    x.a.play(LIMITED(&[("retry-after", "1")]));
    x.call("chat").await.answered().tags("B/b1", true).attempts(2);
    x.call("full").await.answered().tags("B/b1", true).attempts(1);
    x.call("hold").await.refused(503, "queue_full").attempts(0);
    x.calls([1, 2, 1]);
    let full = [("gate", "upstream:C"), ("reason", "queue_full")];
    assert!((x.metric("sluice_gate_refused_total", &full).await - 2.0).abs() < f64::EPSILON);
    latch.open();
    held.answer().await.answered();
    // A second signal, since the window is longer than a test may take.
    x.gateway.terminate().await;
    assert_eq!(x.gateway.exit_code(harness::PATIENCE).await, 0);
}
