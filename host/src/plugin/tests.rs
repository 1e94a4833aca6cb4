//! The bundled components through the whole of the plugin host: folder, admission, calls, reloads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod folder_changes;
mod refusals;
mod running;
mod seam;
mod sidecars;
mod support;
