//! Long looks at the gateway that was built beside this program; 1 is the exit code when a promise was broken.
//!
//! * `storm --seconds 300 --concurrency 500 --seed 1`: everything at once;
//! * `storm reloads --count 1000 --concurrency 50`: a plugin swapped under running streams;
//! * `storm footprint --calls 5000`: what ten plugins cost, beside the three bundled ones.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use harness::storm::{Footprint, Reloads, Storm};

const USAGE: &str = "usage: storm [--seconds N] [--concurrency N] [--seed N] [--bin PATH]
       storm reloads [--count N] [--concurrency N] [--growth MIB] [--bin PATH]
       storm footprint [--calls N] [--starts N] [--bin PATH]";

enum Look {
    Storm(Storm),
    Reloads(Reloads),
    Footprint(Footprint),
}

/// Options as they stand in the line, by name.
struct Options(Vec<(String, String)>);

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Vec::new();
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("{name}: a value is missing; {USAGE}"))?;
            options.push((name, value));
        }
        Ok(Self(options))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(
        &mut self,
        name: &str,
        or: T,
    ) -> Result<T, String> {
        let Some(value) = self.take(name) else { return Ok(or) };
        value.parse().map_err(|error| format!("{name} {value}: {error}"))
    }

    fn none_left(self) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |(name, _)| Err(format!("{name}: unknown; {USAGE}")))
    }
}

fn look() -> Result<Look, String> {
    let mut args = std::env::args().skip(1).peekable();
    let word = args.next_if(|first| !first.starts_with('-'));
    let mut options = Options::read(args)?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = options.take("--bin").map_or_else(|| own.with_file_name("sluice"), PathBuf::from);
    let look = match word.as_deref() {
        None => Look::Storm(Storm {
            program,
            seconds: options.number("--seconds", 300)?,
            concurrency: options.number("--concurrency", 500)?,
            seed: options.number("--seed", 1)?,
        }),
        Some("reloads") => Look::Reloads(Reloads {
            program,
            count: options.number("--count", 1000)?,
            concurrency: options.number("--concurrency", 50)?,
            growth: options.number("--growth", 16)?,
        }),
        Some("footprint") => Look::Footprint(Footprint {
            program,
            starts: options.number("--starts", 5)?,
            calls: options.number("--calls", 5000)?,
        }),
        Some(other) => return Err(format!("{other}: unknown; {USAGE}")),
    };
    options.none_left()?;
    Ok(look)
}

#[tokio::main]
async fn main() -> std::io::Result<ExitCode> {
    let mut out = std::io::stdout();
    let broken = match look() {
        Err(wrong) => {
            writeln!(out, "{wrong}")?;
            return Ok(ExitCode::from(2));
        }
        Ok(Look::Storm(storm)) => {
            writeln!(out, "{} s, {} callers, seed {}", storm.seconds, storm.concurrency, storm.seed)?;
            let report = Box::pin(storm.run()).await;
            writeln!(out, "{report}")?;
            !report.wrong.is_empty()
        }
        Ok(Look::Reloads(reloads)) => {
            writeln!(out, "{} reloads under {} streams", reloads.count, reloads.concurrency)?;
            let report = Box::pin(reloads.run()).await;
            writeln!(out, "{report}")?;
            !report.wrong.is_empty()
        }
        Ok(Look::Footprint(footprint)) => {
            let prints = Box::pin(footprint.run()).await;
            writeln!(out, "{prints}")?;
            false
        }
    };
    Ok(ExitCode::from(u8::from(broken)))
}
