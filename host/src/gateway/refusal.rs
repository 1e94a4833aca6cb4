//! Why a configuration was refused, once for the log and metrics and once for the page.

use std::path::Path;
use std::time::SystemTime;

use super::StartError;
use crate::config::{ConfigErrors, ErrorClass};
use crate::server::{Mistake, RejectedConfig};
use crate::telemetry::events::{ConfigFault, Event};

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    fault: ConfigFault,
    message: String,
    mistakes: Vec<Mistake>,
}

impl Refusal {
    /// By its file.
    pub(super) fn of_file(errors: &ConfigErrors) -> Self {
        let fault = match errors.kind {
            ErrorClass::Read => ConfigFault::Read,
            ErrorClass::Syntax => ConfigFault::Syntax,
            ErrorClass::Invalid => ConfigFault::Invalid,
        };
        let mistakes = errors.findings.iter().map(|finding| Mistake {
            line: finding.line,
            column: finding.column,
            key: finding.path.clone(),
            text: finding.text.clone(),
        });
        Self { fault, message: errors.to_string(), mistakes: mistakes.collect() }
    }

    /// The file is right, and a gateway would not start with it all the same.
    pub(super) fn of_start(file: &Path, error: &StartError) -> Self {
        let message = format!("{}: a gateway would not start with it: {error}", file.display());
        Self { fault: ConfigFault::Invalid, message, mistakes: Vec::new() }
    }

    /// For log and metrics.
    pub(super) fn event(&self) -> Event {
        let (fault, message) = (self.fault, self.message.clone());
        Event::ConfigRejected { fault, mistakes: self.mistakes.len().max(1), message }
    }

    /// For the page.
    pub(super) fn for_page(&self, at: SystemTime) -> RejectedConfig {
        RejectedConfig {
            at,
            reason: self.fault.as_str(),
            message: self.message.clone(),
            mistakes: self.mistakes.clone(),
            standing: true,
        }
    }
}
