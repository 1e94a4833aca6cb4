use std::fs;

use super::*;
use crate::telemetry::record::Record;
use crate::telemetry::record::tests::sample;

fn lines(ids: std::ops::Range<u32>) -> Vec<Line> {
    let small = Record { decision: None, attempts: Vec::new(), ..sample() };
    let of =
        |n: u32| Line::of(&Record { request_id: format!("r{n}").as_str().into(), ..small.clone() }).unwrap();
    ids.map(of).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    found.sort();
    found
}

/// Everything that is in it, and how much of it was not to be read.
fn emptied(spool: &mut Spool) -> (Vec<Line>, u64) {
    let (mut all, mut lost) = (Vec::new(), 0);
    while !spool.is_empty() {
        let chunk = spool.peek(100).unwrap();
        all.extend(chunk.lines.iter().cloned());
        lost += spool.pass(&chunk);
    }
    (all, lost)
}

const ROOM: u64 = 64 << 20;

#[test]
fn what_was_taken_comes_out_once_in_order_also_in_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let all = lines(0..12_000);
    let mut spool = Spool::open(dir.path(), ROOM).unwrap();
    for part in all[..11_000].chunks(300) {
        assert_eq!(spool.append(part).unwrap(), part.len());
    }
    assert!(files(dir.path()).len() > 1, "one file would show nothing");
    let chunk = spool.peek(256).unwrap();
    assert_eq!(chunk.lines, all[..256]);
    assert_eq!(spool.peek(256).unwrap().lines, all[..256], "a look takes nothing");
    assert_eq!(spool.pass(&chunk), 0);
    assert_eq!((spool.lines(), spool.peek(1).unwrap().lines.first()), (11_000 - 256, all.get(256)));
    drop(spool);
    // What was passed on of a file that is still there comes again.
    let mut spool = Spool::open(dir.path(), ROOM).unwrap();
    assert_eq!(spool.lines(), 11_000);
    assert_eq!(spool.append(&all[11_000..]).unwrap(), 1000);
    assert_eq!(emptied(&mut spool), (all, 0));
    assert_eq!((spool.lines(), files(dir.path())), (0, Vec::<PathBuf>::new()));
    let more = lines(9000..9001);
    assert_eq!(spool.append(&more).unwrap(), 1);
    assert_eq!(emptied(&mut spool), (more, 0));
}

#[test]
fn lines_may_come_and_go_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let all = lines(0..3000);
    let mut spool = Spool::open(dir.path(), ROOM).unwrap();
    let mut seen = Vec::new();
    for part in all.chunks(10) {
        assert_eq!(spool.append(part).unwrap(), 10);
        let chunk = spool.peek(7).unwrap();
        seen.extend(chunk.lines.iter().cloned());
        assert_eq!(spool.pass(&chunk), 0);
    }
    seen.extend(emptied(&mut spool).0);
    assert_eq!(seen, all);
}

#[test]
fn a_full_spool_takes_what_fits_and_has_room_again() {
    let dir = tempfile::tempdir().unwrap();
    let all = lines(0..200);
    let mut spool = Spool::open(dir.path(), 64 << 10).unwrap();
    let taken = spool.append(&all).unwrap();
    assert!((1..200).contains(&taken), "{taken}");
    assert!(fs::metadata(&files(dir.path())[0]).unwrap().len() <= 64 << 10);
    assert_eq!(spool.append(&all[taken..]).unwrap(), 0);
    assert_eq!(emptied(&mut spool).0, all[..taken]);
    assert!(spool.append(&all[taken..]).unwrap() > 0);
}

#[test]
fn a_file_that_was_cut_loses_what_was_cut_and_says_how_much() {
    for good in [5, 9, 0] {
        let lost = 10 - good as u64;
        let dir = tempfile::tempdir().unwrap();
        let all = lines(0..20);
        let mut spool = Spool::open(dir.path(), ROOM).unwrap();
        spool.append(&all[..10]).unwrap();
        let file = files(dir.path()).remove(0);
        let bytes = fs::read(&file).unwrap();
        let end = all[..good].iter().map(|line| line.text().len() + 1).sum::<usize>() + 50;
        // While it is in use, ...
        fs::write(&file, &bytes[..end]).unwrap();
        assert_eq!(emptied(&mut spool), (all[..good].to_vec(), lost), "{good} in use");
        drop(spool);
        // ... and between two processes, where all that can be known is that one line is torn.
        fs::write(&file, &bytes[..end]).unwrap();
        let mut spool = Spool::open(dir.path(), ROOM).unwrap();
        spool.append(&all[10..]).unwrap();
        let want: Vec<_> = all[..good].iter().chain(&all[10..]).cloned().collect();
        assert_eq!(emptied(&mut spool), (want, 1), "{good} at the start");
    }
}

#[test]
fn lines_that_are_no_records_spoil_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let all = lines(0..3);
    let rubbish = ["", "{}", "\0\0\0\0", "{\"time_us\":1,", &"x".repeat(3 * READ_BYTES)];
    let mut text = Vec::new();
    for (at, line) in all.iter().enumerate() {
        text.extend_from_slice(line.text().as_bytes());
        text.push(b'\n');
        if at == 0 {
            text.extend_from_slice(rubbish.join("\n").as_bytes());
            text.push(b'\n');
        }
    }
    fs::write(dir.path().join("000000000007.jsonl"), text).unwrap();
    let mut spool = Spool::open(dir.path(), ROOM).unwrap();
    let (found, lost) = emptied(&mut spool);
    assert_eq!(found, all);
    assert!((5..=8).contains(&lost), "{lost}");
}

#[test]
fn a_file_that_is_gone_is_missed_and_the_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let all = lines(0..10_000);
    let mut spool = Spool::open(dir.path(), ROOM).unwrap();
    for part in all.chunks(100) {
        spool.append(part).unwrap();
    }
    fs::remove_file(files(dir.path()).remove(0)).unwrap();
    assert!(spool.peek(100).is_err());
    let lost = spool.skip_first();
    let (found, missing) = emptied(&mut spool);
    assert_eq!((found.len() as u64 + lost, missing), (10_000, 0));
    assert_eq!(found, all[usize::try_from(lost).unwrap()..]);
}

#[test]
fn a_write_that_failed_leaves_nothing_in_front_of_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let all = lines(0..3);
    let mut spool = Spool::open(dir.path(), ROOM).unwrap();
    spool.append(&all[..1]).unwrap();
    // A file that can only be read takes nothing, as a full disk.
    let good = spool.open.replace(File::open(files(dir.path()).remove(0)).unwrap());
    assert!(spool.append(&all[1..2]).is_err());
    assert_eq!((spool.lines(), spool.open.is_none()), (1, true), "it could not be cut back either");
    drop(good);
    assert_eq!(spool.append(&all[1..]).unwrap(), 2);
    assert_eq!(files(dir.path()).len(), 2, "behind what may be torn nothing is written");
    assert_eq!(emptied(&mut spool), (all, 0));
}

#[test]
fn one_process_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::open(dir.path(), ROOM).unwrap();
    assert!(matches!(Spool::open(dir.path(), ROOM), Err(SpoolError::Held(_))));
    drop(spool);
    assert!(Spool::open(dir.path(), ROOM).is_ok());
}

#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("deep/spool");
    Spool::open(&inside, ROOM).unwrap().append(&lines(0..1)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&inside), mode(&files(&inside)[0])), (0o700, 0o600));
}
