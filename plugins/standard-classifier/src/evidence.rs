//! All that is known about a failure, in the form in which it is judged.

use std::borrow::Cow;

use sluice_sdk::FailureFacts;

use crate::body::{self, Body};

/// What is known about a failure.
pub struct Evidence<'a> {
    /// The attempt failed below HTTP.
    pub transport: Option<Transport>,
    /// Status of the answer.
    pub status: Option<u16>,
    /// Names that the upstream gave to the error, the most telling first.
    pub names: Vec<Cow<'a, str>>,
    /// An HTTP status given as a code inside the body.
    pub inner_status: Option<u16>,
    /// The message, in lower case; cut.
    pub message: String,
    /// The upstream said when to come back.
    pub hinted: bool,
}

/// How an attempt failed below HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A clock of the gateway fired.
    Timeout,
    /// Anything else.
    Broken,
}

impl<'a> Evidence<'a> {
    /// Reads a failure.
    pub fn of(failure: &'a FailureFacts) -> Self {
        let Body { names, numbers, message } = body::read(&failure.body);
        let told = [failure.error_code.as_deref(), failure.error_type.as_deref()];
        let told = told.into_iter().flatten();
        let inner_status =
            told.clone().filter_map(|code| code.trim().parse().ok()).chain(numbers).find(is_http_error);
        Self {
            transport: failure.transport_error.as_deref().map(|error| match error {
                "timeout" => Transport::Timeout,
                _ => Transport::Broken,
            }),
            status: failure.status,
            names: told.map(Cow::Borrowed).chain(names.into_iter().map(Cow::Owned)).collect(),
            inner_status,
            message,
            hinted: failure.retry_after_ms.is_some(),
        }
    }
}

fn is_http_error(status: &u16) -> bool {
    (400..=599).contains(status)
}
