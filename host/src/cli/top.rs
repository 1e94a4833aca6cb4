//! `sluice top`: a running gateway, live in a terminal.
//!
//! `look` reads the admin pages, `frame` makes lines of what was read, `screen` owns the terminal. Here is only
//! when which of them has its turn. Where standard output is no terminal, frames are plain text, one after another.

mod frame;
mod look;
mod screen;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop where it fails")]
mod tests;
mod text;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use clap::Args;

use self::frame::{Told, frame};
use self::look::Look;
use self::screen::{Screen, Signals, Wish};
use super::Exit;
use super::admin::{AdminArgs, PageError};
use crate::clock;

/// Which gateway, and how often.
#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    of: AdminArgs,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print what is to be seen now as plain text, and end
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok();
    time.filter(|time| (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(time))
        .ok_or_else(|| "expected a time from 100ms to 1h, such as 2s".to_owned())
}

/// Shows the gateway until the reader has seen enough. `live` says that `out` is a terminal.
///
/// A gateway that does not answer at the beginning is [`Exit::No`]; one that stops answering later is shown as
/// such, and is asked again.
///
/// # Errors
/// Only what writing, or the terminal, gives.
pub async fn top(args: TopArgs, live: bool, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    let mut view = View { of: args.of, last: None, rates: None, trouble: None };
    if let Err(error) = view.look().await {
        writeln!(err, "sluice: {error}")?;
        return Ok(Exit::No);
    }
    let done = if args.once {
        view.print(out)
    } else if live {
        return watch(view, args.interval, out).await.map(|()| Exit::Done);
    } else {
        repeat(view, args.interval, out).await
    };
    match done {
        // `| head` has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        done => done.map(|()| Exit::Done),
    }
}

/// What is known of the gateway.
struct View {
    of: AdminArgs,
    last: Option<(Look, Instant)>,
    rates: Option<look::Rates>,
    trouble: Option<PageError>,
}

impl View {
    async fn look(&mut self) -> Result<(), &PageError> {
        match Box::pin(look::look(&self.of)).await {
            Ok(look) => {
                let now = clock::now();
                let before = self.last.take();
                self.rates =
                    before.and_then(|(before, at)| look.since(&before, now.saturating_duration_since(at)));
                self.last = Some((look, now));
                self.trouble = None;
                Ok(())
            }
            Err(error) => Err(self.trouble.insert(error)),
        }
    }

    fn lines(&self, size: Option<(u16, u16)>, keys: bool) -> Vec<text::Line> {
        let Some((look, at)) = &self.last else { return Vec::new() };
        frame(&Told {
            look,
            address: &self.of.admin,
            rates: self.rates.as_ref(),
            trouble: self.trouble.as_ref().map(ToString::to_string),
            age: clock::now().saturating_duration_since(*at),
            size: size.map(|(width, height)| (width.into(), height.into())),
            keys,
        })
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for line in self.lines(None, false) {
            writeln!(out, "{}", line.plain())?;
        }
        out.flush()
    }
}

/// Frame after frame for whoever keeps them, until nobody reads or a signal ends it.
async fn repeat(mut view: View, interval: Duration, out: &mut dyn Write) -> io::Result<()> {
    let mut signals = Signals::new()?;
    loop {
        view.print(out)?;
        writeln!(out)?;
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = signals.end() => return Ok(()),
        }
        // What is wrong is in the frame.
        let _ = view.look().await;
    }
}

async fn watch(mut view: View, interval: Duration, out: &mut dyn Write) -> io::Result<()> {
    let mut screen = Screen::enter(out)?;
    let mut next = clock::now() + interval;
    loop {
        screen.draw(&view.lines(Some(screen.size()?), true))?;
        let wish = tokio::select! {
            wish = screen.wish() => wish?,
            () = tokio::time::sleep_until(next.into()) => Wish::Look,
        };
        match wish {
            Wish::End => return Ok(()),
            Wish::Draw => {}
            Wish::Look => {
                // A gateway that is slow to answer does not keep the reader from leaving.
                tokio::select! {
                    _ = view.look() => {}
                    end = screen.ends() => return end,
                }
                next = clock::now() + interval;
            }
        }
    }
}
