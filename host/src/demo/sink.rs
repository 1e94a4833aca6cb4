//! Where the gateways of the demo write their log: into memory, so that nothing disturbs the table and each row
//! can look for its events and records. Bounded; what is too much is not kept.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

/// Lines kept of one gateway.
const MAX_LINES: usize = 50_000;
/// A line that is written at all is there by then.
const PATIENCE: Duration = Duration::from_secs(3);

/// The lines of one gateway. Clones share them.
#[derive(Debug, Clone)]
pub struct Sink(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    text: Mutex<Text>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Text {
    lines: Vec<Value>,
    /// The begin of a line whose end was not written yet.
    rest: Vec<u8>,
}

impl Default for Sink {
    fn default() -> Self {
        Self(Arc::new(Inner { text: Mutex::default(), changes: watch::Sender::new(()) }))
    }
}

impl Sink {
    fn text(&self) -> MutexGuard<'_, Text> {
        self.0.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the record of a request; null when it does not come.
    pub async fn record(&self, request_id: &str) -> Value {
        let is_it = |line: &Value| line["event"] == "request" && line["request_id"] == request_id;
        self.wait(|lines| lines.iter().find(|line| is_it(line)).cloned()).await.unwrap_or_default()
    }

    /// Waits for the first so many records, and gives all there are.
    pub async fn records(&self, count: usize) -> Vec<Value> {
        let of = |lines: &[Value]| -> Vec<Value> {
            lines.iter().filter(|line| line["event"] == "request").cloned().collect()
        };
        let enough = self.wait(|lines| Some(of(lines)).filter(|records| records.len() >= count)).await;
        enough.unwrap_or_else(|| of(&self.text().lines))
    }

    async fn wait<T>(&self, find: impl Fn(&[Value]) -> Option<T>) -> Option<T> {
        let mut changes = self.0.changes.subscribe();
        let found = async {
            loop {
                if let Some(found) = find(&self.text().lines) {
                    return Some(found);
                }
                changes.changed().await.ok()?;
            }
        };
        tokio::time::timeout(PATIENCE, found).await.ok().flatten()
    }

    /// Events so far, in order: name, and the target or plugin it is about.
    pub fn events(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.text()
            .lines
            .iter()
            .filter_map(|line| {
                let name = text(&line["event"]);
                let about = if line["target"].is_null() { &line["plugin"] } else { &line["target"] };
                let is_event = !name.is_empty() && name != "request";
                is_event.then(|| (name, text(about)))
            })
            .collect()
    }

    /// How often an event about a target or plugin was written.
    pub fn count(&self, event: &str, about: &str) -> usize {
        self.events().iter().filter(|(name, target)| name == event && target == about).count()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.text();
        text.rest.extend_from_slice(bytes);
        while let Some(end) = text.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.rest.drain(..=end).collect();
            if let Ok(line) = serde_json::from_slice(&line)
                && text.lines.len() < MAX_LINES
            {
                text.lines.push(line);
            }
        }
        drop(text);
        self.0.changes.send_replace(());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
