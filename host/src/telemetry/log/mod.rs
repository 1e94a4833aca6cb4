//! The log: lines of `tracing` in the configured form, on the same writer as events and records.
//!
//! The subscriber of `tracing` is one for the process; events and records are not sent through it, because
//! several gateways may run in one process and each has its own sink ([`LineWriter`]).

pub mod line;
mod writer;

use std::fmt;
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::{Registry, reload};

use crate::config::Log;
use line::{Clipped, Line};

pub use writer::{Bounds, LineWriter, WriterError};

/// A `log.level` that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "log level: expected `error`, `warn`, `info`, `debug`, `trace`, `off` or a list of `module=level`: {0}"
)]
pub struct LevelError(#[from] tracing_subscriber::filter::ParseError);

/// Reads a `log.level`: a level, or a list of `module=level`, as `RUST_LOG` has it. Its filters on spans and
/// fields are accepted and decide nothing, because lines here carry no spans; what is left of nothing is `error`.
pub fn level(text: &str) -> Result<Targets, LevelError> {
    let parts: Vec<_> =
        text.split(',').map(str::trim).filter(|p| !p.is_empty() && !p.contains('[')).collect();
    if parts.is_empty() {
        return Ok(Targets::new().with_default(LevelFilter::ERROR));
    }
    Ok(parts.join(",").parse()?)
}

/// Changes the level of the installed subscriber.
static LEVEL: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Makes `writer` the place of the process's log lines. False: the process has a subscriber already, which
/// stays.
pub fn install(log: &Log, writer: LineWriter) -> Result<bool, LevelError> {
    let (filter, handle) = reload::Layer::new(level(&log.level)?);
    let layer = LineLayer { writer };
    let installed =
        tracing::subscriber::set_global_default(Registry::default().with(filter).with(layer)).is_ok();
    if installed {
        // Set once, because a global subscriber is installed once.
        let _ = LEVEL.set(handle);
    }
    Ok(installed)
}

/// Puts another `log.level` in force. False: [`install`] never succeeded in this process.
pub fn relevel(text: &str) -> Result<bool, LevelError> {
    let targets = level(text)?;
    Ok(LEVEL.get().is_some_and(|handle| handle.reload(targets).is_ok()))
}

/// Writes each `tracing` event as a line: `time`, `level`, `message` (or `event`), `module`, then its fields.
/// Spans leave no trace in it.
#[derive(Debug)]
pub struct LineLayer {
    writer: LineWriter,
}

impl LineLayer {
    /// A layer of its own, for a subscriber that is not the global one.
    pub const fn new(writer: LineWriter) -> Self {
        Self { writer }
    }
}

impl<S: Subscriber> Layer<S> for LineLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        let mut line = Line::new(self.writer.format(), crate::clock::wall(), *meta.level());
        // The message first, wherever it stands in the call: it is what a reader looks for.
        event.record(&mut Fields { line: &mut line, message: true });
        line.text("module", meta.target());
        event.record(&mut Fields { line: &mut line, message: false });
        self.writer.push(&line.finish());
    }
}

/// Puts the fields of an event into a line: in one pass only `message` and `event`, in the other all others.
struct Fields<'a> {
    line: &'a mut Line,
    message: bool,
}

impl Fields<'_> {
    fn wants(&self, field: &Field) -> bool {
        matches!(field.name(), "message" | "event") == self.message
    }
}

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        if self.wants(field) {
            self.line.float(field.name(), value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if self.wants(field) {
            self.line.number(field.name(), value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if self.wants(field) {
            self.line.number(field.name(), value);
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if self.wants(field) {
            self.line.flag(field.name(), value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if self.wants(field) {
            self.line.text(field.name(), value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.wants(field) {
            self.line.text(field.name(), &Clipped::of(format_args!("{value:?}")));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
pub(crate) mod tests;
