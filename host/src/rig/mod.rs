//! What `sluice demo` and `sluice drill` are built with: a client, a folder that goes with them, numbers of a metrics
//! page, a strict reader of event streams, a configuration that can do no harm. Nothing here decides whether a number,
//! an answer or a stream is a good one.

pub mod client;
mod folder;
mod harmless;
mod metrics;
mod sse;

pub use folder::Folder;
pub use harmless::{Instead, harmless};
pub use metrics::Metrics;
pub use sse::Sse;
