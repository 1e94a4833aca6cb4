//! Policy plugins: from a file in the watched folder to answers.
//!
//! wasmtime lives here and nowhere else. What crosses the boundary of this module are the types of
//! `sluice_core::facts`; what a plugin's answer is worth is decided in [`crate::policy`].

mod admission;
mod author;
mod bundled;
mod call;
mod check;
mod compiled;
mod contract;
mod engine;
mod entry;
mod folder;
mod inspect;
mod instance;
mod job;
mod keeper;
mod last_good;
mod limits;
mod loaded;
mod options;
mod pool;
mod probe;
mod registry;
mod rehearsal;
mod rejection;
mod set;
mod state;
mod stats;
mod status;
mod stdio;
mod ticker;
mod watch;

pub use author::{Author, Cost, NotAsked, Overrides, Sample};
pub use bundled::BuiltinSettings;
pub use call::{Ask, CallError, CallResult, Said};
pub use contract::{ACCEPTED, Contract};
pub use loaded::Plugin;
pub use options::{Instances, OnError, PluginOptions};
pub use registry::{Registry, StartError};
pub use rehearsal::{Rehearsed, Rejected, rehearse};
pub use rejection::{Reason, Rejection};
pub use set::PluginSet;
pub use status::{PluginState, PluginStatus, RejectionStatus};
pub use watch::{LogLevel, LogLine, LogSource, PluginWatch, Quiet, Reload};

#[cfg(test)]
mod tests;
