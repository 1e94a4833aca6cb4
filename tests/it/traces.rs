//! Spans at a real collector: whose children they are, what they say, and that no request ever waits for one.

use harness::prelude::*;

use crate::expect::has;
use crate::traces_collector::{Collector, Mood, Span};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

async fn traced(collector: &Collector, sample: f64) -> Case {
    Setup::new().set("/traces", collector.section(sample)).start().await
}

fn header(attempt: &Attempt, name: &str) -> Option<String> {
    attempt.header(name).map(str::to_owned)
}

/// The request's own span and those of its attempts, in order.
fn family(spans: &[Span]) -> (&Span, Vec<&Span>) {
    let own: Vec<_> = spans.iter().filter(|span| span.server).collect();
    assert_eq!(own.len(), 1, "{spans:#?}");
    let mut attempts: Vec<_> = spans.iter().filter(|span| !span.server).collect();
    attempts.sort_by_key(|span| span.attributes["sluice.attempt"].as_u64());
    for attempt in &attempts {
        assert_eq!((&attempt.parent, &attempt.trace), (&own[0].id, &own[0].trace), "{spans:#?}");
        assert!(own[0].time.0 <= attempt.time.0 && attempt.time.0 <= attempt.time.1, "{spans:#?}");
        assert!(attempt.time.1 <= own[0].time.1, "{spans:#?}");
    }
    (own[0], attempts)
}

#[tokio::test]
async fn a_fallback_is_one_trace_with_a_span_for_each_attempt() {
    let collector = Collector::start().await;
    let x = traced(&collector, 1.0).await;
    x.a.queue(STATUS(503));
    let r = x.plain("chat").await;
    r.answered().tags("B/b1", true);
    let spans = collector.until(&x, 3).await;
    let (own, attempts) = family(&spans);
    assert_eq!(
        (own.parent.as_str(), own.name.as_str(), own.failed),
        ("", "POST /v1/chat/completions", false)
    );
    assert_eq!(own.service, "sluice");
    let id = r.request_id().unwrap();
    let want = json!({
        "http.request.method": "POST", "http.route": "/v1/chat/completions", "http.response.status_code": 200,
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "chat", "gen_ai.response.model": "b1",
        "sluice.request_id": id, "sluice.route": "fallback", "sluice.degraded": true, "sluice.upstream": "B",
        "sluice.outcome": "fallback_success", "sluice.failure_kind": "retryable_upstream", "sluice.attempts": 2,
    });
    has(&own.attributes, &want);
    assert_eq!(own.attributes["error.type"], Value::Null);
    let (first, second) = (attempts[0], attempts[1]);
    assert_eq!(
        (first.name.as_str(), first.failed, second.name.as_str(), second.failed),
        ("chat a1", true, "chat b1", false)
    );
    let at = |up: &Upstream| (up.addr().ip().to_string(), up.addr().port());
    let want = json!({
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "a1",
        "server.address": at(&x.a).0, "server.port": at(&x.a).1, "http.response.status_code": 503,
        "error.type": "retryable_upstream", "sluice.target": "A/a1", "sluice.route": "primary", "sluice.breaker": "closed",
    });
    has(&first.attributes, &want);
    let want = json!({
        "gen_ai.response.model": "b1", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 3,
        "server.port": at(&x.b).1, "http.response.status_code": 200, "sluice.target": "B/b1", "sluice.route": "fallback",
        "sluice.attempt": 2, "sluice.usage_estimated": false,
    });
    has(&second.attributes, &want);
    assert_eq!(second.attributes["error.type"], Value::Null);
    assert_eq!(first.attributes["gen_ai.usage.input_tokens"], Value::Null, "tokens are counted once");
    assert!(first.time.1 <= second.time.0, "{spans:#?}");
    for (up, span) in [(&x.a, first), (&x.b, second)] {
        assert_eq!(header(&up.attempt(0), "traceparent"), Some(span.traceparent()));
    }
    assert_eq!(collector.requests()[0], "POST /otel/v1/traces application/x-protobuf");
    x.metric_becomes("sluice_spans_exported_total", &[], 3.0).await;
    x.end().await;
}

#[tokio::test]
async fn a_probe_says_that_it_is_one_and_a_stream_lasts_to_its_end() {
    let collector = Collector::start().await;
    let x = traced(&collector, 0.0).await;
    x.open_a().await;
    // Longer than the breaker stays open.
    x.poll(ms(4000), async || x.breaker("A/a1").await["until_ms"] == 0).await;
    x.a.play([ROLE, TXT("one "), SLEEP(300), TXT("two three"), FIN("stop"), DONE]);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    x.call("solo").header("traceparent", &parent).await.answered();
    let spans = collector.until(&x, 2).await;
    let (own, attempts) = family(&spans);
    assert_eq!((own.trace.as_str(), own.parent.as_str()), (TRACE, PARENT));
    assert_eq!(attempts[0].attributes["sluice.breaker"], "half_open", "{spans:#?}");
    for span in &spans {
        assert!(span.time.1 - span.time.0 >= 280_000_000, "it ended before the stream did: {span:#?}");
    }
    x.end().await;
}

#[tokio::test]
async fn a_client_that_says_what_it_belongs_to_is_taken_at_its_word() {
    let collector = Collector::start().await;
    let x = traced(&collector, 0.0).await;
    let kept = format!("00-{TRACE}-{PARENT}-01");
    x.call("chat").header("traceparent", &kept).header("tracestate", "vendor=1").await.answered();
    let spans = collector.until(&x, 2).await;
    let (own, attempts) = family(&spans);
    assert_eq!((own.trace.as_str(), own.parent.as_str()), (TRACE, PARENT));
    assert_eq!(header(&x.a.attempt(0), "traceparent"), Some(attempts[0].traceparent()));
    assert_eq!(header(&x.a.attempt(0), "tracestate").as_deref(), Some("vendor=1"));
    // A client that keeps nothing, one that says nothing, and one that is not legible: with a share of nothing they are
    // all left alone.
    for said in [Some(format!("00-{TRACE}-{PARENT}-00")), None, Some("00-what".to_owned())] {
        let n = x.a.calls();
        let call = x.call("chat");
        let call =
            said.iter().fold(call, |call, said| call.header("traceparent", said).header("tracestate", "v=2"));
        call.await.answered();
        assert_eq!(header(&x.a.attempt(n), "traceparent"), said);
        assert_eq!(header(&x.a.attempt(n), "tracestate").is_some(), said.is_some());
    }
    collector.until(&x, 2).await;
    x.end().await;
    assert_eq!(collector.spans().len(), 2);
}

#[tokio::test]
async fn a_trace_of_our_own_takes_the_place_of_one_that_is_not_legible() {
    let collector = Collector::start().await;
    let x = traced(&collector, 1.0).await;
    x.call("chat")
        .header("traceparent", &format!("00-{TRACE}-{PARENT}"))
        .header("tracestate", "v=2")
        .await
        .answered();
    // Whoever keeps nothing decides so for us too.
    x.call("chat").header("traceparent", &format!("00-{TRACE}-{PARENT}-00")).await.answered();
    let spans = collector.until(&x, 2).await;
    let (own, attempts) = family(&spans);
    assert!(own.parent.is_empty() && own.trace != TRACE, "{spans:#?}");
    assert_eq!(header(&x.a.attempt(0), "traceparent"), Some(attempts[0].traceparent()));
    assert_eq!(header(&x.a.attempt(0), "tracestate"), None, "it belongs to another trace");
    let left_alone = header(&x.a.attempt(1), "traceparent");
    assert_eq!(left_alone.as_deref(), Some(&*format!("00-{TRACE}-{PARENT}-00")));
    x.end().await;
}

#[tokio::test]
async fn requests_that_end_badly_are_told_with_whom_they_failed() {
    let collector = Collector::start().await;
    let x = traced(&collector, 1.0).await;
    let spans = async |from: usize, count: usize| collector.until(&x, from + count).await[from..].to_vec();
    x.a.queue([ROLE, TXT("one "), SILENT]);
    let mut left = x.call("solo").begin().await;
    left.contents(1).await;
    left.close();
    let told = spans(0, 2).await;
    let (own, attempts) = family(&told);
    has(&own.attributes, &json!({"sluice.outcome": "client_cancelled"}));
    assert_eq!((own.failed, &own.attributes["http.response.status_code"]), (false, &Value::Null));
    has(&attempts[0].attributes, &json!({"sluice.cancelled": true}));
    x.a.queue([ROLE, TXT("one "), CUT]);
    x.call("solo").await.broken_stream("one ");
    let told = spans(2, 2).await;
    let (own, attempts) = family(&told);
    has(&own.attributes, &json!({"sluice.outcome": "interrupted", "error.type": "interrupted"}));
    has(&attempts[0].attributes, &json!({"error.type": "retryable_upstream"}));
    assert!(own.failed && attempts[0].failed);
    x.a.queue(STATUS(400));
    x.call("solo").await.refused(400, "invalid_request");
    let told = spans(4, 2).await;
    let (own, attempts) = family(&told);
    assert_eq!((own.failed, attempts[0].failed), (false, true), "{told:#?}");
    has(&own.attributes, &json!({"sluice.outcome": "rejected_upstream", "http.response.status_code": 400}));
    x.a.queue(STATUS(503));
    x.call("solo").await.refused(503, "retryable_upstream");
    let told = spans(6, 2).await;
    let (own, _) = family(&told);
    has(&own.attributes, &json!({"error.type": "retryable_upstream", "http.response.status_code": 503}));
    x.call("unknown").await.refused(404, "model_not_found");
    x.get("/nowhere").await;
    let told = spans(8, 2).await;
    assert_eq!((told[0].name.as_str(), told[1].name.as_str()), ("POST /v1/chat/completions", "request"));
    assert!(told.iter().all(|span| span.server && !span.failed), "{told:#?}");
    x.end().await;
}

#[tokio::test]
async fn a_collector_that_is_away_holds_up_nobody_and_what_is_lost_is_counted() {
    let collector = Collector::start().await;
    let addr = collector.addr();
    let x = traced(&collector, 1.0).await;
    drop(collector);
    x.call("chat").await.answered();
    let told = x.gateway.wait_for_event("traces_away", |_| true).await;
    assert_eq!(told["to"], format!("http://{addr}/otel/v1/traces"), "{told}");
    assert!(told["error"].as_str().unwrap().contains("Connection refused"), "the cause is missing: {told}");
    // Given up after three tries.
    assert!(
        x.poll(harness::PATIENCE, async || x.metric("sluice_spans_dropped_total", &[]).await > 1.0).await
    );
    x.call("chat").await.answered();
    let collector = Collector::at(addr).await;
    let spans = collector.until(&x, 2).await;
    family(&spans);
    x.gateway.wait_for_event("traces_back", |_| true).await;
    assert_eq!(x.gateway.events("traces_away").len(), 1, "{}", x.gateway.log());
    collector.is(Mood::Says(503));
    x.call("chat").await.answered();
    assert!(x.poll(harness::PATIENCE, async || x.gateway.events("traces_away").len() == 2).await);
    let told = &x.gateway.events("traces_away")[1];
    assert!(told["error"].as_str().unwrap().contains("503"), "{told}");
    collector.is(Mood::Takes);
    collector.until(&x, 4).await;
    collector.is(Mood::Hangs);
    for _ in 0..50 {
        let r = x.call("chat").await;
        r.answered();
        assert!(r.took() < ms(1000), "{r:?}");
    }
    x.metric_becomes("sluice_spans_dropped_total", &[], 2.0).await;
    // How long it is waited for at the end is measured where time does not depend on the machine.
    let mut gateway = x.end().await;
    assert_eq!(gateway.stop().await, 0);
}

#[tokio::test]
async fn a_share_of_the_traces_is_kept_each_of_them_whole() {
    let collector = Collector::start().await;
    let x = traced(&collector, 0.5).await;
    for _ in 0..60 {
        x.call("chat").await.answered();
    }
    let told: Vec<_> = x.a.attempts().iter().filter_map(|attempt| header(attempt, "traceparent")).collect();
    // Both ends together are less likely than one in a million millions.
    assert!((5..=55).contains(&told.len()), "{}", told.len());
    let spans = collector.until(&x, 2 * told.len()).await;
    let attempts: Vec<_> = spans.iter().filter(|span| !span.server).map(Span::traceparent).collect();
    assert!(told.iter().all(|told| attempts.contains(told)), "{told:?} {attempts:?}");
    x.end().await;
}

#[tokio::test]
async fn another_configuration_sends_elsewhere_or_not_at_all_and_the_end_sends_what_is_there() {
    let (one, two) = (Collector::start().await, Collector::start().await);
    let mut x = Setup::new().start().await;
    let parent = format!("00-{TRACE}-{PARENT}-01");
    x.call("chat").header("traceparent", &parent).await.answered();
    assert_eq!(
        header(&x.a.attempt(0), "traceparent"),
        Some(parent.clone()),
        "without traces it goes on as it came"
    );
    x.change("/traces", one.section(1.0));
    x.reloaded(1).await;
    x.call("chat").await.answered();
    one.until(&x, 2).await;
    x.change("/traces", two.section(1.0));
    x.reloaded(2).await;
    x.call("chat").await.answered();
    two.until(&x, 2).await;
    x.change("/traces", json!({}));
    x.reloaded(3).await;
    x.call("chat").header("traceparent", &parent).await.answered();
    assert_eq!(header(&x.a.attempt(3), "traceparent"), Some(parent));
    x.change("/traces", two.section(1.0));
    x.reloaded(4).await;
    x.call("chat").await.answered();
    assert_eq!(x.gateway.stop().await, 0);
    assert_eq!((one.spans().len(), two.spans().len()), (2, 4), "the last ones were lost");
}
