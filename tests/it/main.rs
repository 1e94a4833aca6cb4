//! Scenarios: one binary, so that everything they share is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod attack;
mod attack_http2;
mod attack_slow;
mod attack_upstream;
mod cases_after_commit;
mod cases_before_commit;
mod cases_breaker;
mod cases_bytes;
mod cases_framing;
mod cases_gates;
mod cases_telling;
mod config_examples;
mod config_golden;
mod config_properties;
mod demo;
mod expect;
mod guests;
mod plugins_admission;
mod plugins_faults;
mod plugins_support;
mod plugins_together;
mod rows_answers;
mod rows_breaker;
mod rows_cancel;
mod rows_drain;
mod rows_plugins;
mod rows_refused;
mod rows_rejected;
mod rows_time;
mod sdks;
mod smoke;
mod tidy;
