//! Whether to hand on what has come, or to look once more for what is there already.
//!
//! The HTTP client gives one chunk at a time and takes the next from its socket only when it is run again.
//! So in a burst it pays to let it run, a few times and without any timer, before the client is written to.
//! A stream whose events come one by one pays nothing: it is never made to wait.

use std::time::{Duration, Instant};

use crate::clock;

/// Turns of the scheduler given away at most before what is there is handed on.
const TURNS: u8 = 4;
/// Two hand-overs closer than this are a burst.
const BURST: Duration = Duration::from_micros(250);

/// Decides for one stream.
#[derive(Debug, Default)]
pub(super) struct Gather {
    burst: bool,
    turns: u8,
    chunks: u32,
    last: Option<Instant>,
}

impl Gather {
    /// A chunk came.
    pub fn more(&mut self) {
        self.chunks += 1;
        self.turns = 0;
    }

    /// Whether to give away one more turn before handing on.
    pub fn wants_to_wait(&mut self) -> bool {
        let wait = self.burst && self.turns < TURNS;
        self.turns += u8::from(wait);
        wait
    }

    /// What had come was handed on.
    pub fn handed_on(&mut self) {
        let now = clock::now();
        self.burst = self.chunks > 1 || self.last.is_some_and(|last| now.duration_since(last) < BURST);
        self.last = Some(now);
        self.chunks = 0;
        self.turns = 0;
    }

    /// Nothing is there.
    pub fn waits(&mut self) {
        self.turns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_event_never_waits_and_a_burst_waits_a_bounded_number_of_turns() {
        let mut gather = Gather::default();
        gather.more();
        assert!(!gather.wants_to_wait(), "the first event goes out at once");
        gather.handed_on();
        gather.more();
        gather.more();
        gather.handed_on();
        gather.more();
        let turns = (0..100).filter(|_| gather.wants_to_wait()).count();
        assert_eq!(turns, usize::from(TURNS));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_slows_down_stops_waiting() {
        let mut gather = Gather::default();
        gather.more();
        gather.more();
        gather.handed_on();
        tokio::time::advance(Duration::from_millis(20)).await;
        gather.more();
        gather.handed_on();
        gather.more();
        assert!(!gather.wants_to_wait());
    }
}
