//! What a plugin writes to its log while it is tried: kept, a bounded number, and shown with the result.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluice_core::facts::PluginKind;

use crate::plugin::{CallResult, LogLine, LogSource, PluginWatch, Reload};

/// Lines kept; further ones are counted.
const KEPT: usize = 64;

/// The lines so far.
#[derive(Debug, Default)]
pub struct Lines(Mutex<(Vec<String>, usize)>);

impl Lines {
    /// Takes what was written since the last call.
    pub fn take(&self) -> Vec<String> {
        let (mut lines, more) = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if more > 0 {
            lines.push(format!("and {more} more lines"));
        }
        lines
    }

    /// Writes and forgets them.
    ///
    /// # Errors
    /// What writing gives.
    pub fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        self.take().iter().try_for_each(|line| writeln!(out, "  {line}"))
    }
}

impl PluginWatch for Lines {
    fn called(&self, _: &str, _: PluginKind, _: CallResult, _: Duration) {}
    fn reloaded(&self, _: &str, _: Reload<'_>) {}
    fn set_aside(&self, _: &str, _: Duration) {}
    fn last_resort(&self, _: PluginKind) {}

    fn log_line(&self, line: &LogLine<'_>) {
        let from = match line.source {
            LogSource::Log => "log",
            LogSource::Stdout => "stdout",
            LogSource::Stderr => "stderr",
            // The result says the same.
            LogSource::Host => return,
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0.len() < KEPT {
            let level = format!("{:?}", line.level).to_lowercase();
            kept.0.push(format!("{from} {level}: {}", line.text));
        } else {
            kept.1 += 1;
        }
    }
}
