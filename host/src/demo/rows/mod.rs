//! The rows: what each shows and checks. Each is played on stages of its own and leaves nothing behind.

mod breakers;
mod clocks;
mod failover;
mod faults;
mod leaving;
mod passed_on;
mod refused;
mod swap;

use std::time::Duration;

use super::row::Row;
use super::stage::DemoError;
use crate::clock;

/// Numbers and titles, in order.
pub const ALL: [(u8, &str); 15] = [
    (1, "The primary is healthy"),
    (2, "The primary answers 503"),
    (3, "The primary fails before its first word of a stream"),
    (4, "The primary breaks off in the middle of its answer"),
    (5, "The primary is silent"),
    (6, "The primary fails when it is too late for another"),
    (7, "Both are silent"),
    (8, "The primary says that the request or our key is wrong"),
    (9, "The primary is down for 100 calls"),
    (10, "The primary is back when 50 calls come at once"),
    (11, "Everything is down"),
    (12, "The client leaves"),
    (13, "A router plugin is swapped while 200 streams run"),
    (14, "A plugin traps, loops, eats memory"),
    (15, "What no upstream should see"),
];

/// Plays one row. Whatever stops it is something that was not as promised.
pub async fn play(number: u8, title: &'static str) -> Row {
    let mut row = Row::new(number, title);
    let begun = clock::now();
    if let Err(error) = scenario(&mut row).await {
        row.wrong.push(format!("the scenario could not be played: {error}"));
    }
    row.took = clock::now().saturating_duration_since(begun);
    row
}

async fn scenario(row: &mut Row) -> Result<(), DemoError> {
    match row.number {
        1 => Box::pin(failover::healthy(row)).await,
        2 => Box::pin(failover::unavailable(row)).await,
        3 => Box::pin(failover::before_content(row)).await,
        4 => Box::pin(failover::cut(row)).await,
        5 => Box::pin(clocks::silent(row)).await,
        6 => Box::pin(clocks::late(row)).await,
        7 => Box::pin(clocks::both_silent(row)).await,
        8 => Box::pin(passed_on::passed_on(row)).await,
        9 => Box::pin(breakers::storm(row)).await,
        10 => Box::pin(breakers::one_probe(row)).await,
        11 => Box::pin(breakers::all_down(row)).await,
        12 => Box::pin(leaving::leaves(row)).await,
        13 => Box::pin(swap::swapped(row)).await,
        14 => Box::pin(faults::faults(row)).await,
        15 => Box::pin(refused::refused(row)).await,
        _ => {
            row.wrong.push("there is no such row".to_owned());
            Ok(())
        }
    }
}

/// Checks that a time lies between two.
fn between(row: &mut Row, what: &str, time: Duration, from: u64, to: u64) {
    let (from, to) = (Duration::from_millis(from), Duration::from_millis(to));
    row.check(format!("{what}: expected {from:?} to {to:?}, got {time:?}"), from <= time && time <= to);
}
