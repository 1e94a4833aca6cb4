//! The components the demo puts into plugins folders. They lie beside their sources in this repository.

use sha2::{Digest, Sha256};

/// A router that prefers the last target.
pub const PREFER_LAST: &[u8] = include_bytes!("../../../examples/plugins/prefer-last/prefer-last.wasm");
/// A router that breaks when a request asks it to.
pub const FAULT_ROUTER: &[u8] = include_bytes!("../../../plugins/fault-router/fault-router.wasm");
/// The bundled router, which keeps the configured order.
pub const WEIGHTED: &[u8] = include_bytes!("../../../plugins/weighted-router/weighted-router.wasm");

/// The begin of a digest, as policy headers show it.
pub fn short_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}
