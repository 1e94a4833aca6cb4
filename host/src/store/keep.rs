//! The spool as the writer has it: off the runtime's own threads, opened when it can be had, and with one line of the
//! log where that changes.

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::line::Line;
use super::spool::{Chunk, Spool};
use crate::clock;
use crate::config;
use crate::telemetry::Telemetry;
use crate::telemetry::names::RecordsTo;

/// Between two tries to use a spool that could not be used.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// Records that are read at once.
const CHUNK: usize = 256;

/// A spool that may not be there yet.
pub(super) struct Keep {
    dir: PathBuf,
    max: u64,
    spool: Option<Arc<Mutex<Spool>>>,
    telemetry: Telemetry,
    /// Then it did not work, which was said.
    broken: Option<Instant>,
}

impl Keep {
    pub(super) fn new(settings: &config::Spool, telemetry: Telemetry) -> Self {
        Self { dir: settings.dir.clone(), max: settings.max, spool: None, telemetry, broken: None }
    }

    /// Takes other bounds at once, and gives back settings for another folder: this one has to be emptied first.
    pub(super) fn renew(&mut self, settings: config::Spool) -> Option<config::Spool> {
        if settings.dir != self.dir {
            return Some(settings);
        }
        self.max = settings.max;
        if let Some(spool) = &self.spool {
            spool.lock().unwrap_or_else(PoisonError::into_inner).set_max(settings.max);
        }
        None
    }

    /// Takes lines from the front as far as there is room for them: they are on disk then. A disk that does not
    /// take them is asked again a little later. Not to be given up half-way.
    pub(super) async fn append(&mut self, lines: &mut Vec<Line>) {
        if lines.is_empty() || self.pauses() || !self.open().await {
            return;
        }
        let mut taken = std::mem::take(lines);
        let count = taken.len() as u64;
        let append = move |spool: &mut Spool| {
            let outcome = spool.append(&taken);
            taken.drain(..*outcome.as_ref().unwrap_or(&0));
            (outcome, taken)
        };
        let Some((outcome, left)) = self.with(append).await else {
            // The thread that had them is gone.
            self.telemetry.metrics().records_dropped(count);
            return;
        };
        *lines = left;
        match outcome {
            Ok(written) => {
                self.telemetry.metrics().records_written(RecordsTo::Spool, written as u64);
                self.works();
            }
            Err(error) => self.fails(&error),
        }
    }

    /// The oldest records; none: there are none, or none that can be had now.
    pub(super) async fn peek(&mut self) -> Option<Chunk> {
        if !self.open().await {
            return None;
        }
        match self.with(|spool| (!spool.is_empty()).then(|| spool.peek(CHUNK))).await?? {
            Ok(chunk) => Some(chunk),
            Err(error) => {
                let lost = self.with(Spool::skip_first).await.unwrap_or(0);
                tracing::error!(event = "records_spool_unreadable", records = lost, error = %error);
                self.telemetry.metrics().records_dropped(lost);
                Some(Chunk::default())
            }
        }
    }

    /// The records of the chunk are safe in the database.
    pub(super) async fn pass(&mut self, chunk: Chunk) {
        let lost = self.with(move |spool| spool.pass(&chunk)).await.unwrap_or(0);
        if lost > 0 {
            tracing::error!(event = "records_spool_damaged", records = lost);
            self.telemetry.metrics().records_dropped(lost);
        }
    }

    /// Records that wait in it.
    pub(super) fn waiting(&self) -> u64 {
        self.telemetry.records().spooled()
    }

    /// It has not been opened yet.
    pub(super) fn is_shut(&self) -> bool {
        self.spool.is_none()
    }

    /// Opens it if it is not open. False: it cannot be had now.
    pub(super) async fn open(&mut self) -> bool {
        if self.spool.is_none() && !self.pauses() {
            let (dir, max) = (self.dir.clone(), self.max);
            match tokio::task::spawn_blocking(move || Spool::open(&dir, max)).await {
                Ok(Ok(spool)) => {
                    self.telemetry.records().set_spooled(spool.lines());
                    self.spool = Some(Arc::new(Mutex::new(spool)));
                    self.works();
                }
                Ok(Err(error)) => self.fails(&error),
                Err(error) => self.fails(&error),
            }
        }
        self.spool.is_some()
    }

    /// It did not work a moment ago.
    fn pauses(&self) -> bool {
        self.broken.is_some_and(|at| clock::now().saturating_duration_since(at) < AGAIN)
    }

    /// None: the thread that did it has panicked.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> T + Send + 'static,
    ) -> Option<T> {
        let (spool, telemetry) = (self.spool.clone()?, self.telemetry.clone());
        let work = move || {
            let mut spool = spool.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = work(&mut spool);
            telemetry.records().set_spooled(spool.lines());
            outcome
        };
        tokio::task::spawn_blocking(work).await.ok()
    }

    fn works(&mut self) {
        if self.broken.take().is_some() {
            tracing::info!(event = "records_spool_back");
        }
    }

    fn fails(&mut self, error: &dyn Error) {
        if self.broken.replace(clock::now()).is_none() {
            tracing::error!(event = "records_spool_away", error = %error);
        }
    }
}
