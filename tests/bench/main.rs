//! `bench`: what the gateway costs beside a bare hyper proxy, measured in one run. README.md says how to read it.
//!
//! The program plays every part but the gateway's: called without a role it leads the run, and starts itself anew as
//! upstream, as bare proxy and as load, each on the core that it belongs to.
#![allow(clippy::expect_used, clippy::panic, reason = "a measurement that cannot be made stops and says why")]

mod args;
mod cells;
mod figures;
mod load;
mod peers;
mod place;
mod proxy;
mod table;
mod upstream;

use std::io::Write as _;
use std::process::ExitCode;

use args::{Args, Role};

/// Of one thread: upstream and load share a core.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// As the gateway has it: a worker for each core that the process may use.
fn workers() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

fn main() -> std::io::Result<ExitCode> {
    let mut out = std::io::stdout();
    match Args::read(std::env::args().skip(1)) {
        Ok(Role::Upstream) => runtime().block_on(upstream::serve()),
        Ok(Role::Proxy { upstream, gathers }) => workers().block_on(proxy::serve(upstream, gathers)),
        Ok(Role::Load(plan)) => {
            let figures = runtime().block_on(load::run(*plan));
            writeln!(out, "{}", serde_json::to_string(&figures).expect("figures are JSON"))?;
        }
        Ok(Role::Lead(args)) => {
            let report = cells::run(&args);
            if args.json {
                writeln!(out, "{}", serde_json::to_string_pretty(&report).expect("a report is JSON"))?;
            } else {
                write!(out, "{}", table::render(&report))?;
            }
        }
        Err(wrong) => {
            writeln!(std::io::stderr(), "{wrong}")?;
            return Ok(ExitCode::from(2));
        }
    }
    Ok(ExitCode::SUCCESS)
}
