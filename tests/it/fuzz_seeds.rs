//! The seeds of the fuzz targets, through the same checks.

use std::fs;
use std::path::Path;

#[path = "../fuzz/checks/mod.rs"]
mod checks;

pub(crate) use checks::config::places;

fn replay(dirs: &[&str], check: fn(&[u8])) {
    let mut seeds = 0;
    for dir in dirs {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
        for entry in fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
            let path = entry.unwrap().path();
            // A folder of the golden files is of another kind.
            if path.is_dir() {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let held = std::panic::catch_unwind(|| check(&bytes));
            assert!(held.is_ok(), "the seed is {}", path.display());
            seeds += 1;
        }
    }
    assert!(seeds > 5, "no seeds in {dirs:?}");
}

#[test]
fn streams() {
    replay(&["fuzz/seeds/stream"], checks::stream::check);
}

#[test]
fn bodies() {
    replay(&["fuzz/seeds/body"], checks::body::check);
}

#[test]
fn hints() {
    replay(&["fuzz/seeds/hint"], checks::hint::check);
}

#[test]
fn configurations() {
    replay(&["fuzz/seeds/config", "config"], checks::config::check);
}
