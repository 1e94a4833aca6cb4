//! DeepSeek, which names almost every error `invalid_request_error` and means the status.

use sluice_sdk::FailureKind::{ContentFiltered, ModelUnavailable};

use super::Provider;
use super::Words::Begins;

/// What it says.
pub const SAYS: Provider = Provider {
    names: &[],
    words: &[(Begins("content exists risk"), ContentFiltered), (Begins("model not exist"), ModelUnavailable)],
};
