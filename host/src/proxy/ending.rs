//! How a request ended, also where nothing came to say so.

use sluice_core::kind::Outcome;

use super::error::Failure;

/// Status of a request whose client left.
const CLIENT_CLOSED: u16 = 499;

/// How a request ended.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    /// Status the client was given.
    pub status: u16,
    /// What it counts as.
    pub outcome: Outcome,
    /// `error.code` of our answer.
    pub error_code: Option<String>,
}

impl Ending {
    /// The client left.
    pub const LEFT: Self =
        Self { status: CLIENT_CLOSED, outcome: Outcome::ClientCancelled, error_code: None };

    /// A panic tore it off, in the middle of a stream or before there was one.
    pub fn torn(in_stream: bool) -> Self {
        let internal = Failure::Internal;
        let (status, outcome) = if in_stream {
            (200, Outcome::Interrupted)
        } else {
            (internal.status().as_u16(), internal.outcome())
        };
        Self { status, outcome, error_code: Some(internal.code()) }
    }
}
