//! The way to stdout: a queue with bounds in lines and bytes, and one thread that empties it.
//!
//! A stream must never wait for a slow terminal or a full pipe, so [`LineWriter::push`] only ever holds a
//! lock that is not held during I/O, and a line that finds no room is dropped and counted. How many were lost
//! is said in a line of its own as soon as lines flow again. What a line looks like is decided elsewhere.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::Level;

use super::line::Line;
use crate::config::LogFormat;

/// What the queue may hold, the lines that are just being written included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Lines.
    pub lines: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

impl Default for Bounds {
    /// 16 384 lines, 16 MiB: some seconds of a busy gateway.
    fn default() -> Self {
        Self { lines: 16_384, bytes: 16 << 20 }
    }
}

/// Why there is no writer.
#[derive(Debug, thiserror::Error)]
#[error("the thread that writes the log could not be started: {0}")]
pub struct WriterError(#[from] std::io::Error);

/// Handle of the one writer of a sink. Clones share it; when the last is gone the thread writes what is
/// queued and ends.
#[derive(Debug, Clone)]
pub struct LineWriter(Arc<Owner>);

/// What the handles hold. The thread holds only [`Shared`], so that the end of the last handle is seen.
#[derive(Debug)]
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_all();
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The thread waits here for lines.
    work: Condvar,
    /// [`LineWriter::close`] waits here for the thread.
    ended: Condvar,
    bounds: Bounds,
    /// The form of lines is that for people.
    text: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    /// Lines and bytes taken by the thread and not yet written.
    writing: (usize, usize),
    queued_bytes: usize,
    dropped: u64,
    /// Of `dropped`: not yet told in a line.
    untold: u64,
    /// The thread waits for a line, and whoever queues one has to wake it.
    waiting: bool,
    closed: bool,
    ended: bool,
}

impl Shared {
    fn format(&self) -> LogFormat {
        if self.text.load(Ordering::Relaxed) { LogFormat::Text } else { LogFormat::Json }
    }

    /// The state stays consistent between any two statements, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineWriter {
    /// Starts the thread. `format` is that of the lines to begin with.
    pub fn start(out: Box<dyn Write + Send>, format: LogFormat, bounds: Bounds) -> Result<Self, WriterError> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
            bounds,
            text: AtomicBool::new(format == LogFormat::Text),
        });
        let mine = shared.clone();
        std::thread::Builder::new().name("sluice-log".into()).spawn(move || {
            Pump { shared: &mine, out, buffer: Vec::new() }.run();
        })?;
        Ok(Self(Arc::new(Owner(shared))))
    }

    /// The form that lines have now.
    pub fn format(&self) -> LogFormat {
        self.0.0.format()
    }

    /// Lines that are made from now on have another form. Those that are queued stay as they are.
    pub fn set_format(&self, format: LogFormat) {
        self.0.0.text.store(format == LogFormat::Text, Ordering::Relaxed);
    }

    /// Queues one line, without its line feed. False: there was no room, or the writer is closed, and it was
    /// counted.
    pub fn push(&self, mut line: Vec<u8>) -> bool {
        line.push(b'\n');
        let shared = &self.0.0;
        let mut state = shared.lock();
        let lines = state.queue.len() + state.writing.0;
        let bytes = state.queued_bytes + state.writing.1;
        if state.closed || lines >= shared.bounds.lines || bytes + line.len() > shared.bounds.bytes {
            state.dropped += 1;
            state.untold += 1;
            return false;
        }
        state.queued_bytes += line.len();
        state.queue.push_back(line);
        // The thread looks at the queue before it waits, so only the first line after that has to wake it.
        if std::mem::take(&mut state.waiting) {
            shared.work.notify_one();
        }
        true
    }

    /// Lines dropped so far, for want of room or because they could not be written.
    pub fn dropped(&self) -> u64 {
        self.0.0.lock().dropped
    }

    /// Takes no further lines and waits, at most `patience`, until all queued ones are written. Blocks the
    /// calling thread. False: the time was over first.
    pub fn close(&self, patience: Duration) -> bool {
        let shared = &self.0.0;
        let mut state = shared.lock();
        state.closed = true;
        shared.work.notify_all();
        let waited = shared.ended.wait_timeout_while(state, patience, |s| !s.ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }
}

/// The thread's side.
struct Pump<'a> {
    shared: &'a Shared,
    out: Box<dyn Write + Send>,
    buffer: Vec<u8>,
}

impl Drop for Pump<'_> {
    /// Also when the writer given to us panics: nobody waits in vain, and nothing is queued for a dead
    /// thread.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.ended = true;
        self.shared.ended.notify_all();
    }
}

impl Pump<'_> {
    /// Bytes gathered for one write.
    const CHUNK: usize = 64 << 10;
    /// Rest between two batches. A line on its own is written at once; under load a batch costs one wake-up
    /// and one write, in place of one of each for every line.
    const REST: Duration = Duration::from_millis(5);

    fn run(&mut self) {
        while let Some((batch, untold)) = self.next() {
            let mut lost = 0;
            let mut gathered = 0;
            let mut telling = untold;
            if untold > 0 {
                self.buffer.extend_from_slice(&told(self.shared.format(), untold));
            }
            for line in batch {
                self.buffer.extend_from_slice(&line);
                gathered += 1;
                if self.buffer.len() >= Self::CHUNK {
                    lost += self.flush(std::mem::take(&mut gathered), &mut telling);
                }
            }
            lost += self.flush(gathered, &mut telling);
            let mut state = self.shared.lock();
            state.writing = (0, 0);
            state.dropped += lost;
            // What was to be told stands in the first chunk; when that was lost, it is still to be told.
            state.untold += lost + telling;
            let rested = self.shared.work.wait_timeout_while(state, Self::REST, |s| !s.closed);
            drop(rested.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// All that is queued, and the number of lines that were dropped since the last time; none: the end.
    fn next(&self) -> Option<(VecDeque<Vec<u8>>, u64)> {
        let state = self.shared.lock();
        let idle = |s: &mut State| {
            s.waiting = s.queue.is_empty() && !s.closed;
            s.waiting
        };
        let mut state = self.shared.work.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        if state.queue.is_empty() {
            return None;
        }
        let batch = std::mem::take(&mut state.queue);
        state.writing = (batch.len(), std::mem::take(&mut state.queued_bytes));
        Some((batch, std::mem::take(&mut state.untold)))
    }

    /// Writes the buffer, which holds `lines` lines, and gives the number of those that were lost. `telling`
    /// is 0 once a write went well.
    fn flush(&mut self, lines: u64, telling: &mut u64) -> u64 {
        let written = self.out.write_all(&self.buffer).and_then(|()| self.out.flush());
        self.buffer.clear();
        match written {
            Ok(()) => {
                *telling = 0;
                0
            }
            Err(_) => lines,
        }
    }
}

fn told(format: LogFormat, dropped: u64) -> Vec<u8> {
    let mut line = Line::new(format, crate::clock::wall(), Level::WARN);
    line.text("event", "log_lines_dropped");
    line.number("dropped", dropped);
    let mut bytes = line.finish();
    bytes.push(b'\n');
    bytes
}
