//! What rows and cases say beside the answer: in records, events, metrics.

use harness::client::fetch;
use harness::prelude::*;
use tokio::task::JoinSet;

/// How late a busy machine may be with what has a bound of its own.
pub const LATE: std::time::Duration = ms(400);
/// Within this of its being written, an event is at the client.
pub const AT_ONCE: std::time::Duration = ms(50);
/// Within this of the client's leave, the work for it has stopped.
pub const GONE: std::time::Duration = ms(500);

/// Every member of `want` is in `got`; lists are compared place by place, and have the same length.
#[track_caller]
pub fn has(got: &Value, want: &Value) {
    if let Some(difference) = difference(got, want, "") {
        panic!("{difference}\nin {got:#}");
    }
}

fn difference(got: &Value, want: &Value, at: &str) -> Option<String> {
    match (got, want) {
        (Value::Object(got), Value::Object(want)) => want.iter().find_map(|(name, want)| {
            difference(got.get(name).unwrap_or(&json!("(absent)")), want, &format!("{at}/{name}"))
        }),
        (Value::Array(got), Value::Array(want)) if got.len() == want.len() => {
            let mut pairs = got.iter().zip(want).enumerate();
            pairs.find_map(|(n, (got, want))| difference(got, want, &format!("{at}/{n}")))
        }
        _ => (got != want).then(|| format!("{at}: {got}, wanted {want}")),
    }
}

/// The body that this script gives a client who asks the upstream itself.
pub async fn own_bytes(name: &str, model: &str, stream: bool, script: impl Into<Script>) -> Vec<u8> {
    let up = Upstream::start(name, 1.0).await;
    up.play(script);
    let body = json!({"model": model, "stream": stream}).to_string();
    let request =
        format!("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    fetch(up.addr(), request.as_bytes()).await.body
}

/// The provider events of one request, or of no request, as names with their targets, in order.
pub fn provider_events(x: &Case, id: &str) -> Vec<(String, String)> {
    let lines = x.gateway.log();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = lines.filter(|line| line["request_id"] == id);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = ours.map(|line| (text(&line["event"]), text(&line["target"])));
    named.filter(|(event, _)| event.starts_with("provider_")).collect()
}

/// The provider events of a response whose record is written are exactly these.
#[track_caller]
pub fn told(x: &Case, response: &Response, want: &[(&str, &str)]) {
    let got = provider_events(x, response.request_id().expect("a request id"));
    let got: Vec<_> = got.iter().map(|(event, target)| (event.as_str(), target.as_str())).collect();
    assert_eq!(got, want, "provider events of {response:?}");
}

/// Waits, within the usual bound, until the breaker would let a probe through or is closed.
pub async fn able_again(x: &Case, target: &str) {
    let able = x
        .poll(harness::PATIENCE, async || {
            let page = x.gateway.admin_json("/debug/upstreams").await;
            let targets = page["targets"].as_array().expect("a list of targets").clone();
            targets.iter().any(|entry| entry["target"] == target && entry["able"] == true)
        })
        .await;
    assert!(able, "{target} is not able again");
}

/// A place that came free was taken at once, and not before.
#[track_caller]
pub fn right_after(one: &Attempt, two: &Attempt) {
    let (over, _) = one.over.expect("the one before has ended");
    assert!(two.at >= over, "begun {:?} before the place was free", over - two.at);
    assert!(two.at - over < LATE, "begun {:?} after the place was free", two.at - over);
}

/// Lets an upstream write one event with content after the other; before each but the first it waits at one of the latches.
/// Each is at the client before the next is written, and soon.
pub async fn each_at_once(client: &mut Client, latches: &[Latch]) {
    let mut took = Vec::new();
    client.contents(1).await;
    for (n, latch) in latches.iter().enumerate() {
        let let_go = now();
        latch.open();
        let there = client.contents(n + 2).await.contents()[n + 1].at;
        took.push(there - let_go);
    }
    let (least, most) = (took.iter().min().unwrap(), took.iter().max().unwrap());
    assert!(*least < AT_ONCE && *most < AT_ONCE + LATE, "an event is on its way for {took:?}");
}

/// All futures, at once, in order.
pub async fn together<T: Send + 'static>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut running = JoinSet::new();
    for (n, future) in futures.into_iter().enumerate() {
        running.spawn(async move { (n, future.await) });
    }
    let mut done = running.join_all().await;
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

/// No attempt beyond `n` comes within so long. What must not happen has no event to wait for.
pub async fn no_more_than(upstream: &Upstream, n: usize, within: std::time::Duration) {
    let more = upstream.wait(within, |up| up.calls() > n).await;
    assert!(!more, "{} saw {} attempts, not {n}", upstream.name(), upstream.calls());
}
