//! Sluice: an LLM gateway that its operators program in WebAssembly.

pub mod cli;
pub mod clock;
pub mod config;
pub mod state;
pub mod server;
pub mod telemetry;
