//! A running case: four upstreams, one gateway, and what came back.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::call::Call;
use crate::client::{Client, Ledger, fetch, get};
use crate::gateway::Gateway;
use crate::metrics::Metrics;
use crate::response::Response;
use crate::setup::Peers;
use crate::step::STATUS;
use crate::upstream::Upstream;
use crate::{PATIENCE, now};

/// How late a time may be on a busy machine, beyond what a case allows.
const SLACK: Duration = Duration::from_millis(250);
/// How early a time may seem to be.
const EARLY: Duration = Duration::from_millis(60);

/// A case while it runs. Ends with [`Case::end`], which checks condition Z.
pub struct Case {
    /// `A/a1`.
    pub a: Upstream,
    /// `B/b1`.
    pub b: Upstream,
    /// `C/c1`.
    pub c: Upstream,
    /// Must never be contacted.
    pub sink: Upstream,
    /// The gateway.
    pub gateway: Gateway,
    /// What it was started with.
    pub config: Value,
    /// Every response of the case.
    pub ledger: Ledger,
    pub(crate) secrets: Vec<String>,
    scale: f64,
    key: Option<String>,
}

impl Case {
    pub(crate) fn new(
        peers: Peers,
        gateway: Gateway,
        config: Value,
        scale: f64,
        secrets: Vec<String>,
    ) -> Self {
        let Peers { a, b, c, sink } = peers;
        Self { a, b, c, sink, gateway, config, ledger: Ledger::default(), secrets, scale, key: None }
    }

    pub(crate) fn with_key(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// A time of the case as it is on this run.
    #[must_use]
    pub fn t(&self, time: Duration) -> Duration {
        time.mul_f64(self.scale)
    }

    /// Changes one value of the configuration of the running gateway, whose file is replaced as a whole.
    pub fn change(&mut self, pointer: &str, value: impl Into<Value>) {
        crate::setup::put(&mut self.config, pointer, value.into());
        self.gateway.rewrite(&self.config);
    }

    /// Waits until so many configurations came into force after the first.
    pub async fn reloaded(&self, times: usize) {
        let applied = [("result", "applied")];
        let want = f64::from(u32::try_from(times).expect("a small number"));
        self.metric_becomes("sluice_config_reloads_total", &applied, want).await;
    }

    /// A streaming call to a route.
    #[must_use]
    pub fn call(&self, route: &str) -> Call {
        Call::new(self.gateway.addr(), self.ledger.clone(), route).key(self.key.as_deref())
    }

    /// A call to a route without streaming.
    #[must_use]
    pub fn plain(&self, route: &str) -> Call {
        self.call(route).plain()
    }

    /// A connection to the gateway.
    pub async fn connect(&self) -> Client {
        Client::open(self.gateway.addr()).await.logged(&self.ledger)
    }

    /// A GET on the main listener.
    pub async fn get(&self, path: &str) -> Response {
        fetch(self.gateway.addr(), &get(path)).await
    }

    /// Waits until readiness says that the gateway goes down.
    ///
    /// # Panics
    /// When it stays ready.
    pub async fn drains(&self) {
        let draining = self.poll(PATIENCE, async || self.get("/readyz").await.status == 503);
        assert!(draining.await, "still ready: {}", self.gateway.log());
    }

    /// The metrics of now.
    pub async fn metrics(&self) -> Metrics {
        self.gateway.metrics().await
    }

    /// The sum of the samples with these labels, now.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.metrics().await.sum(name, labels)
    }

    /// Waits until the samples with these labels add up to this.
    ///
    /// # Panics
    /// When they do not, within two seconds.
    pub async fn metric_becomes(&self, name: &str, labels: &[(&str, &str)], want: f64) {
        let settled = self.poll(Duration::from_secs(2), async || {
            // Counters are whole numbers far below where floats lose them.
            (self.metric(name, labels).await - want).abs() < 1e-9
        });
        if !settled.await {
            let metrics = self.metrics().await;
            let got: Vec<_> = metrics.all(name, &[]).collect();
            panic!("{name}{labels:?} is not {want}; there are {got:#?}");
        }
    }

    /// Requests with this outcome so far.
    pub async fn outcome(&self, outcome: &str, want: usize) {
        let want = u32::try_from(want).expect("a small number");
        self.metric_becomes("sluice_requests_total", &[("outcome", outcome)], want.into()).await;
    }

    /// The breaker of a target as the admin page tells it.
    ///
    /// # Panics
    /// When the page does not know the target.
    pub async fn breaker(&self, target: &str) -> Value {
        let page = self.gateway.admin_json("/debug/upstreams").await;
        let entries = page["targets"].as_array().expect("a list of targets");
        let entry = entries.iter().find(|entry| entry["target"] == target);
        entry.unwrap_or_else(|| panic!("no {target} in {page}"))["breaker"].clone()
    }

    /// State and counted failures of a breaker.
    pub async fn breaker_is(&self, target: &str, state: &str, failures: u64) {
        let mut last = Value::Null;
        let settled = self.poll(Duration::from_secs(1), async || {
            let breaker = self.breaker(target).await;
            breaker["state"] == state && breaker["failures"] == failures
        });
        if !settled.await {
            last = self.breaker(target).await;
        }
        assert!(last.is_null(), "{target}: {last}, wanted {state} with {failures} failures");
    }

    /// The record of one response.
    ///
    /// # Panics
    /// When it is not written, or the response has no id.
    pub async fn record(&self, response: &Response) -> Value {
        let id = response.request_id().unwrap_or_else(|| panic!("no request id: {response:?}")).to_owned();
        self.gateway.wait_for_event("request", |record| record["request_id"] == id.as_str()).await
    }

    /// Attempts seen by A, B and C.
    #[track_caller]
    pub fn calls(&self, want: [usize; 3]) {
        let got = [self.a.calls(), self.b.calls(), self.c.calls()];
        assert_eq!(got, want, "attempts at A, B, C");
    }

    /// Three counted failures of A on `chat`, which open its breaker; A is healthy again afterwards.
    pub async fn open_a(&self) {
        self.a.play(STATUS(503));
        for _ in 0..3 {
            self.call("chat").await;
        }
        self.a.healthy();
        self.breaker_is("A/a1", "open", 3).await;
    }

    /// A time is what the case says: no earlier, and later only by what a busy machine takes.
    #[track_caller]
    pub fn near(&self, got: Duration, want: Duration) {
        self.between(got, want, want);
    }

    /// The same for a range.
    #[track_caller]
    pub fn between(&self, got: Duration, from: Duration, to: Duration) {
        let (from, to) = (self.t(from), self.t(to));
        assert!(got + EARLY >= from && got <= to + SLACK, "{got:?}, wanted {from:?} to {to:?}");
    }

    /// How long after `from` the gateway closed an attempt of this upstream.
    pub async fn closed_after(&self, upstream: &Upstream, n: usize, from: Instant) -> Duration {
        upstream.closed_within(n, PATIENCE).await.saturating_duration_since(from)
    }

    /// Asks again and again until it is so; false when the time is over.
    pub async fn poll(&self, within: Duration, mut ready: impl AsyncFnMut() -> bool) -> bool {
        let end = now() + within;
        loop {
            // A look that takes long must not be the last one: what it waits for may need this very thread.
            let last = now() >= end;
            if ready().await {
                return true;
            }
            if last {
                return false;
            }
            // A page tells nobody when it changes; it has to be asked.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The end of every case: condition Z. Hands the gateway over for what a case asks of it afterwards.
    pub async fn end(self) -> Gateway {
        crate::z::check(&self).await;
        self.gateway
    }
}
