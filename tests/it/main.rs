//! Scenarios: one binary, so that everything they share is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod config_examples;
mod config_golden;
mod config_properties;
mod decide_clocks;
mod decide_complete;
mod decide_credentials;
mod decide_fit;
mod decide_gates;
mod decide_probe;
mod plugins_admission;
mod plugins_faults;
mod plugins_support;
mod plugins_together;
mod running;
mod sdks;
mod tidy;
