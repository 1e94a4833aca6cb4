//! The pure decisions of the gateway.
//!
//! Nothing here reads a clock, takes a lock, does I/O or knows an async runtime, HTTP server or Wasm
//! engine: time is an argument (`std::time::Instant`), and effects are the caller's.
#![deny(missing_docs)]

pub mod aside;
pub mod facts;
pub mod kind;
pub mod verdict;
