//! When something that others write may be read: once it has stopped changing for a while.
//!
//! A look tells what it saw (`S`: whatever tells one state from another cheaply), and is told to wait, to
//! judge, or that there is nothing new. A thing that never rests is judged anyway after a while, so that one
//! busy writer cannot keep a change from taking effect for ever.

use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Without a change.
    pub quiet: Duration,
    /// From the first change on, at most.
    pub longest: Duration,
}

/// What a look is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is as it was judged.
    Nothing,
    /// It still changes: look again then.
    Wait(Instant),
    /// Read it and judge it.
    Judge,
}

/// What is known about the thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debounce<S> {
    patience: Patience,
    phase: Phase<S>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase<S> {
    /// Nobody has looked: it may be in the middle of a change.
    Unseen,
    /// To be judged, whatever it looks like.
    Due,
    /// It was judged as it looked then.
    Resting { judged: S, doubted: bool },
    /// It has changed.
    Restless { seen: S, since: Instant, first: Instant },
}

impl<S: PartialEq> Debounce<S> {
    /// Nobody has looked yet: what the first look finds has its time as any change.
    pub const fn new(patience: Patience) -> Self {
        Self { patience, phase: Phase::Unseen }
    }

    /// It looks like this now.
    pub fn look(&mut self, seen: S, now: Instant) -> Next {
        match &self.phase {
            Phase::Due => return Next::Judge,
            Phase::Resting { judged, doubted } if *judged == seen => {
                return if *doubted { Next::Judge } else { Next::Nothing };
            }
            Phase::Restless { seen: before, .. } if *before == seen => {}
            // Also what changed back is not known: something was written.
            Phase::Unseen | Phase::Resting { .. } | Phase::Restless { .. } => self.stir(seen, now),
        }
        match self.due() {
            Some(due) if due > now => Next::Wait(due),
            _ => Next::Judge,
        }
    }

    /// It changes at this moment, and looks like this.
    pub fn stir(&mut self, seen: S, now: Instant) {
        let first = match self.phase {
            Phase::Restless { first, .. } => first,
            _ => now,
        };
        self.phase = Phase::Restless { seen, since: now, first };
    }

    /// It was judged as it looked then.
    pub fn judged(&mut self, seen: S) {
        self.phase = Phase::Resting { judged: seen, doubted: false };
    }

    /// Looks may deceive: one that finds it as it was judged judges again. What changes still has its time.
    pub fn doubt(&mut self) {
        if let Phase::Resting { doubted, .. } = &mut self.phase {
            *doubted = true;
        }
    }

    /// Somebody says that it is at rest: the next look judges.
    pub fn ask(&mut self) {
        self.phase = Phase::Due;
    }

    /// When it has been quiet for long enough, or restless for too long; none: nothing is awaited.
    fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Restless { since, first, .. } => {
                Some((since + self.patience.quiet).min(first + self.patience.longest))
            }
            _ => None,
        }
    }
}
