#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn source(bytes: &[u8], sidecar: Option<&str>) -> Source {
    Source { bytes: bytes.into(), sidecar: sidecar.map(|text| text.as_bytes().into()) }
}

#[test]
fn what_last_ran_comes_back_with_its_sidecar_and_what_nothing_names_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let kept = LastGood::new(dir.path());
    let (one, two, three) =
        (source(b"one", Some("weight: 2\n")), source(b"two", None), source(b"three", None));
    assert_eq!(kept.load("a"), None);
    kept.save("a", &one, None);
    kept.save("b", &two, None);
    kept.save("a", &three, Some(&digest(b"one")));
    assert_eq!(kept.load("a"), Some(three));
    kept.roll_back("a");
    assert_eq!(kept.load("a").as_ref(), Some(&one));
    let again = source(b"one", Some("weight: 3\n"));
    kept.save("a", &again, Some(&digest(b"one")));
    assert_eq!(kept.load("a"), Some(again), "the same bytes, run otherwise");
    kept.roll_back("a");
    assert_eq!(kept.load("a"), Some(one));
    kept.forget("b");
    assert_eq!(kept.load("b"), None);
    let names: BTreeSet<String> = fs::read_dir(dir.path().join("plugins"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, BTreeSet::from(["a.json".into(), format!("{}.wasm", digest(b"one"))]));
}

#[test]
fn what_a_start_finds_kept_says_what_ran_before_and_what_failed() {
    let dir = tempfile::tempdir().unwrap();
    let kept = LastGood::new(dir.path());
    let (one, two) = (source(b"one", None), source(b"two", Some("weight: 2\n")));
    let standing = |of: &Source| kept.standing("a", &digest(&of.bytes), of.sidecar.as_deref());
    assert_eq!(standing(&one), Standing::Unknown);
    kept.save("a", &one, None);
    assert_eq!((standing(&one), standing(&two)), (Standing::Unknown, Standing::After));
    // As after a start: nothing ran in this process.
    for _ in 0..2 {
        kept.save("a", &two, None);
        assert_eq!(standing(&two), Standing::After);
        assert_eq!(kept.load_before("a").as_ref(), Some(&one));
    }
    kept.roll_back("a");
    assert_eq!(standing(&two), Standing::Failed);
    assert_eq!(standing(&source(b"two", None)), Standing::After, "run otherwise");
    assert_eq!((kept.load("a"), kept.load_before("a")), (Some(one.clone()), None));
    kept.save("a", &two, Some(&digest(b"one")));
    kept.proven("a");
    assert_eq!((standing(&two), kept.load_before("a")), (Standing::Unknown, None));
    assert!(!dir.path().join(format!("plugins/{}.wasm", digest(b"one"))).exists());
}

#[test]
fn changes_are_queued_without_a_wait_written_in_order_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let kept = LastGood::new(dir.path());
    let name: Arc<str> = "a".into();
    let save = |bytes: &[u8]| Change::Save { source: source(bytes, None), before: None };
    let disk = kept.disk.lock().unwrap();
    assert!(kept.queued(&name, save(b"one")), "somebody has to write it");
    assert!(!kept.queued(&name, Change::Forget), "and is at it");
    assert!(!kept.queued(&name, save(b"two")));
    drop(disk);
    assert_eq!(kept.load("a"), Some(source(b"two", None)), "what is read is what was said last");
    assert!(kept.queued(&name, Change::Forget));
    let large = source(&vec![0; QUEUED_BYTES_MAX / 2 + 1], None);
    let large = || Change::Save { source: large.clone(), before: None };
    assert!(!kept.queued(&name, large()));
    assert!(!kept.queued(&name, large()), "there is no room for it");
    assert_eq!(kept.queue().changes.len(), 2);
}

#[test]
fn bytes_that_were_changed_on_disk_are_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let kept = LastGood::new(dir.path());
    kept.save("a", &source(b"one", None), None);
    fs::write(dir.path().join("plugins").join(format!("{}.wasm", digest(b"one"))), b"evil").unwrap();
    assert_eq!(kept.load("a"), None);
}

#[test]
fn a_folder_that_cannot_be_written_is_done_without() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let kept = LastGood::new(&file);
    kept.save("a", &source(b"one", None), None);
    kept.forget("a");
    assert_eq!(kept.load("a"), None);
}
