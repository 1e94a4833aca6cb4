//! Condition Z: what holds at the end of every case, whatever happened in it.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use crate::HEALTHY_TEXT;
use crate::case::Case;
use crate::metrics::Metrics;
use crate::response::Response;
use crate::upstream::Upstream;

/// Within this everything is given back. A busy machine gets the same again before it is a failure.
const SETTLE: Duration = Duration::from_millis(1000);
/// Longest wait for a target to be able again: its breaker, or a cool-down of the case.
const RECOVERY: Duration = Duration::from_secs(8);

const GAUGES: [&str; 2] = ["sluice_gate_in_flight", "sluice_gate_queue_depth"];

/// Checks it.
///
/// # Panics
/// When it does not hold.
pub async fn check(case: &Case) {
    let upstreams = [&case.a, &case.b, &case.c, &case.sink];
    for upstream in upstreams {
        nothing_busy(upstream).await;
    }
    assert_eq!(case.sink.calls() + case.sink.probes().len(), 0, "Z: SINK was contacted");
    gauges_at_zero(case).await;
    for upstream in upstreams {
        upstream.healthy();
    }
    one_more_call(case).await;
    gauges_at_zero(case).await;
    ids_in_the_log(case).await;
    no_credential_anywhere(case).await;
    no_panic(&case.gateway.log());
}

/// A task that panicked took its request with it, whatever the client made of that. What a plugin wrote is
/// its own affair.
pub(crate) fn no_panic(log: &str) {
    let of_a_plugin =
        |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| !line["plugin"].is_null());
    let told = log.lines().find(|line| line.contains("panicked at") && !of_a_plugin(line));
    assert!(told.is_none(), "Z: something panicked: {told:?}");
}

pub(crate) async fn nothing_busy(upstream: &Upstream) {
    let idle = upstream.wait(SETTLE, |up| up.active() == 0).await;
    let busy: Vec<_> =
        upstream.attempts().into_iter().filter(|attempt| attempt.over.is_none()).map(|a| a.n).collect();
    assert!(idle, "Z: {} is still busy with attempts {busy:?}", upstream.name());
}

/// Gauges that are not at zero, and those that are not there.
pub(crate) fn busy_gauges(metrics: &Metrics) -> Vec<String> {
    let samples = GAUGES.iter().flat_map(|gauge| metrics.all(gauge, &[]));
    let busy = samples.filter(|sample| sample.value.abs() > 0.0).map(|sample| format!("{sample:?}"));
    let missing = GAUGES.iter().filter(|gauge| !metrics.has(gauge)).map(|gauge| format!("no gauge {gauge}"));
    busy.chain(missing).collect()
}

async fn gauges_at_zero(case: &Case) {
    case.poll(SETTLE, async || busy_gauges(&case.metrics().await).is_empty()).await;
    let busy = busy_gauges(&case.metrics().await);
    assert!(busy.is_empty(), "Z: gauges are not back at zero: {busy:?}");
}

/// A healthy call succeeds, as soon as some target may be tried again.
async fn one_more_call(case: &Case) {
    let routes = case.config["routes"].as_object().expect("a configuration has routes");
    let wanted = ["chat", "other", "solo"].into_iter().find(|route| routes.contains_key(*route));
    let route = wanted.or_else(|| routes.keys().next().map(String::as_str)).expect("at least one route");
    let served = case.poll(RECOVERY, async || {
        let response = case.call(route).await;
        response.status == 200 && response.text() == HEALTHY_TEXT
    });
    if !served.await {
        panic!("Z: a healthy call afterwards got {:?}", case.call(route).await);
    }
}

/// The request ids that the log tells. Looked up and not searched for: a thousand searches through the log of a
/// large case take seconds, in which nobody reads on what the gateway writes.
fn ids_of(log: &str) -> HashSet<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line["request_id"].as_str().map(str::to_owned)).collect()
}

/// Responses without a request id, or with one that the log does not know.
pub(crate) fn untraceable<'a>(responses: &'a [Response], log: &str) -> Vec<&'a Response> {
    let told = ids_of(log);
    let known = |response: &Response| response.request_id().is_some_and(|id| told.contains(id));
    responses.iter().filter(|response| response.head_at.is_some() && !known(response)).collect()
}

async fn ids_in_the_log(case: &Case) {
    let responses = case.ledger.lock().expect("a test thread panicked").clone();
    case.poll(SETTLE, async || untraceable(&responses, &case.gateway.log()).is_empty()).await;
    let log = case.gateway.log();
    let lost = untraceable(&responses, &log);
    assert!(lost.is_empty(), "Z: without a request id that is in the log: {lost:?}");
}

/// Where any of these secrets can be read.
pub(crate) fn leaks<'a>(secrets: &[String], pages: &'a [(String, String)]) -> Vec<&'a str> {
    let leaked = |text: &str| {
        secrets.iter().filter(|secret| secret.len() >= 16).any(|secret| text.contains(secret.as_str()))
    };
    pages.iter().filter(|(_, text)| leaked(text)).map(|(page, _)| page.as_str()).collect()
}

async fn no_credential_anywhere(case: &Case) {
    let mut pages = vec![
        ("the log".to_owned(), case.gateway.log()),
        ("the metrics".to_owned(), case.metrics().await.text),
    ];
    for page in ["/debug/upstreams", "/debug/decisions", "/debug/config", "/debug/plugins"] {
        pages.push((page.to_owned(), text(&case.gateway.admin_page(page).await)));
    }
    let responses = case.ledger.lock().expect("a test thread panicked").clone();
    pages.extend(responses.iter().map(|response| (format!("{response:?}"), text(response))));
    let leaked = leaks(&case.secrets, &pages);
    assert!(leaked.is_empty(), "Z: a credential is in {leaked:?}");
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.raw).into_owned()
}
