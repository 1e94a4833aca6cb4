//! `storm --seconds 300 --concurrency 500 --seed 1 [--bin PATH]`: a storm against the gateway that was built beside
//! this program, and 1 as the exit code when a promise was broken.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use harness::storm::Storm;

const USAGE: &str = "usage: storm [--seconds N] [--concurrency N] [--seed N] [--bin PATH]";

fn options() -> Result<Storm, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut storm = Storm { program: own.with_file_name("sluice"), seconds: 300, concurrency: 500, seed: 1 };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name}: a value is missing; {USAGE}"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        match name.as_str() {
            "--seconds" => storm.seconds = number()?,
            "--concurrency" => storm.concurrency = usize::try_from(number()?).map_err(|e| e.to_string())?,
            "--seed" => storm.seed = number()?,
            "--bin" => storm.program = PathBuf::from(&value),
            _ => return Err(format!("{name}: unknown; {USAGE}")),
        }
    }
    Ok(storm)
}

#[tokio::main]
async fn main() -> std::io::Result<ExitCode> {
    let mut out = std::io::stdout();
    let storm = match options() {
        Ok(storm) => storm,
        Err(wrong) => {
            writeln!(out, "{wrong}")?;
            return Ok(ExitCode::from(2));
        }
    };
    writeln!(out, "{} s, {} callers, seed {}", storm.seconds, storm.concurrency, storm.seed)?;
    let report = Box::pin(storm.run()).await;
    writeln!(out, "{report}")?;
    Ok(ExitCode::from(u8::from(!report.wrong.is_empty())))
}
