//! Sluice: an LLM gateway that its operators program in WebAssembly.

pub mod config;
pub mod server;
pub mod telemetry;
