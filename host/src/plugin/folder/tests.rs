#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn names(dir: &Path) -> Vec<String> {
    scan(dir).unwrap().files.iter().map(|found| found.file.to_string()).collect()
}

#[test]
fn only_plugin_files_are_listed_in_name_order() {
    let dir = tempfile::tempdir().unwrap();
    for file in [
        "b.wasm",
        "a.wasm",
        "c.cwasm",
        ".hidden.wasm",
        "d.wasm~",
        "e.wasm.tmp",
        "f.wasm.swp",
        "4913",
        ".wasm",
    ] {
        fs::write(dir.path().join(file), b"x").unwrap();
    }
    assert_eq!(names(dir.path()), ["a.wasm", "b.wasm", "c.cwasm"]);
    assert!(scan(&dir.path().join("missing")).is_err());
}

#[test]
fn a_file_that_changes_after_the_scan_is_looked_at_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.wasm");
    fs::write(&path, b"one").unwrap();
    let found = scan(dir.path()).unwrap().files.remove(0);
    assert_eq!(read(&found, 3), Ok(b"one".to_vec()));
    assert!(matches!(read(&found, 2), Err(NotRead::Refused(Rejection::TooLarge { size: 3, max: 2 }))));
    fs::write(&path, b"four").unwrap();
    assert_eq!(read(&found, 100), Err(NotRead::Changed));
    fs::remove_file(&path).unwrap();
    assert!(matches!(read(&found, 100), Err(NotRead::Refused(Rejection::Read(_)))));
}

#[test]
fn a_sidecar_belongs_to_its_plugin() {
    let dir = tempfile::tempdir().unwrap();
    for file in ["a.wasm", "a.yaml", "b.wasm"] {
        fs::write(dir.path().join(file), b"x").unwrap();
    }
    let scan = scan(dir.path()).unwrap();
    assert_eq!(scan.files.iter().map(|found| found.sidecar.is_some()).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn too_many_files_are_counted_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    for at in 0..FILES_MAX + 3 {
        fs::write(dir.path().join(format!("{at:04}.wasm")), b"x").unwrap();
    }
    let scan = scan(dir.path()).unwrap();
    assert_eq!((scan.files.len(), scan.left_out), (FILES_MAX, 3));
}
