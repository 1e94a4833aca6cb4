//! Background checks of upstreams with `probe: active`: once the open period of a target is over, a check takes
//! the one probe there is, unless a call has it already, and its answer closes or opens the breaker.
//!
//! One task for each upstream. It sleeps for the interval, or until the first open period ends; it holds no
//! permit, since it asks for a page and not for work; and it ends with its token.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use sluice_core::kind::FailureKind;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::config::{Config, Probe};
use crate::state::{Able, Cells, Lease, Pick, TargetCell, Ticket, UpstreamCell};
use crate::telemetry::Telemetry;
use crate::telemetry::events::{Event, ProviderEvent};
use crate::upstream::{Client, Line};

/// What the checks of one upstream need.
struct Prober {
    client: Arc<Client>,
    upstream: Arc<UpstreamCell>,
    targets: Vec<(Arc<str>, Arc<TargetCell>)>,
    path: String,
    interval: Duration,
    timeout: Duration,
    telemetry: Telemetry,
}

/// What a check says about the targets of its upstream.
#[derive(Clone, Copy)]
enum Finding {
    Well,
    Failing {
        kind: FailureKind,
        status: Option<u16>,
    },
    /// It answered, but not what would tell: the slot is given back.
    Nothing,
}

/// Starts the checks of a configuration.
pub(super) fn start(
    config: &Config,
    cells: &Cells,
    clients: &BTreeMap<Arc<str>, Arc<Client>>,
    telemetry: &Telemetry,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) {
    for (name, upstream) in &config.upstreams {
        let Probe::Active { path, interval, timeout } = &upstream.probe else { continue };
        let (Some(client), Some(cell)) = (clients.get(name), cells.upstreams.get(name)) else { continue };
        let own = config.targets.iter().zip(&cells.targets).filter(|(t, _)| t.upstream.name == *name);
        let prober = Prober {
            client: client.clone(),
            upstream: cell.clone(),
            targets: own.map(|(target, cell)| (target.key.clone(), cell.clone())).collect(),
            path: path.clone(),
            interval: *interval,
            timeout: *timeout,
            telemetry: telemetry.clone(),
        };
        let stop = stop.clone();
        tracker.spawn(async move {
            tokio::select! {
                () = prober.run() => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

impl Prober {
    async fn run(&self) {
        loop {
            let now = clock::now();
            tokio::time::sleep_until(self.next_look(now).into()).await;
            self.look().await;
        }
    }

    /// At the end of the first open period, at the latest after the interval.
    fn next_look(&self, now: Instant) -> Instant {
        let until = |(_, target): &(_, Arc<TargetCell>)| match target.able(now) {
            Able::Open { until } => until,
            _ => None,
        };
        let first = self.targets.iter().filter_map(until).min();
        let latest = now + self.interval;
        first.map_or(latest, |until| until.min(latest))
    }

    /// One check for all targets whose probe slot is free: it asks the same of all of them.
    async fn look(&self) {
        let now = clock::now();
        if !self.targets.iter().any(|(_, target)| target.able(now) == Able::Probe) {
            return;
        }
        let credential = match self.upstream.pick(now, &[]) {
            Pick::Lease(lease) => Some(lease),
            Pick::NoneNeeded => None,
            // Without a credential the answer would be about the credential.
            Pick::AllAside(_) | Pick::NoneLeft => return,
        };
        let slots: Vec<_> =
            self.targets.iter().filter_map(|(key, target)| Some((key, slot(target)?))).collect();
        if slots.is_empty() {
            return;
        }
        let began = clock::now();
        let finding = self.check(credential.as_ref()).await;
        let now = clock::now();
        let took = Some(now.saturating_duration_since(began));
        for (key, ticket) in slots {
            match finding {
                Finding::Well => {
                    ticket.success(now);
                    self.tell(ProviderEvent::ProbeSucceeded, key, None, None, took);
                    self.tell(ProviderEvent::Recovered, key, None, None, None);
                }
                Finding::Failing { kind, status } => {
                    ticket.failure(now);
                    self.tell(ProviderEvent::ProbeFailed, key, Some(kind), status, took);
                }
                Finding::Nothing => ticket.neutral(),
            }
        }
    }

    async fn check(&self, credential: Option<&Lease>) -> Finding {
        let line = Line::default();
        let make = || {
            let mut request = Request::new(Full::new(Bytes::new()));
            *request.method_mut() = Method::GET;
            self.client.address(&mut request, &self.path, credential.map(Lease::index));
            request
        };
        let answer = async {
            let exchange = self.client.exchange(clock::now(), self.timeout, &line, make).await.ok()?;
            let status = exchange.head.status;
            exchange.body.finish_aside(());
            Some(status)
        };
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(Some(status)) => found(status),
            Ok(None) => Finding::Failing { kind: FailureKind::RetryableUpstream, status: None },
            Err(_) => Finding::Failing { kind: FailureKind::RetryableTimeout, status: None },
        }
    }

    fn tell(
        &self,
        what: ProviderEvent,
        target: &Arc<str>,
        kind: Option<FailureKind>,
        status: Option<u16>,
        took: Option<Duration>,
    ) {
        let target = target.clone();
        self.telemetry.event(&Event::Provider { what, target, request_id: None, kind, status, took });
    }
}

/// The probe slot of a target, if it is free. A call may have taken it: then that is the probe.
fn slot(target: &TargetCell) -> Option<Ticket> {
    let now = clock::now();
    if target.able(now) != Able::Probe {
        return None;
    }
    // Closed again in between: an ordinary ticket, which teaches nothing when it is dropped.
    target.admit(now).ok().filter(Ticket::is_probe)
}

fn found(status: StatusCode) -> Finding {
    match status.as_u16() {
        200..=299 => Finding::Well,
        // It is there; that it has no such page, or not for us, is no word about the model.
        400..=499 => Finding::Nothing,
        status @ (504 | 524) => {
            Finding::Failing { kind: FailureKind::RetryableTimeout, status: Some(status) }
        }
        status => Finding::Failing { kind: FailureKind::RetryableUpstream, status: Some(status) },
    }
}
