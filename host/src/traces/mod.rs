//! Spans on their way to a collector: taken from the queue of telemetry, sent in batches as OTLP over HTTP.
//!
//! Decides when is sent, how often it is tried and what is given up: nothing here is waited for by a request, what
//! finds no room or no collector is dropped and counted. What spans say is in `span`. Not decided here: which
//! requests have a trace.

mod send;
mod span;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Traces;
use crate::telemetry::Telemetry;
use crate::telemetry::traces::Traced;
use send::{Cause, Sender};

/// Requests are gathered for so long before they are sent.
const GATHER: Duration = Duration::from_millis(200);
/// Requests of one batch.
const BATCH: usize = 256;
/// Pauses between the tries of one batch.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// What is queued at the end is sent within this.
const LAST: Duration = Duration::from_secs(3);

/// Spans cannot be sent so.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// Variables of the environment ask for what is not there.
    #[error("traces: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// TLS towards the collector.
    #[error("traces: {0}")]
    Tls(#[from] rustls::Error),
}

/// The way to the collector of a gateway, which comes, changes and goes with the configuration.
#[derive(Debug)]
pub struct Courier {
    telemetry: Telemetry,
    tasks: TaskTracker,
    running: Mutex<Option<Running>>,
}

/// The task that sends.
#[derive(Debug)]
struct Running {
    traces: Traces,
    way: watch::Sender<Arc<Way>>,
    closing: CancellationToken,
}

impl Courier {
    /// Nothing is sent yet. One courier for each telemetry.
    pub fn new(telemetry: &Telemetry) -> Self {
        Self { telemetry: telemetry.clone(), tasks: TaskTracker::new(), running: Mutex::default() }
    }

    /// From now on spans go there; none: nowhere. The collector need not be there. What waits goes to the new one.
    /// To be called within a runtime.
    ///
    /// # Errors
    /// Variables of the environment (`OTEL_EXPORTER_OTLP_…`) that ask for what is not there; then nothing has
    /// changed.
    pub fn take(&self, traces: Option<&Traces>) -> Result<(), TracesError> {
        let mut running = self.lock();
        let Some(traces) = traces else {
            // Its task sends what is queued, and ends.
            *running = None;
            self.telemetry.traces().want(false);
            return Ok(());
        };
        if running.as_ref().is_some_and(|running| running.traces.otlp == traces.otlp) {
            return Ok(());
        }
        let way = Arc::new(Way::new(traces, &self.tasks)?);
        if let Some(running) = running.as_mut() {
            running.traces = traces.clone();
            running.way.send_replace(way);
            return Ok(());
        }
        let closing = CancellationToken::new();
        let (to, from) = watch::channel(way);
        let task =
            Task { telemetry: self.telemetry.clone(), way: from, closing: closing.clone(), away: false };
        self.telemetry.traces().want(true);
        self.tasks.spawn(task.run());
        *running = Some(Running { traces: traces.clone(), way: to, closing });
        Ok(())
    }

    /// Whether spans could be sent so.
    ///
    /// # Errors
    /// As [`Courier::take`].
    pub fn rehearse(traces: &Traces) -> Result<(), TracesError> {
        Way::new(traces, &TaskTracker::new()).map(drop)
    }

    /// Sends what is queued, for a moment, and nothing more.
    pub async fn close(&self) {
        drop(self.lock().take());
        self.telemetry.traces().want(false);
        self.tasks.close();
        // The task keeps its own limit; connections end with it.
        let _ = tokio::time::timeout(2 * LAST, self.tasks.wait()).await;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    /// Also where nobody closes the courier.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// The way to one collector.
#[derive(Debug)]
struct Way {
    exporter: SpanExporter,
    /// Its URL, in which there is no secret.
    to: String,
    cause: Cause,
}

impl Way {
    fn new(traces: &Traces, tasks: &TaskTracker) -> Result<Self, TracesError> {
        let (to, cause) = (traces.endpoint(), Cause::default());
        // Between tries of its own the library puts the thread to sleep; trying again is done here.
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Sender::new(traces.otlp.tls, tasks.clone(), cause.clone())?)
            .with_retry_policy(RetryPolicy::disabled())
            .with_endpoint(&to)
            .build()?;
        exporter.set_resource(&resource());
        Ok(Self { exporter, to, cause })
    }

    /// Sends a batch; what went wrong, in words.
    async fn send(&self, batch: &[Traced]) -> Result<(), String> {
        let sent = self.exporter.export(batch.iter().flat_map(span::spans).collect()).await;
        let cause = self.cause.take();
        sent.map_err(|error| cause.unwrap_or_else(|| error.to_string()))
    }
}

/// Who sends: what `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say, else just our name.
fn resource() -> Resource {
    let named = |resource: &Resource| {
        let name = resource.get(&opentelemetry::Key::from_static_str("service.name"));
        name.is_some_and(|name| !name.as_str().starts_with("unknown_service"))
    };
    let builder = Resource::builder();
    let said = Resource::builder().build();
    let builder = if named(&said) { builder } else { builder.with_service_name("sluice") };
    builder.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build()
}

struct Task {
    telemetry: Telemetry,
    way: watch::Receiver<Arc<Way>>,
    closing: CancellationToken,
    /// The collector did not take what came last.
    away: bool,
}

impl Task {
    async fn run(mut self) {
        let (telemetry, closing) = (self.telemetry.clone(), self.closing.clone());
        let too_late = async {
            closing.cancelled().await;
            tokio::time::sleep(LAST).await;
        };
        tokio::select! {
            () = Box::pin(self.work()) => {}
            () = too_late => tracing::warn!(event = "traces_lost", "spans were not sent before the end"),
        }
        let left = telemetry.traces().take(usize::MAX);
        telemetry.metrics().spans_dropped(left.iter().map(Traced::spans).sum());
    }

    /// Sends what comes until nothing more is to come, and then what is there.
    async fn work(&mut self) {
        let (telemetry, closing) = (self.telemetry.clone(), self.closing.clone());
        while !closing.is_cancelled() {
            tokio::select! {
                () = telemetry.traces().filled() => {}
                () = closing.cancelled() => {}
            }
            tokio::select! {
                () = tokio::time::sleep(GATHER) => {}
                () = closing.cancelled() => {}
            }
            self.empty().await;
        }
    }

    /// Sends all that is queued.
    async fn empty(&mut self) {
        loop {
            let batch = self.telemetry.traces().take(BATCH);
            if batch.is_empty() {
                return;
            }
            self.deliver(batch).await;
        }
    }

    /// Sends a batch, or gives it up.
    async fn deliver(&mut self, batch: Vec<Traced>) {
        let count = batch.iter().map(Traced::spans).sum();
        // Counted before, so that a batch whose task is dropped with it is not forgotten.
        let given_up = GivenUp { telemetry: self.telemetry.clone(), count };
        let mut pauses = PAUSES.into_iter();
        loop {
            let way = self.way.borrow().clone();
            match way.send(&batch).await {
                Ok(()) => {
                    given_up.not();
                    self.telemetry.metrics().spans_exported(count);
                    if std::mem::take(&mut self.away) {
                        tracing::info!(event = "traces_back", "the collector takes spans again");
                    }
                    return;
                }
                Err(error) if !std::mem::replace(&mut self.away, true) => {
                    let to = &way.to;
                    tracing::warn!(event = "traces_away", %to, error, "the collector does not take spans");
                }
                Err(_) => {}
            }
            let Some(pause) = pauses.next().filter(|_| !self.closing.is_cancelled()) else { return };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.closing.cancelled() => {}
            }
        }
    }
}

/// Spans that count as lost when this is dropped.
struct GivenUp {
    telemetry: Telemetry,
    count: u64,
}

impl GivenUp {
    fn not(mut self) {
        self.count = 0;
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.telemetry.metrics().spans_dropped(self.count);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests;
