//! The connection to the database as something that comes and goes: how long it is waited for, how often it is tried,
//! and the two lines of the log that tell when it went and when it came back.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::database::{Address, Database, Purpose, StoreError};
use super::keep::Keep;
use super::writer::LAST;
use crate::clock;
use crate::telemetry::Telemetry;

/// A connection that takes longer is none.
const CONNECT: Duration = Duration::from_secs(5);
/// So often a write is looked after; after the last look it has failed.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS: u32 = 10;
/// Pauses between tries: doubled from the first to the last, a little less at random so that replicas spread.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// A connection in the making.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<Database, StoreError>> + Send>>;

/// Connects after a pause.
pub(super) fn open(address: Address, pause: Duration) -> Opening {
    Box::pin(async move {
        tokio::time::sleep(pause).await;
        match tokio::time::timeout(CONNECT, Database::open(&address, Purpose::Write)).await {
            Ok(opened) => opened,
            Err(_) => Err(StoreError::Away(format!("no connection within {CONNECT:?}"))),
        }
    })
}

/// Waits for the database, but not for ever, not while records pile up behind it, and not much longer once the
/// gateway is going.
pub(super) async fn patiently<T>(
    telemetry: &Telemetry,
    closing: &CancellationToken,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let mut work = std::pin::pin!(work);
    let looking = async {
        for look in 1..=LOOKS {
            match tokio::time::timeout(LOOK, work.as_mut()).await {
                Ok(done) => return done,
                Err(_) if telemetry.records().is_crowded() => {
                    let text = format!("it is too slow for what comes: {look} s and more for one write");
                    return Err(StoreError::Away(text));
                }
                Err(_) => {}
            }
        }
        Err(StoreError::Away(format!("no answer within {LOOKS} s")))
    };
    let going = async {
        closing.cancelled().await;
        tokio::time::sleep(LAST / 2).await;
    };
    tokio::select! {
        biased;
        done = looking => done,
        () = going => Err(StoreError::Away("no answer before the end".to_owned())),
    }
}

/// What is wrong with the database, as far as it was told: to the log, and to who looks.
pub(super) struct Trouble {
    telemetry: Telemetry,
    /// Tries in a row that came to nothing.
    tries: u32,
    said: Option<Kind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A connection is all that is missing.
    Connection,
    /// It can be reached, and does not take records: to reach it again proves nothing.
    Writing,
}

impl Trouble {
    /// Nothing is wrong yet.
    pub(super) const fn new(telemetry: Telemetry) -> Self {
        Self { telemetry, tries: 0, said: None }
    }

    /// No connection could be made; gives the pause before the next try.
    pub(super) fn no_connection(&mut self, error: &StoreError) -> Duration {
        self.away(Kind::Connection, error)
    }

    /// It did not take what it was given; gives the pause before the next try.
    pub(super) fn no_write(&mut self, error: &StoreError) -> Duration {
        self.away(Kind::Writing, error)
    }

    /// Nothing was ever wrong, or all is well again.
    pub(super) fn is_none(&self) -> bool {
        self.said.is_none()
    }

    /// There is a connection.
    pub(super) fn connected(&mut self, keep: &Keep) {
        if self.said == Some(Kind::Connection) {
            self.back(keep);
        }
    }

    /// It has taken something.
    pub(super) fn written(&mut self, keep: &Keep) {
        self.tries = 0;
        self.back(keep);
    }

    fn away(&mut self, kind: Kind, error: &StoreError) -> Duration {
        if self.said.replace(kind).is_none() {
            tracing::warn!(event = "records_away", error = %error);
            self.telemetry.records().set_away(Some(clock::wall()));
        }
        let pause = PAUSES.0.saturating_mul(1 << self.tries.min(16)).min(PAUSES.1);
        self.tries = self.tries.saturating_add(1);
        pause.mul_f64(fastrand::f64().mul_add(0.25, 0.75))
    }

    fn back(&mut self, keep: &Keep) {
        if self.said.take().is_some() {
            tracing::info!(event = "records_back", spooled = keep.waiting());
            self.telemetry.records().set_away(None);
        }
    }
}
