//! The one task that moves records: from the queue to the database while that takes them, else to the spool, and from
//! there to the database when it is back, in order.
//!
//! While anything is in the spool everything goes through it, so that the order holds. A database that does not
//! answer in time, or more slowly than records come, is as good as away: the spool is there for both.

use std::time::{Duration, Instant};

use sluice_core::retention::Horizon;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Settings;
use super::database::{Address, Database, StoreError};
use super::keep::{AGAIN, Keep};
use super::line::Line;
use super::link::{self, Opening, Trouble};
use crate::clock;
use crate::config::Spool;
use crate::telemetry::Telemetry;
use crate::telemetry::names::RecordsTo;

/// Written at once, at most.
pub(super) const BATCH: usize = 256;
/// A record waits so long for others.
const GATHER: Duration = Duration::from_millis(25);
/// What cannot be put anywhere is tried again after this.
const STUCK: Duration = Duration::from_millis(250);
/// Old records are looked for so often; as long as there are more, after the short one.
const PRUNE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(100));
/// At the end the database has half of this, the spool the rest.
pub(super) const LAST: Duration = Duration::from_secs(4);

/// How the database stands.
enum Mode {
    /// There is no connection; one is being made.
    Away(Opening),
    /// There is one, but what waits in the spool goes first.
    Behind(Database),
    /// Records go straight in.
    Level(Database),
    /// There is no connection, and none will be made any more. Also what is there while one state becomes another.
    Gone,
}

/// The task.
pub(super) struct Writer {
    settings: watch::Receiver<Settings>,
    address: Address,
    telemetry: Telemetry,
    closing: CancellationToken,
    keep: Keep,
    /// Takes the place of the spool once that is empty.
    next_spool: Option<Spool>,
    mode: Mode,
    /// Taken from the queue and not yet safe anywhere.
    hand: Vec<Line>,
    trouble: Trouble,
    retention: Option<Duration>,
    horizon: Horizon,
    prune_at: Instant,
}

impl Writer {
    pub(super) fn new(
        mut settings: watch::Receiver<Settings>,
        telemetry: Telemetry,
        closing: CancellationToken,
    ) -> Self {
        let now = clock::now();
        let Settings { address, records } = settings.borrow_and_update().clone();
        Self {
            settings,
            mode: Mode::Away(link::open(address.clone(), Duration::ZERO)),
            keep: Keep::new(&records.spool, telemetry.clone()),
            next_spool: None,
            address,
            trouble: Trouble::new(telemetry.clone()),
            telemetry,
            closing,
            hand: Vec::new(),
            retention: records.retention,
            horizon: Horizon::new(clock::wall(), now),
            prune_at: now,
        }
    }

    pub(super) async fn run(mut self) {
        // What a process before left behind shows in the gauge at once.
        self.keep.open().await;
        while !self.closing.is_cancelled() {
            self.wait().await;
            if self.settings.has_changed().unwrap_or(false) {
                self.renew();
            }
            self.take();
            self.step().await;
        }
        self.finish().await;
    }

    /// Waits until there is something to do.
    async fn wait(&mut self) {
        let (queue, hand) = (self.telemetry.records(), self.hand.len());
        let more = async {
            // With a full hand nothing is taken.
            if hand >= BATCH {
                std::future::pending::<()>().await;
            }
            queue.filled().await;
            if queue.len() < BATCH {
                tokio::time::sleep(GATHER).await;
            }
        };
        let mut settings = self.settings.clone();
        let news = async move {
            if settings.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let prune_in = self.prune_at.saturating_duration_since(clock::now());
        match &mut self.mode {
            Mode::Behind(_) => {}
            // It is only so at the end.
            Mode::Gone => self.closing.cancelled().await,
            Mode::Level(_) => tokio::select! {
                () = self.closing.cancelled() => {}
                () = news => {}
                () = more => {}
                () = tokio::time::sleep(prune_in), if self.retention.is_some() => {}
                // Whoever has it may have left something in it.
                () = tokio::time::sleep(AGAIN), if self.keep.is_shut() => {}
            },
            Mode::Away(opening) => tokio::select! {
                () = self.closing.cancelled() => {}
                () = news => {}
                opened = opening => match opened {
                    Ok(database) => {
                        self.trouble.connected(&self.keep);
                        self.mode = Mode::Behind(database);
                    }
                    Err(error) => {
                        let pause = self.trouble.no_connection(&error);
                        self.mode = Mode::Away(link::open(self.address.clone(), pause));
                    }
                },
                () = more => {}
                () = tokio::time::sleep(STUCK), if hand > 0 => {}
            },
        }
    }

    /// Goes by other settings. A connection to another place is made anew; what is in the hand or the spool goes there.
    fn renew(&mut self) {
        let Settings { address, records } = self.settings.borrow_and_update().clone();
        self.retention = records.retention;
        self.prune_at = clock::now();
        self.next_spool = self.keep.renew(records.spool);
        self.address = address;
        self.mode = Mode::Away(link::open(self.address.clone(), Duration::ZERO));
    }

    /// Takes from the queue what the hand can hold.
    fn take(&mut self) {
        let records = self.telemetry.records().take(BATCH.saturating_sub(self.hand.len()));
        self.hand.extend(records.iter().filter_map(|record| Line::of(record)));
    }

    async fn step(&mut self) {
        match &mut self.mode {
            Mode::Away(_) | Mode::Gone => self.keep.append(&mut self.hand).await,
            Mode::Behind(_) => self.catch_up().await,
            Mode::Level(_) => {
                if self.keep.is_shut() {
                    self.keep.open().await;
                }
                if self.keep.waiting() > 0 {
                    self.behind();
                    return;
                }
                if self.empty_hand().await {
                    self.prune().await;
                }
            }
        }
    }

    /// One step of emptying the spool.
    async fn catch_up(&mut self) {
        self.keep.append(&mut self.hand).await;
        let Some(chunk) = self.keep.peek().await else {
            // Nothing is in front of what is in the hand.
            if self.empty_hand().await {
                self.level();
            }
            return;
        };
        match self.insert(&chunk.lines).await {
            Ok(()) => self.keep.pass(chunk).await,
            Err(error) => self.away(&error),
        }
    }

    /// Puts what is in the hand into the database; false: it is away, and the spool has had its chance.
    async fn empty_hand(&mut self) -> bool {
        let lines = std::mem::take(&mut self.hand);
        let Err(error) = self.insert(&lines).await else { return true };
        self.hand = lines;
        self.away(&error);
        self.keep.append(&mut self.hand).await;
        false
    }

    /// Writes the lines, and leaves out those that the database refuses. Ok: all others are in.
    async fn insert(&mut self, lines: &[Line]) -> Result<(), StoreError> {
        let (Mode::Behind(database) | Mode::Level(database)) = &mut self.mode else {
            return Err(StoreError::Away("there is no connection".to_owned()));
        };
        if lines.is_empty() {
            return Ok(());
        }
        let mut refused = 0;
        match link::patiently(&self.telemetry, &self.closing, database.insert(lines)).await {
            Ok(()) => {}
            // One of them spoils the others: each on its own then.
            Err(StoreError::Refused(_)) => {
                for line in lines.chunks(1) {
                    match link::patiently(&self.telemetry, &self.closing, database.insert(line)).await {
                        Ok(()) => {}
                        Err(StoreError::Refused(error)) => {
                            if refused == 0 {
                                tracing::error!(event = "record_refused", error);
                            }
                            refused += 1;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) => return Err(error),
        }
        self.telemetry.metrics().records_dropped(refused);
        self.telemetry.metrics().records_written(RecordsTo::Database, lines.len() as u64 - refused);
        self.trouble.written(&self.keep);
        Ok(())
    }

    async fn prune(&mut self) {
        let now = clock::now();
        let (Some(keep), Mode::Level(database)) = (self.retention, &mut self.mode) else { return };
        if now < self.prune_at {
            return;
        }
        self.prune_at = now + PRUNE.0;
        let Some(before) = self.horizon.cutoff(clock::wall(), now, keep) else { return };
        match link::patiently(&self.telemetry, &self.closing, database.prune(before)).await {
            Ok(true) => self.prune_at = now + PRUNE.1,
            Ok(false) => {}
            Err(error) => self.away(&error),
        }
    }

    /// The database did not do what it was asked: whatever state the connection is in, it is given up.
    fn away(&mut self, error: &StoreError) {
        let pause = self.trouble.no_write(error);
        self.mode = Mode::Away(link::open(self.address.clone(), pause));
    }

    /// Nothing waits in front of new records.
    fn level(&mut self) {
        if let Some(spool) = self.next_spool.take() {
            self.keep = Keep::new(&spool, self.telemetry.clone());
        }
        self.turn(Mode::Level);
    }

    /// Something does.
    fn behind(&mut self) {
        self.turn(Mode::Behind);
    }

    fn turn(&mut self, to: impl FnOnce(Database) -> Mode) {
        self.mode = match std::mem::replace(&mut self.mode, Mode::Gone) {
            Mode::Behind(database) | Mode::Level(database) => to(database),
            without @ (Mode::Away(_) | Mode::Gone) => without,
        };
    }

    /// The end: everything that is still in memory becomes safe, or is counted.
    async fn finish(mut self) {
        let end = End(clock::now());
        self.await_connection(&end).await;
        while matches!(self.mode, Mode::Behind(_)) && !end.left(LAST / 2).is_zero() {
            self.take();
            self.catch_up().await;
        }
        let lost = self.put_away(&end).await;
        if lost > 0 {
            let lost = lost + self.telemetry.records().clear();
            tracing::error!(event = "records_lost", records = lost);
            self.telemetry.metrics().records_dropped(lost as u64);
        }
        if let Mode::Behind(database) | Mode::Level(database) = self.mode {
            // Its goodbye is a courtesy.
            let _ = tokio::time::timeout(end.left(LAST), database.close()).await;
        }
    }

    /// A first connection that is still being made: it was only that the process ends so soon.
    async fn await_connection(&mut self, end: &End) {
        if let Mode::Away(opening) = &mut self.mode
            && self.trouble.is_none()
            && let Ok(Ok(database)) = tokio::time::timeout(end.left(LAST / 4), opening).await
        {
            self.mode = Mode::Behind(database);
        }
    }

    /// Puts what is in memory into the database, or else into the spool; gives how much of it neither took.
    async fn put_away(&mut self, end: &End) -> usize {
        loop {
            self.take();
            let count = self.hand.len();
            if count == 0 {
                return 0;
            }
            if matches!(self.mode, Mode::Level(_)) {
                self.insert_at_last(end).await;
                continue;
            }
            let appended = tokio::time::timeout(end.left(LAST), self.keep.append(&mut self.hand)).await;
            if appended.is_err() || self.hand.len() == count {
                return count;
            }
        }
    }

    /// One write to the database in what is left for it. If that comes to nothing it is not asked again.
    async fn insert_at_last(&mut self, end: &End) {
        let lines = std::mem::take(&mut self.hand);
        let done = tokio::time::timeout(end.left(LAST / 2), self.insert(&lines)).await;
        if !matches!(done, Ok(Ok(()))) {
            self.hand = lines;
            self.mode = Mode::Gone;
        }
    }
}

/// When the end began.
struct End(Instant);

impl End {
    /// What is left of the first `part` of it.
    fn left(&self, part: Duration) -> Duration {
        part.saturating_sub(clock::now().saturating_duration_since(self.0))
    }
}
