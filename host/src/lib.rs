//! Sluice: an LLM gateway that its operators program in WebAssembly.

pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod drill;
pub mod exit;
pub mod files;
pub mod gateway;
pub mod generation;
pub mod mock;
pub mod plugin;
pub mod policy;
pub mod proxy;
mod rig;
pub mod server;
pub mod state;
pub mod store;
pub mod telemetry;
mod traces;
mod tracked;
mod turn;
pub mod upstream;
mod woken;
