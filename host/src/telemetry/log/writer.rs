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

/// Lines one behind the other, for one write. A line is copied in by whoever queues it, so that its own memory goes
/// back where it came from, and the thread has nothing to do but to write.
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    lines: usize,
}

impl Chunk {
    /// Bytes gathered for one write. A longer line is a chunk of its own.
    const BYTES: usize = 64 << 10;
}

#[derive(Debug, Default)]
struct State {
    /// The last one is being filled.
    queue: VecDeque<Chunk>,
    /// Memory of chunks that were written, at most [`State::SPARE`].
    spare: Vec<Vec<u8>>,
    /// Lines and bytes in the queue.
    queued: (usize, usize),
    /// Lines and bytes taken by the thread and not yet written.
    writing: (usize, usize),
    dropped: u64,
    /// Of `dropped`: not yet told in a line.
    untold: u64,
    /// The thread waits for a line, and whoever queues one has to wake it.
    waiting: bool,
    closed: bool,
    ended: bool,
}

impl State {
    /// Chunks whose memory is kept for the next ones: as many as are in use at a time under load.
    const SPARE: usize = 4;

    fn put(&mut self, line: &[u8]) {
        let length = line.len() + 1;
        if self.queue.back().is_none_or(|chunk| chunk.bytes.len() + length > Chunk::BYTES) {
            let mut bytes = self.spare.pop().unwrap_or_default();
            // All at once, so that no line is moved while others wait for the lock.
            bytes.reserve_exact(length.max(Chunk::BYTES));
            self.queue.push_back(Chunk { bytes, lines: 0 });
        }
        if let Some(chunk) = self.queue.back_mut() {
            chunk.bytes.extend_from_slice(line);
            chunk.bytes.push(b'\n');
            chunk.lines += 1;
        }
        self.queued.0 += 1;
        self.queued.1 += length;
    }

    /// Keeps the memory of a chunk that was written.
    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < Self::SPARE && bytes.capacity() <= Chunk::BYTES {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
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
            Pump { shared: &mine, out }.run();
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
    pub fn push(&self, line: &[u8]) -> bool {
        let shared = &self.0.0;
        let mut state = shared.lock();
        let (lines, bytes) = (state.queued.0 + state.writing.0, state.queued.1 + state.writing.1);
        if state.closed || lines >= shared.bounds.lines || bytes + line.len() + 1 > shared.bounds.bytes {
            state.dropped += 1;
            state.untold += 1;
            return false;
        }
        state.put(line);
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
    /// Rest between two batches. A line on its own is written at once; under load a batch costs one wake-up
    /// and one write, in place of one of each for every line.
    const REST: Duration = Duration::from_millis(5);

    fn run(&mut self) {
        while let Some((batch, untold)) = self.next() {
            let (mut lost, mut telling) = (0, untold);
            let mut written = Vec::with_capacity(State::SPARE);
            for (at, mut chunk) in batch.into_iter().enumerate() {
                if at == 0 && untold > 0 {
                    chunk.bytes.splice(..0, told(self.shared.format(), untold));
                }
                lost += self.write(&chunk, &mut telling);
                if written.len() < State::SPARE {
                    written.push(chunk.bytes);
                }
            }
            let mut state = self.shared.lock();
            written.into_iter().for_each(|bytes| state.keep(bytes));
            state.writing = (0, 0);
            state.dropped += lost;
            // What was to be told stands in the first chunk; when that was lost, it is still to be told.
            state.untold += lost + telling;
            let rested = self.shared.work.wait_timeout_while(state, Self::REST, |s| !s.closed);
            drop(rested.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// All that is queued, and the number of lines that were dropped since the last time; none: the end.
    fn next(&self) -> Option<(VecDeque<Chunk>, u64)> {
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
        state.writing = std::mem::take(&mut state.queued);
        Some((batch, std::mem::take(&mut state.untold)))
    }

    /// Writes a chunk, and gives the number of its lines that were lost. `telling` is 0 once a write went well.
    fn write(&mut self, chunk: &Chunk, telling: &mut u64) -> u64 {
        match self.out.write_all(&chunk.bytes).and_then(|()| self.out.flush()) {
            Ok(()) => {
                *telling = 0;
                0
            }
            Err(_) => chunk.lines as u64,
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
