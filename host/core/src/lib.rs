//! The pure decisions of the gateway.
//!
//! Nothing here reads a clock, takes a lock, does I/O or knows an async runtime, HTTP server or Wasm
//! engine: time is an argument (`std::time::Instant`), and effects are the caller's.
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test needs some moment to start from"))]

pub mod allowance;
pub mod aside;
pub mod breaker;
pub mod budget;
pub mod certificate;
pub mod clean;
pub mod coding;
pub mod debounce;
pub mod decide;
pub mod facts;
pub mod gate;
pub mod kind;
pub mod latency;
pub mod lens;
pub mod machine;
pub mod plan;
pub mod quota;
pub mod retention;
pub mod retry_after;
pub mod retry_budget;
pub mod sse;
pub mod stream;
pub mod tag_name;
pub mod trace;
pub mod verdict;
pub mod window;
