use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use tracing::Level;

use super::*;
use crate::config::LogFormat;

/// What a test waits for at most; long enough never to matter.
const PATIENCE: Duration = Duration::from_secs(60);

/// A place for lines that a test can read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).expect("a log that is not text")
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).expect("a line that is not JSON")).collect()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn capturing(format: LogFormat) -> (LineWriter, Captured) {
    let captured = Captured::default();
    (LineWriter::start(Box::new(captured.clone()), format, Bounds::default()).unwrap(), captured)
}

/// A place that does not take a line until it is told to, as a full pipe does, and then does what it is told.
struct Stuck {
    reached: SyncSender<()>,
    go: Receiver<io::Result<()>>,
    out: Captured,
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.reached.send(());
        // Once the test has hung up, everything goes through.
        self.go.recv().unwrap_or(Ok(()))?;
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Pipe {
    writer: LineWriter,
    reached: Receiver<()>,
    go: SyncSender<io::Result<()>>,
    out: Captured,
}

/// A writer whose thread is in the middle of writing the line `first`.
fn stuck(bounds: Bounds) -> Pipe {
    let out = Captured::default();
    let (at, reached) = sync_channel(1);
    let (go, wait) = sync_channel(1);
    let place = Stuck { reached: at, go: wait, out: out.clone() };
    let writer = LineWriter::start(Box::new(place), LogFormat::Json, bounds).unwrap();
    assert!(writer.push(br#""first""#));
    reached.recv_timeout(PATIENCE).expect("the thread never wrote");
    Pipe { writer, reached, go, out }
}

#[test]
fn a_flood_into_a_stuck_pipe_is_dropped_counted_and_told() {
    let pipe = stuck(Bounds { lines: 10, bytes: 1 << 20 });
    // Were one of these to wait, it would wait for ever: the pipe moves only after the loop.
    let taken = (0..100_000).filter(|n| pipe.writer.push(n.to_string().as_bytes())).count();
    assert_eq!(taken, 9);
    assert_eq!(pipe.writer.dropped(), 99_991);
    drop(pipe.go);
    assert!(pipe.writer.close(PATIENCE));
    let lines = pipe.out.json();
    assert_eq!(lines[0], "first");
    assert_eq!(
        (&lines[1]["event"], &lines[1]["dropped"], &lines[1]["level"]),
        (&json!("log_lines_dropped"), &json!(99_991), &json!("warn"))
    );
    assert_eq!(lines[2..], (0..9).map(|n| json!(n)).collect::<Vec<_>>());
}

#[test]
fn the_queue_is_bounded_in_bytes_too() {
    let pipe = stuck(Bounds { lines: 1000, bytes: 100 });
    // 8 of 100 bytes are being written.
    assert!(!pipe.writer.push(&[b'1'; 92]), "with its line feed it is one byte too long");
    assert!(pipe.writer.push(&[b'2'; 91]));
    assert!(!pipe.writer.push(b""));
    assert_eq!(pipe.writer.dropped(), 2);
    drop(pipe.go);
    assert!(pipe.writer.close(PATIENCE));
}

#[test]
fn room_comes_back_when_lines_are_written() {
    let pipe = stuck(Bounds { lines: 1, bytes: 1 << 20 });
    assert!(!pipe.writer.push(b"2"));
    pipe.go.send(Ok(())).unwrap();
    // The permit of the first line is given back after its write; that a second is taken shows it.
    while !pipe.writer.push(b"3") {
        std::thread::yield_now();
    }
    pipe.reached.recv_timeout(PATIENCE).expect("the third line");
    drop(pipe.go);
    assert!(pipe.writer.close(PATIENCE));
    assert_eq!(pipe.out.json().last(), Some(&json!(3)));
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_told_when_it_works_again() {
    let pipe = stuck(Bounds::default());
    pipe.go.send(Err(io::Error::from(io::ErrorKind::BrokenPipe))).unwrap();
    assert!(pipe.writer.push(b"2"));
    pipe.reached.recv_timeout(PATIENCE).expect("the second line");
    // The second batch holds the notice about the first; losing it must not lose the count.
    pipe.go.send(Err(io::Error::from(io::ErrorKind::BrokenPipe))).unwrap();
    assert!(pipe.writer.push(b"3"));
    drop(pipe.go);
    assert!(pipe.writer.close(PATIENCE));
    assert_eq!(pipe.writer.dropped(), 2);
    let lines = pipe.out.json();
    assert_eq!((&lines[0]["dropped"], &lines[1]), (&json!(2), &json!(3)));
}

#[test]
fn closing_a_stuck_pipe_gives_up_and_takes_nothing_more() {
    let pipe = stuck(Bounds::default());
    assert!(!pipe.writer.close(Duration::ZERO));
    assert!(!pipe.writer.push(b"late"));
    assert_eq!(pipe.writer.dropped(), 1);
    drop(pipe.go);
    assert!(pipe.writer.close(PATIENCE), "a second close sees the end");
    assert_eq!(pipe.out.json(), [json!("first")]);
}

#[test]
fn closing_writes_everything_in_order() {
    let (writer, captured) = capturing(LogFormat::Json);
    for n in 0..10_000 {
        assert!(writer.push(format!("{n}").as_bytes()));
    }
    assert!(writer.close(PATIENCE));
    assert_eq!(captured.json(), (0..10_000).map(|n| json!(n)).collect::<Vec<_>>());
}

#[test]
fn the_thread_ends_with_its_last_handle() {
    struct Gone(SyncSender<()>);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    struct Place(#[allow(dead_code, reason = "its end is what is looked at")] Gone, Captured);
    impl Write for Place {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (gone, end) = sync_channel(1);
    let captured = Captured::default();
    let writer =
        LineWriter::start(Box::new(Place(Gone(gone), captured.clone())), LogFormat::Json, Bounds::default())
            .unwrap();
    let other = writer.clone();
    drop(writer);
    assert!(other.push(b"1"));
    drop(other);
    end.recv_timeout(PATIENCE).expect("the thread is still there");
    assert_eq!(captured.text(), "1\n");
}

/// What `speak` logs, as lines.
fn logged(format: LogFormat, level: &str, speak: impl FnOnce()) -> Captured {
    let (writer, captured) = capturing(format);
    let subscriber =
        Registry::default().with(super::level(level).unwrap()).with(LineLayer::new(writer.clone()));
    tracing::subscriber::with_default(subscriber, speak);
    assert!(writer.close(PATIENCE));
    captured
}

#[test]
fn log_lines_are_flat_json_and_a_field_never_hides_another() {
    let captured = logged(LogFormat::Json, "info", || {
        tracing::warn!(
            n = 1_u64,
            neg = -2_i64,
            ok = true,
            ratio = 0.5,
            bad = f64::NAN,
            text = "a\n\"b\"",
            time = "mine",
            level = "mine",
            shown = %Level::INFO,
            "hello {}",
            7
        );
        tracing::debug!("not wanted");
        tracing::info!(event = "started", "with an event");
    });
    let mut lines = captured.json();
    assert_eq!(lines.len(), 2);
    let time = lines[0]["time"].take();
    assert_eq!(time.as_str().map(str::len), Some(24));
    let expected = json!({
        "time": null, "level": "warn", "message": "hello 7", "module": "sluice::telemetry::log::tests", "n": 1, "neg": -2,
        "ok": true, "ratio": 0.5, "bad": null, "text": "a\n\"b\"", "time_": "mine", "level_": "mine", "shown": "INFO",
    });
    assert_eq!(lines[0], expected);
    assert_eq!((&lines[1]["event"], &lines[1]["message"]), (&json!("started"), &json!("with an event")));
}

#[test]
fn another_form_holds_for_the_lines_that_follow() {
    let (writer, captured) = capturing(LogFormat::Json);
    let subscriber =
        Registry::default().with(super::level("info").unwrap()).with(LineLayer::new(writer.clone()));
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("one");
        writer.set_format(LogFormat::Text);
        tracing::info!("two");
    });
    assert!(writer.close(PATIENCE));
    let text = captured.text();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with('{') && lines[1].contains(" INFO two "), "{text}");
}

#[test]
fn the_text_form_is_for_people_and_keeps_to_its_line() {
    let captured = logged(LogFormat::Text, "info", || {
        tracing::error!(plain = "word", spaced = "two words", empty = "", "first\nsecond\u{1b}[31m");
    });
    let text = captured.text();
    let (time, rest) = text.split_at(24);
    assert!(time.ends_with('Z'), "{time}");
    assert_eq!(
        rest,
        " ERROR first\\nsecond\\u{1b}[31m module=sluice::telemetry::log::tests plain=word spaced=\"two words\" empty=\"\"\n"
    );
}

#[test]
fn a_huge_value_is_cut() {
    let captured = logged(LogFormat::Json, "info", || {
        let huge = "é".repeat(1 << 20);
        tracing::info!(text = huge.as_str(), debug = ?huge, "x");
    });
    let line = &captured.json()[0];
    for name in ["text", "debug"] {
        let length = line[name].as_str().map_or(0, str::len);
        assert!((line::MAX_VALUE - 1..=line::MAX_VALUE).contains(&length), "{name}: {length}");
    }
}

#[test]
fn levels_are_read_as_words_or_by_module() {
    for (text, module, level, wanted) in [
        ("info", "h2", Level::INFO, true),
        ("info", "h2", Level::DEBUG, false),
        ("off", "sluice", Level::ERROR, false),
        ("WARN, sluice=DEBUG ,", "sluice::proxy", Level::DEBUG, true),
        ("warn,sluice", "sluice::proxy", Level::TRACE, true),
        ("info,[request{id=7}]=trace", "sluice", Level::INFO, true),
        ("info,[request{id=7}]=trace", "sluice", Level::DEBUG, false),
        ("[request]=trace", "sluice", Level::ERROR, true),
        ("", "sluice", Level::WARN, false),
        ("warn,sluice::plugin=trace", "sluice::plugin::engine", Level::TRACE, true),
        ("warn,sluice::plugin=trace", "sluice::proxy", Level::INFO, false),
    ] {
        assert_eq!(
            super::level(text).unwrap().would_enable(module, &level),
            wanted,
            "{text} {module} {level}"
        );
    }
    let error = super::level("sluice=loud").unwrap_err().to_string();
    assert!(error.starts_with("log level: expected `error`, `warn`"), "{error}");
}

#[test]
fn a_second_subscriber_is_refused_and_the_first_keeps_working() {
    let log = |level: &str| Log { level: level.into(), format: LogFormat::Json, records: true };
    let (first, captured) = capturing(LogFormat::Json);
    let (second, other) = capturing(LogFormat::Json);
    assert!(install(&log("nonsense=loud"), second.clone()).is_err());
    assert!(install(&log("warn"), first.clone()).unwrap(), "no other test installs one");
    assert!(!install(&log("warn"), second.clone()).unwrap());
    tracing::info!(target: "sluice::install_test", "too quiet");
    assert!(relevel("warn,sluice::install_test=info").unwrap());
    tracing::info!(target: "sluice::install_test", "heard");
    assert!(first.close(PATIENCE) && second.close(PATIENCE));
    let heard: Vec<_> =
        captured.json().into_iter().filter(|line| line["module"] == "sluice::install_test").collect();
    assert_eq!(heard.iter().map(|line| &line["message"]).collect::<Vec<_>>(), ["heard"]);
    assert_eq!(other.text(), "");
}

#[test]
fn times_are_utc_to_the_millisecond_and_cuts_keep_characters_whole() {
    assert_eq!(line::rfc3339(UNIX_EPOCH + Duration::from_micros(1_234_999)), "1970-01-01T00:00:01.234Z");
    for (text, max, kept) in
        [("abc", 2, "ab"), ("aé", 2, "a"), ("aé", 3, "aé"), ("", 0, ""), ("abc", 9, "abc")]
    {
        assert_eq!(line::clip(text, max), kept);
    }
}
