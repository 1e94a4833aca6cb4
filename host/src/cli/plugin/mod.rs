//! `sluice plugin …`: from nothing to a component that a gateway takes.
//!
//! Each command is a module; what they share is how a component is found and with which targets it is tried.

mod bench;
mod build;
mod cases;
mod check;
mod lines;
mod new;
mod sdk;
mod setup;
mod test;
mod toolchain;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Exit;

/// What there is to do with a plugin.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Write a new plugin: a small crate that builds, with tests
    New {
        /// Its name: the crate, the file and the plugin are called so
        name: String,
        /// What it decides
        #[arg(long, value_enum)]
        kind: Kind,
        /// Where the folder is made
        #[arg(long, value_name = "DIR", default_value = ".")]
        into: PathBuf,
    },
    /// Build the component of a crate, for release and without paths of this machine in it
    Build {
        /// The folder of the crate
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Say whether a gateway would take a component, and if not why: exactly what /debug/plugins would say
    Check {
        /// The component; its sidecar is read if it lies beside it
        file: PathBuf,
        #[command(flatten)]
        with: With,
    },
    /// Ask a component what JSON cases say, and compare
    Test {
        /// The component
        file: PathBuf,
        /// Folder of the cases, each `*.json` in it
        #[arg(long, value_name = "DIR", default_value = "cases")]
        cases: PathBuf,
    },
    /// Say what a call of a component costs
    Bench {
        /// The component; its sidecar is read if it lies beside it
        file: PathBuf,
        #[command(flatten)]
        with: With,
        /// Take settings and targets of this file of cases
        #[arg(long, value_name = "FILE", conflicts_with = "config")]
        case: Option<PathBuf>,
        /// Calls of a warm instance that are timed, for each row; a tenth as many of fresh ones
        #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
        calls: u32,
    },
}

/// How a component is tried, and how that is told.
#[derive(Debug, Clone, Args)]
pub struct With {
    /// Configure it with the targets of this configuration, under its limits
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Tell it as JSON
    #[arg(long)]
    json: bool,
}

/// What a plugin decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Which target is best
    Router,
    /// What a failure means
    Classifier,
    /// What is written on an answer
    Tagger,
}

/// Does it. What is wrong with the way it was asked goes to `err`, everything else to `out`.
///
/// # Errors
/// Only what writing gives.
pub async fn run(command: PluginCommand, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    match command {
        PluginCommand::New { name, kind, into } => new::new(&name, kind, &into, out, err),
        PluginCommand::Build { dir } => build::build(&dir, out, err),
        PluginCommand::Check { file, with } => check::check(&file, &with, out, err).await,
        PluginCommand::Test { file, cases } => test::test(&file, &cases, out, err).await,
        PluginCommand::Bench { file, with, case, calls } => {
            Box::pin(bench::bench(&file, &with, case.as_deref(), calls, out, err)).await
        }
    }
}
