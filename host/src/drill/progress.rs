//! How far a drill is: one line that is written again and again on a terminal, and nothing elsewhere.

use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// Where it is told.
pub struct Progress<'a> {
    err: &'a mut dyn Write,
    live: bool,
    shown: bool,
}

impl<'a> Progress<'a> {
    /// On `err`; `live`: it is a terminal.
    pub fn new(err: &'a mut dyn Write, live: bool) -> Self {
        Self { err, live, shown: false }
    }

    /// Shows how many of `count` are done while `work` runs.
    ///
    /// # Errors
    /// What writing gives.
    pub async fn during<T>(
        &mut self,
        title: &str,
        count: usize,
        done: &Arc<AtomicUsize>,
        work: impl Future<Output = T>,
    ) -> io::Result<T> {
        let mut work = pin!(work);
        loop {
            self.show(title, done.load(Ordering::Relaxed), count)?;
            tokio::select! {
                done = &mut work => return Ok(done),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn show(&mut self, title: &str, done: usize, count: usize) -> io::Result<()> {
        if self.live {
            let title: String = title.chars().filter(|c| !c.is_control()).take(60).collect();
            write!(self.err, "\r\x1b[2K{title}: {done} of {count}")?;
            self.shown = true;
            self.err.flush()?;
        }
        Ok(())
    }

    /// Takes the line back.
    ///
    /// # Errors
    /// What writing gives.
    pub fn clear(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.shown) {
            write!(self.err, "\r\x1b[2K")?;
            self.err.flush()?;
        }
        Ok(())
    }
}
