//! The commands, each as a function that writes to what it is given and says how the process ends.

mod admin;
pub mod check;
pub mod drill;
pub mod explain;
pub mod plugin;
pub mod plugins;
pub mod records;
pub mod run;
pub mod top;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

pub use crate::exit::Exit;
use crate::mock::MockArgs;

/// The status of a command whose reader has gone: as a shell shows one that was ended by SIGPIPE, which is what becomes of
/// most others.
const NOBODY_READS: u8 = 128 + 13;

/// What `--version` says: the release, the commit it was built from, the contracts it takes plugins of.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("SLUICE_COMMIT"),
    ", contracts sluice:policy@0.1.0)"
);

#[derive(Parser)]
#[command(name = "sluice", version = VERSION, about = "An LLM gateway that its operators program in WebAssembly")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a configuration until SIGTERM
    Run {
        /// The configuration file
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Say whether a configuration would start, and where it would not
    Check {
        /// The configuration file
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Show and check every promise on scripted upstreams, then serve them to try by hand
    Demo {
        /// End after the table: 0 when every row came out right, 1 otherwise
        #[arg(long)]
        once: bool,
    },
    /// Rehearse a configuration against failing stand-ins of its upstreams
    Drill(drill::DrillArgs),
    /// Say what would become of a request: who could serve it, in which order, why, and what after a failure
    Explain(explain::ExplainArgs),
    /// Look up what happened to which request, in the store of records
    Records(records::RecordsArgs),
    /// Run a scripted OpenAI-compatible upstream
    Mock(MockArgs),
    /// Write, build and try out a plugin
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Show the plugins of a running gateway
    Plugins {
        #[command(flatten)]
        of: admin::AdminArgs,
        /// Show the page /debug/plugins itself
        #[arg(long)]
        json: bool,
    },
    /// Watch a running gateway: targets, gates, plugins and the last requests
    Top(top::TopArgs),
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // There is nowhere else to say it.
            let _ = writeln!(err, "sluice: the runtime could not be started: {error}");
            return ExitCode::from(Exit::No.code());
        }
    };
    let done = match args.command {
        Command::Run { config } => runtime.block_on(run::run(&config, &mut err)),
        Command::Check { config } => runtime.block_on(check::check(&config, &mut out)),
        Command::Drill(args) => {
            let live = std::io::IsTerminal::is_terminal(&err);
            runtime.block_on(drill::drill(args, live, &mut out, &mut err))
        }
        Command::Explain(args) => runtime.block_on(explain::explain(args, &mut out, &mut err)),
        Command::Records(args) => runtime.block_on(records::records(args, &mut out, &mut err)),
        Command::Demo { once } => {
            let live = std::io::IsTerminal::is_terminal(&out);
            runtime.block_on(crate::demo::run(once, live, &mut out))
        }
        Command::Plugin(command) => runtime.block_on(plugin::run(command, &mut out, &mut err)),
        Command::Plugins { of, json } => runtime.block_on(plugins::plugins(&of, json, &mut out, &mut err)),
        Command::Top(args) => {
            let live = std::io::IsTerminal::is_terminal(&out);
            runtime.block_on(top::top(args, live, &mut out, &mut err))
        }
        Command::Completions { shell } => {
            // By way of a buffer: the generator panics where a reader has gone.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "sluice", &mut script);
            out.write_all(&script).map(|()| Exit::Done)
        }
        Command::Mock(args) => return runtime.block_on(crate::mock::run(args, &mut out)),
    };
    // All that has to be written is; a plugin that is being compiled cannot be stopped, and is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(exit) => ExitCode::from(exit.code()),
        // `| head` has seen enough. What the answer would have been nobody was told, so that it is none of ours.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::from(NOBODY_READS),
        Err(error) => {
            let _ = writeln!(err, "sluice: {error}");
            ExitCode::from(Exit::No.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::VERSION;
    use crate::plugin::ACCEPTED;

    #[test]
    fn the_version_names_every_contract_that_is_taken() {
        for contract in ACCEPTED {
            assert!(VERSION.contains(&format!("sluice:policy@{contract}")), "{VERSION}");
        }
    }
}
