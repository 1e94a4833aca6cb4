//! `sluice demo`: what the gateway promises, shown and checked. Two scripted upstreams and the real gateway in
//! one process; a row for each promise; then the same to try by hand.
//!
//! It needs no key, no file and no network beyond loopback. It decides nothing: every mark comes from what the
//! client read, what the upstreams counted, and what the gateway wrote and measured.

mod client;
mod components;
mod patient;
mod row;
mod rows;
mod serve;
mod sink;
mod stage;
mod table;

use std::io::{self, Write};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clock;
use crate::exit::Exit;
use stage::DemoError;
use table::{Table, time};

/// Plays all rows on `out`, then serves until a signal unless `once`. `live`: `out` is a terminal. [`Exit::No`]
/// when a row did not come out right, or a signal ended it before the last.
///
/// # Errors
/// What writing to `out`, or asking for signals, gives.
pub async fn run(once: bool, live: bool, out: &mut dyn Write) -> io::Result<Exit> {
    let mut signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut table = Table::new(out, live);
    let rows = Box::pin(all(&mut table));
    let right = tokio::select! {
        right = rows => right?,
        () = either(&mut signals) => return Ok(Exit::No),
    };
    if !once {
        match Box::pin(serve::serve(&mut table, either(&mut signals))).await {
            Ok(()) => {}
            Err(DemoError::Folder(error)) => return Err(error),
            Err(error) => {
                table.say(&format!("\nThe gateway could not be kept running: {error}"))?;
                return Ok(Exit::No);
            }
        }
    }
    Ok(if right { Exit::Done } else { Exit::No })
}

async fn all(table: &mut Table<'_>) -> io::Result<bool> {
    table.say(
        "A gateway between two scripted upstreams, `primary` and `backup`: one row for each promise.\n",
    )?;
    table.head()?;
    let begun = clock::now();
    let (mut checks, mut wrong) = (0, Vec::new());
    for (number, title) in rows::ALL {
        table.running(number, title)?;
        let row = Box::pin(rows::play(number, title)).await;
        table.row(&row)?;
        checks += row.checks;
        if !row.is_right() {
            wrong.push(number.to_string());
        }
    }
    let took = time(clock::now().saturating_duration_since(begun));
    let count = rows::ALL.len();
    table.say(&match wrong.len() {
        0 => format!("All {count} rows came out right: {checks} checks in {took}."),
        bad => {
            format!("{bad} of {count} rows came out wrong ({}); {checks} checks in {took}.", wrong.join(", "))
        }
    })?;
    Ok(wrong.is_empty())
}

async fn either((interrupt, terminate): &mut (Signal, Signal)) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
