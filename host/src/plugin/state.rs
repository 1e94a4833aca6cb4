//! What the host keeps beside each instance, and the two things a guest may reach: the log, and a WASI with
//! nothing in it.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::call::truncate;
use super::limits::{Memory, Meter};
use super::stdio::Sink;
use super::watch::{LogLevel, LogLine, LogSource, PluginWatch};

/// Longest line a plugin can write, bytes.
pub const LINE_MAX: usize = 1024;
/// Lines a plugin can write in one call.
pub const LINES_MAX: u32 = 32;
/// Resources a guest can hold: its three standard streams and what it makes of them.
const RESOURCES_MAX: usize = 64;

/// Whose instance it is, and who hears of its lines.
#[derive(Clone)]
pub struct Voice {
    /// Name of the plugin.
    pub plugin: Arc<str>,
    /// SHA-256 of its bytes, in hex.
    pub digest: Arc<str>,
    /// Who is told.
    pub watch: Arc<dyn PluginWatch>,
}

impl Voice {
    /// Writes one line, cut to its bound and freed of control characters.
    pub fn say(&self, source: LogSource, level: LogLevel, text: &str) {
        let mut clean: String =
            text.chars().take(LINE_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
        truncate(&mut clean, LINE_MAX);
        let line =
            LogLine { plugin: &self.plugin, digest: &self.digest, source, level, text: clean.trim_end() };
        self.watch.log_line(&line);
    }
}

/// Beside one instance.
pub struct State {
    /// Its memory limit.
    pub memory: Memory,
    /// Its clock.
    pub meter: Meter,
    voice: Voice,
    lines_left: u32,
    lines_dropped: u32,
    stdout: Sink,
    stderr: Sink,
    table: ResourceTable,
    wasi: WasiCtx,
}

impl State {
    /// For a new instance that may have `memory` bytes.
    pub fn new(voice: Voice, memory: u64, gives_way: bool) -> Self {
        let (stdout, stderr) = (Sink::default(), Sink::default());
        let wasi = WasiCtxBuilder::new().stdout(stdout.clone()).stderr(stderr.clone()).build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        Self {
            memory: Memory::new(memory),
            meter: Meter::new(gives_way),
            voice,
            lines_left: LINES_MAX,
            lines_dropped: 0,
            stdout,
            stderr,
            table,
            wasi,
        }
    }

    /// A line through the `log` import.
    pub fn log(&mut self, level: LogLevel, text: &str) {
        if self.lines_left == 0 {
            self.lines_dropped = self.lines_dropped.saturating_add(1);
            return;
        }
        self.lines_left -= 1;
        self.voice.say(LogSource::Log, level, text);
    }

    /// A call has ended: its output becomes lines, and the next call has all its lines again.
    pub fn flush(&mut self) {
        for (sink, source) in [(&self.stdout, LogSource::Stdout), (&self.stderr, LogSource::Stderr)] {
            let Some(text) = sink.take() else { continue };
            for line in text.lines().filter(|line| !line.trim().is_empty()).take(4) {
                self.voice.say(source, LogLevel::Warn, line);
            }
        }
        if self.lines_dropped > 0 {
            let text = format!("{} more lines in one call were dropped", self.lines_dropped);
            self.voice.say(LogSource::Host, LogLevel::Warn, &text);
        }
        (self.lines_left, self.lines_dropped) = (LINES_MAX, 0);
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl State {
    /// The table of `wasi:io`.
    pub fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }
}
