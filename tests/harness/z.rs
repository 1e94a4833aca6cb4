//! Condition Z: what holds at the end of every case, whatever happened in it.

use std::time::Duration;

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
    assert_eq!(
        case.sink.calls() + case.sink.probes().len(),
        0,
        "Z: SINK was contacted"
    );
    gauges_at_zero(case).await;
    for upstream in upstreams {
        upstream.healthy();
    }
    one_more_call(case).await;
    gauges_at_zero(case).await;
    ids_in_the_log(case).await;
    no_credential_anywhere(case).await;
}

async fn nothing_busy(upstream: &Upstream) {
    let idle = upstream.wait(SETTLE, |up| up.active() == 0).await;
    let busy: Vec<_> = upstream
        .attempts()
        .into_iter()
        .filter(|attempt| attempt.over.is_none())
        .map(|a| a.n)
        .collect();
    assert!(
        idle,
        "Z: {} is still busy with attempts {busy:?}",
        upstream.name()
    );
}

async fn gauges_at_zero(case: &Case) {
    let busy = |metrics: &Metrics| {
        let samples = GAUGES.iter().flat_map(|gauge| metrics.all(gauge, &[]));
        samples
            .filter(|sample| sample.value.abs() > 0.0)
            .cloned()
            .collect::<Vec<_>>()
    };
    let settled = case
        .poll(SETTLE, async || busy(&case.metrics().await).is_empty())
        .await;
    let metrics = case.metrics().await;
    for gauge in GAUGES {
        assert!(metrics.has(gauge), "Z: no gauge {gauge}");
    }
    assert!(
        settled,
        "Z: gauges are not back at zero: {:?}",
        busy(&metrics)
    );
}

/// A healthy call succeeds, as soon as some target may be tried again.
async fn one_more_call(case: &Case) {
    let routes = case.config["routes"]
        .as_object()
        .expect("a configuration has routes");
    let wanted = ["chat", "other", "solo"]
        .into_iter()
        .find(|route| routes.contains_key(*route));
    let route = wanted
        .or_else(|| routes.keys().next().map(String::as_str))
        .expect("at least one route");
    let served = case.poll(RECOVERY, async || {
        let response = case.call(route).await;
        response.status == 200 && response.text() == HEALTHY_TEXT
    });
    if !served.await {
        panic!(
            "Z: a healthy call afterwards got {:?}",
            case.call(route).await
        );
    }
}

async fn ids_in_the_log(case: &Case) {
    let responses = case.ledger.lock().expect("a test thread panicked").clone();
    let with_head: Vec<_> = responses
        .iter()
        .filter(|response| response.head_at.is_some())
        .collect();
    for response in &with_head {
        assert!(
            response.request_id().is_some(),
            "Z: a response without request id: {response:?}"
        );
    }
    let lost = || {
        let log = case.gateway.log();
        let ids = with_head
            .iter()
            .filter_map(|response| response.request_id());
        ids.filter(|id| !log.contains(*id))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    case.poll(SETTLE, async || lost().is_empty()).await;
    assert_eq!(
        lost(),
        Vec::<String>::new(),
        "Z: request ids that are not in the log"
    );
}

async fn no_credential_anywhere(case: &Case) {
    let mut pages = vec![
        ("the log".to_owned(), case.gateway.log()),
        ("the metrics".to_owned(), case.metrics().await.text),
    ];
    for page in [
        "/debug/upstreams",
        "/debug/decisions",
        "/debug/config",
        "/debug/plugins",
    ] {
        pages.push((page.to_owned(), text(&case.gateway.admin_page(page).await)));
    }
    let responses = case.ledger.lock().expect("a test thread panicked").clone();
    pages.extend(
        responses
            .iter()
            .map(|response| (format!("{response:?}"), text(response))),
    );
    for secret in case.secrets.iter().filter(|secret| secret.len() >= 16) {
        for (page, text) in &pages {
            assert!(
                !text.contains(secret.as_str()),
                "Z: a credential is in {page}"
            );
        }
    }
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.raw).into_owned()
}
