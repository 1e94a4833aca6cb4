//! The bench, and bundled components to put on it.

use sluice_core::facts::PluginKind;

pub use super::bench::*;

/// Bytes of a bundled plugin.
pub fn bundled(kind: PluginKind) -> Vec<u8> {
    super::super::bundled::source(kind).1.to_vec()
}

/// The same component with another digest: a custom section at the end changes nothing of what it does.
pub fn variant(kind: PluginKind, mark: u8) -> Vec<u8> {
    marked(bundled(kind), mark)
}

fn marked(mut bytes: Vec<u8>, mark: u8) -> Vec<u8> {
    bytes.extend_from_slice(&[0, 6, 4, b'm', b'a', b'r', b'k', mark]);
    bytes
}

/// A component of this repository, by the path of its source.
pub fn component(dir: &str) -> Vec<u8> {
    let dir = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(dir);
    let name = dir.file_name().unwrap().to_str().unwrap();
    std::fs::read(dir.join(format!("{name}.wasm"))).unwrap()
}

/// A router that traps for a request with the header `x-fault`.
pub fn faulty(mark: u8) -> Vec<u8> {
    marked(component("plugins/fault-router"), mark)
}

/// Replaces a text inside by one of the same length.
pub fn patched(mut bytes: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter(|(_, part)| *part == from.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "`{from}` is not in it");
    for at in places {
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}
