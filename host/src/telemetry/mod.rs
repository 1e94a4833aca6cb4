//! Telling what happened: metrics, events, records, the log, and the last decisions.
//!
//! [`Telemetry`] is the one handle the rest of the gateway holds. What happens is told to it once, in the
//! words of the gateway, and it goes to every place where it belongs. Nothing here blocks a stream: a step of
//! a counter, a short lock, or a line that is dropped and counted. Nothing here takes part in a decision, and
//! no type that holds a secret comes in.

pub mod decisions;
pub mod events;
mod json;
pub mod log;
pub mod metrics;
pub mod names;
pub mod queue;
pub mod record;
pub mod traces;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tracing_subscriber::filter::Targets;

use crate::config::{Log, LogFormat};
use decisions::{Decision, Decisions, Entry};
use events::{Event, PluginChange};
use log::{LevelError, LineWriter};
use metrics::{Metrics, MetricsError, Names, PluginReload, RequestSummary};
use queue::RecordQueue;
use record::Record;
use traces::{Trace, TraceQueue, Traced};

/// Version of the plugin contract that this host offers first.
pub const CONTRACT: &str = "0.1.0";

/// What `log.level` knows event lines by, beside the modules of log lines.
const EVENTS: &str = "sluice::event";

/// Why there is no telemetry.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A metric could not be made.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// `log.level` could not be read.
    #[error(transparent)]
    Level(#[from] LevelError),
}

/// The handle. Clones share everything.
#[derive(Debug, Clone)]
pub struct Telemetry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: Metrics,
    writer: LineWriter,
    decisions: Decisions,
    records: RecordQueue,
    traces: TraceQueue,
    log: ArcSwap<LogRules>,
}

#[derive(Debug)]
struct LogRules {
    log: Log,
    levels: Targets,
}

impl LogRules {
    fn new(log: &Log) -> Result<Self, LevelError> {
        Ok(Self { log: log.clone(), levels: log::level(&log.level)? })
    }
}

impl Telemetry {
    /// Telemetry of one gateway, whose lines go to `writer` and whose last `decisions` requests are kept.
    pub fn new(
        names: &Names,
        log: &Log,
        decisions: usize,
        writer: LineWriter,
    ) -> Result<Self, TelemetryError> {
        Ok(Self(Arc::new(Inner {
            metrics: Metrics::new(names)?,
            writer,
            decisions: Decisions::new(decisions),
            records: RecordQueue::default(),
            traces: TraceQueue::default(),
            log: ArcSwap::from_pointee(LogRules::new(log)?),
        })))
    }

    /// Takes a new configuration. When it fails, nothing has changed. The level of the process's log lines is
    /// apart: [`log::relevel`].
    pub fn reconfigure(&self, names: &Names, log: &Log, decisions: usize) -> Result<(), TelemetryError> {
        let rules = LogRules::new(log)?;
        self.0.writer.set_format(log.format);
        self.0.log.store(Arc::new(rules));
        self.0.decisions.resize(decisions);
        self.0.metrics.set_names(names);
        Ok(())
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The last requests.
    pub fn decisions(&self) -> &Decisions {
        &self.0.decisions
    }

    /// Records on their way to the store.
    pub fn records(&self) -> &RecordQueue {
        &self.0.records
    }

    /// Traces on their way to the collector.
    pub fn traces(&self) -> &TraceQueue {
        &self.0.traces
    }

    /// Something happened: one step of its counter, and a line if `log.level` wants it.
    pub fn event(&self, event: &Event) {
        let inner = &*self.0;
        count(&inner.metrics, event);
        let rules = inner.log.load();
        if rules.levels.would_enable(EVENTS, &event.level()) {
            inner.writer.push(&event.line(rules.log.format, crate::clock::wall()));
        }
    }

    /// A request has ended. To be called once for each: it is counted, its record is written (`log.records`)
    /// and queued for the store if there is one, its `trace` for the collector, and it is kept among the last decisions. `overhead` is
    /// the gateway's own part of its time.
    pub fn settled(
        &self,
        mut record: Record,
        decision: Decision,
        overhead: Option<Duration>,
        trace: Option<Box<Trace>>,
    ) {
        let inner = &*self.0;
        inner.metrics.request_ended(&summary(&record, overhead));
        record.bound();
        let Log { records, format, .. } = inner.log.load().log;
        let (as_json, kept) = (records && format == LogFormat::Json, inner.decisions.keeps_any());
        let line = (as_json || kept).then(|| record::line(&record));
        let taken = match &line {
            Some(line) if as_json => inner.writer.push(line.written()),
            _ => !records || inner.writer.push(&record.text()),
        };
        if !taken {
            inner.metrics.records_dropped(1);
        }
        if let Some(line) = line.filter(|_| kept) {
            inner.decisions.push(Entry::new(line, &record.request_id, decision));
        }
        if trace.is_none() && !inner.records.is_wanted() {
            return;
        }
        let record = Arc::new(record);
        if !inner.records.push(&record) {
            inner.metrics.records_dropped(1);
        }
        if let Some(trace) = trace {
            let traced = Traced { record: record.clone(), trace };
            let spans = traced.spans();
            if !inner.traces.push(traced) {
                inner.metrics.spans_dropped(spans);
            }
        }
    }

    /// Writes what is queued and takes nothing more; blocks the calling thread for at most `patience`. False:
    /// not all was written.
    pub fn close(&self, patience: Duration) -> bool {
        self.0.writer.close(patience)
    }
}

fn count(metrics: &Metrics, event: &Event) {
    match event {
        Event::Provider { what, target, .. } => metrics.provider_event(target, *what),
        Event::Breaker { target, to, .. } => metrics.breaker_transition(target, *to),
        Event::ConfigReloaded { .. } => metrics.config_reloaded(Ok(())),
        Event::ConfigRejected { fault, .. } => metrics.config_reloaded(Err(*fault)),
        Event::Plugin { plugin, change } => {
            let reload = match change {
                PluginChange::Loaded { .. } => PluginReload::Loaded,
                PluginChange::Rejected { fault, .. } => PluginReload::Rejected(*fault),
                PluginChange::RolledBack { .. } => PluginReload::RolledBack,
                PluginChange::Removed => PluginReload::Removed,
                // A pause changes what answers, not what is loaded; `sluice_plugin_state` shows it.
                PluginChange::SetAside { .. } => return,
            };
            metrics.plugin_reloaded(plugin, reload);
        }
    }
}

fn summary(record: &Record, overhead: Option<Duration>) -> RequestSummary<'_> {
    RequestSummary {
        model: record.model.as_deref(),
        target: record.served.as_ref().map(|served| &*served.target),
        stream: record.stream,
        status: record.status,
        outcome: record.outcome,
        fallback: record.role == sluice_core::kind::Role::Fallback,
        duration: record.duration,
        first_content: record.ttft,
        overhead,
        attempts: u32::try_from(record.attempts.len()).unwrap_or(u32::MAX),
        usage: record.tokens,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
