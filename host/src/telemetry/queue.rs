//! Where a record leaves the path of its request: a queue with bounds in records and bytes, from which the
//! store takes them. Telemetry puts in and never waits; who takes out, and what becomes of it, is decided
//! elsewhere. Records that find no room are for the caller to count.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::Notify;

use super::record::Record;

/// Most records that wait.
const MAX_RECORDS: usize = 16_384;
/// Most memory of them, by [`Record::weight`].
const MAX_BYTES: usize = 32 << 20;
/// Taken at once, by the same measure.
const TAKEN_BYTES: usize = 4 << 20;

/// The queue. Without a store it takes nothing.
#[derive(Debug, Default)]
pub struct RecordQueue {
    /// Whether there is a store. Read first, so that a gateway without one pays nothing.
    wanted: AtomicBool,
    waiting: Mutex<Waiting>,
    filled: Notify,
    /// Records in the store's spool, for the gauge.
    spooled: AtomicU64,
    /// Since when the store's database takes nothing.
    away: Mutex<Option<SystemTime>>,
}

/// How the store stands, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Since when its database takes nothing; none: it does.
    pub away_since: Option<SystemTime>,
    /// Records that wait in its spool.
    pub spooled: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    records: VecDeque<Arc<Record>>,
    bytes: usize,
    /// The store is gone and has taken what it could.
    closed: bool,
}

impl RecordQueue {
    /// From now on there is a store.
    pub fn open(&self) {
        self.lock().closed = false;
        self.set_away(None);
        self.wanted.store(true, Ordering::Release);
    }

    /// The store takes nothing more: what comes now is lost, and is said to be.
    pub fn close(&self) {
        self.lock().closed = true;
    }

    /// There is no store any more, and nobody misses it.
    pub fn forget(&self) {
        self.wanted.store(false, Ordering::Release);
    }

    /// There is a store.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Puts a record in. False: there is a store, but no room for the record.
    pub fn push(&self, record: &Arc<Record>) -> bool {
        if !self.is_wanted() {
            return true;
        }
        let weight = record.weight();
        let mut waiting = self.lock();
        let full = waiting.records.len() >= MAX_RECORDS || waiting.bytes + weight > MAX_BYTES;
        if waiting.closed || full {
            return false;
        }
        waiting.bytes += weight;
        waiting.records.push_back(record.clone());
        drop(waiting);
        self.filled.notify_one();
        true
    }

    /// Takes the oldest ones, at most so many and not many bytes more than [`TAKEN_BYTES`].
    pub fn take(&self, most: usize) -> Vec<Arc<Record>> {
        let mut waiting = self.lock();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < most && bytes < TAKEN_BYTES {
            let Some(record) = waiting.records.pop_front() else { break };
            bytes += record.weight();
            taken.push(record);
        }
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        taken
    }

    /// Throws away what waits, and gives its number.
    pub fn clear(&self) -> usize {
        let mut waiting = self.lock();
        waiting.bytes = 0;
        std::mem::take(&mut waiting.records).len()
    }

    /// Waits until one is there. For one waiter.
    pub async fn filled(&self) {
        while self.lock().records.is_empty() {
            self.filled.notified().await;
        }
    }

    /// Records that wait.
    pub fn len(&self) -> usize {
        self.lock().records.len()
    }

    /// None waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// More than half of the room is taken.
    pub fn is_crowded(&self) -> bool {
        let waiting = self.lock();
        waiting.records.len() > MAX_RECORDS / 2 || waiting.bytes > MAX_BYTES / 2
    }

    /// Notes since when the database takes nothing.
    pub fn set_away(&self, since: Option<SystemTime>) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// How the store stands; none: there is none.
    pub fn standing(&self) -> Option<Standing> {
        let away = *self.away.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_wanted().then(|| Standing { away_since: away, spooled: self.spooled() })
    }

    /// Notes how many records the spool holds.
    pub fn set_spooled(&self, records: u64) {
        self.spooled.store(records, Ordering::Relaxed);
    }

    /// Records in the spool.
    pub fn spooled(&self) -> u64 {
        self.spooled.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests {
    use super::super::record::tests::sample;
    use super::*;

    fn queue() -> RecordQueue {
        let queue = RecordQueue::default();
        queue.open();
        queue
    }

    fn heavy() -> Arc<Record> {
        let mut record = sample();
        record.decision = record.decision.map(|choices| vec![choices[0].clone(); 256]);
        Arc::new(record)
    }

    #[test]
    fn without_a_store_nothing_is_kept_and_nothing_is_missed() {
        let queue = RecordQueue::default();
        assert!(queue.push(&Arc::new(sample())));
        assert!(queue.is_empty());
        queue.open();
        queue.forget();
        assert!(queue.push(&Arc::new(sample())));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_full_queue_refuses_and_has_room_again() {
        for (record, least) in [(Arc::new(sample()), MAX_RECORDS), (heavy(), 64)] {
            let queue = queue();
            let room = (0..=MAX_RECORDS).take_while(|_| queue.push(&record)).count();
            assert_eq!(room, queue.len());
            assert!((least..=MAX_RECORDS).contains(&room), "{room}");
            assert!(queue.is_crowded() && room * record.weight() <= MAX_BYTES);
            assert_eq!(queue.take(1).len(), 1);
            assert!(queue.push(&record) && !queue.push(&record));
            let taken: usize = std::iter::from_fn(|| Some(queue.take(room)).filter(|some| !some.is_empty()))
                .inspect(|some| assert!(some.len() * record.weight() <= TAKEN_BYTES + record.weight()))
                .map(|some| some.len())
                .sum();
            assert_eq!(taken, room);
            assert!(!queue.is_crowded() && queue.push(&record));
        }
    }

    #[test]
    fn a_closed_queue_refuses_but_gives_what_it_has() {
        let queue = queue();
        assert!(queue.push(&Arc::new(sample())));
        queue.push(&Arc::new(sample()));
        queue.close();
        assert!(!queue.push(&Arc::new(sample())));
        assert_eq!(queue.take(1).len(), 1);
        assert_eq!((queue.clear(), queue.len()), (1, 0));
    }

    #[tokio::test]
    async fn a_waiter_sees_a_record_that_came_before_it_waited() {
        let queue = queue();
        queue.push(&Arc::new(sample()));
        queue.filled().await;
        queue.take(10);
        queue.push(&Arc::new(sample()));
        queue.filled().await;
    }
}
