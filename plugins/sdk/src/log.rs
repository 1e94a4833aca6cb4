//! Lines for the log of the gateway, which adds the plugin's name and digest.
//!
//! In a native build there is no gateway: lines are kept for the running test, which reads them with
//! [`crate::testing::logged`].

pub use crate::bindings::plugin::sluice::policy::log::Level;

/// For the author of the plugin.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Worth knowing.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Something is not as it should be.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// A decision could not be made as intended.
pub fn error(message: &str) {
    write(Level::Error, message);
}

#[cfg(target_arch = "wasm32")]
fn write(level: Level, message: &str) {
    crate::bindings::plugin::sluice::policy::log::log(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
fn write(level: Level, message: &str) {
    crate::testing::record(level, message);
}
