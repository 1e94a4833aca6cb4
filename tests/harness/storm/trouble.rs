//! What is changed under a gateway while it serves: plugins swapped, broken and taken away; its file rewritten,
//! spoiled and touched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Shared;

/// Components that are in the repository as they ship.
pub(super) const SHIPPED: [&str; 3] = ["weighted-router", "standard-classifier", "standard-tagger"];

pub(super) fn shipped(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let file = root.join("plugins").join(name).join(format!("{name}.wasm"));
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// As an editor or a deployment does it: aside, then in the place of the old.
pub(super) fn replace(file: &Path, bytes: &[u8]) {
    let aside = file.with_extension("new");
    std::fs::write(&aside, bytes).expect("a file in our own directory");
    std::fs::rename(aside, file).expect("a file of our own");
}

pub(super) async fn plugins(shared: Arc<Shared>, dir: PathBuf, mut rng: fastrand::Rng) {
    loop {
        tokio::time::sleep(Duration::from_millis(rng.u64(300..2500))).await;
        let name = rng.choice(SHIPPED).expect("some");
        let file = dir.join(format!("{}.wasm", rng.choice(["one", "two", "three"]).expect("some")));
        match rng.u8(..6) {
            0 => drop(std::fs::remove_file(&file)),
            1 => replace(&file, b"\0asm, but not really"),
            2 => {
                // Half of it, in place, as a copy that is under way.
                let bytes = shipped(name);
                std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("a file in our own directory");
            }
            _ => {
                // A custom section at the end makes another digest of the same component.
                let mut bytes = shipped(name);
                bytes.extend_from_slice(&[0, 6, 1, b's', rng.u8(..), rng.u8(..), rng.u8(..), rng.u8(..)]);
                replace(&file, &bytes);
            }
        }
        shared.count("plugin changes");
    }
}

pub(super) async fn configuration(
    shared: Arc<Shared>,
    dir: PathBuf,
    config: impl Fn(&mut fastrand::Rng) -> Value,
    mut rng: fastrand::Rng,
) {
    let file = dir.join("sluice.yaml");
    loop {
        tokio::time::sleep(Duration::from_millis(rng.u64(800..3000))).await;
        match rng.u8(..4) {
            0 => replace(&file, b"routes: [this is no configuration"),
            1 => {
                let text = std::fs::read(&file).expect("a file of our own");
                std::fs::write(&file, text).expect("a file of our own");
            }
            _ => {
                let mut config = config(&mut rng);
                // The doors are where they are.
                config["decisions"] = rng.u32(16..512).into();
                replace(&file, config.to_string().as_bytes());
            }
        }
        shared.count("configuration changes");
    }
}
