//! Sluice: an LLM gateway that its operators program in WebAssembly.

pub mod clock;
pub mod config;
pub mod plugin;
pub mod policy;
