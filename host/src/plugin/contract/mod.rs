//! The versions of the contract this host speaks, chosen by the names a component exports.
//!
//! One adapter module for each version translates between its bindings and the host's own types; nothing
//! else knows bindings. A new version is a new folder in `wit/`, a new adapter, and a variant here.

mod v0_1;

use sluice_core::facts::{PluginKind, TargetFacts};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre, Linker};

use super::call::{Ask, Said};
use super::state::State;

/// Versions of `sluice:policy` this host accepts, newest first.
pub const ACCEPTED: &[&str] = &["0.1.0"];

/// A version of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contract {
    /// `wit/0.1.0`.
    V0_1,
}

impl Contract {
    /// The contract of a package version such as `0.1.0`; patch versions are the same contract.
    pub fn of_version(version: &str) -> Option<Self> {
        let mut parts = version.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("0"), Some("1"), Some(patch)) if patch.parse::<u32>().is_ok() => Some(Self::V0_1),
            _ => None,
        }
    }

    /// Its version.
    pub const fn version(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1.0",
        }
    }
}

/// What a plugin says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// For people.
    pub name: String,
    /// For people.
    pub version: String,
    /// The tagger wants the head.
    pub tags_head: bool,
    /// The tagger wants the record.
    pub tags_record: bool,
}

/// Defines everything a plugin may import: the log, and the parts of WASI that a standard library needs.
///
/// # Errors
/// wasmtime refused a definition.
pub fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasi(linker)?;
    v0_1::link(linker)
}

/// WASI without files, network, clocks and randomness.
fn wasi(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    use wasmtime::component::{HasData, ResourceTable};
    use wasmtime_wasi::cli::{WasiCli, WasiCliView};
    use wasmtime_wasi::p2::bindings::{cli, io};

    struct Table;
    impl HasData for Table {
        type Data<'a> = &'a mut ResourceTable;
    }

    io::error::add_to_linker::<State, Table>(linker, State::table)?;
    io::poll::add_to_linker::<State, Table>(linker, State::table)?;
    io::streams::add_to_linker::<State, Table>(linker, State::table)?;
    cli::exit::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::environment::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stderr::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(linker, State::cli)
}

/// The exports of a component, found and checked for their shape.
pub enum Exports {
    /// Of contract 0.1.
    V0_1(v0_1::Exports),
}

impl Exports {
    /// Finds the exports of `kinds` in a component.
    ///
    /// # Errors
    /// One of them is missing or has another shape.
    pub fn find(
        contract: Contract,
        pre: &InstancePre<State>,
        kinds: &[PluginKind],
    ) -> wasmtime::Result<Self> {
        match contract {
            Contract::V0_1 => v0_1::Exports::find(pre, kinds).map(Self::V0_1),
        }
    }

    /// The same exports in an instance.
    ///
    /// # Errors
    /// wasmtime does not find them again.
    pub fn load(&self, store: &mut Store<State>, instance: &Instance) -> wasmtime::Result<Guest> {
        match self {
            Self::V0_1(exports) => exports.load(store, instance).map(Guest::V0_1),
        }
    }
}

/// An instance that can be asked.
pub enum Guest {
    /// Of contract 0.1.
    V0_1(v0_1::Guest),
}

impl Guest {
    /// Calls `describe`.
    ///
    /// # Errors
    /// The guest failed.
    pub async fn describe(&self, store: &mut Store<State>) -> wasmtime::Result<Description> {
        match self {
            Self::V0_1(guest) => guest.describe(store).await,
        }
    }

    /// Calls `configure`. The inner error is the guest's own words.
    ///
    /// # Errors
    /// The guest failed.
    pub async fn configure(
        &self,
        store: &mut Store<State>,
        settings: &str,
        targets: &[TargetFacts],
    ) -> wasmtime::Result<Result<(), String>> {
        match self {
            Self::V0_1(guest) => guest.configure(store, settings, targets).await,
        }
    }

    /// Asks. What comes back is not checked yet.
    ///
    /// # Errors
    /// The guest failed.
    pub fn ask(
        &mut self,
        store: &mut Store<State>,
        ask: Ask<'_>,
    ) -> impl Future<Output = wasmtime::Result<Said>> {
        match self {
            Self::V0_1(guest) => guest.ask(store, ask),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_versions_are_the_same_contract_and_others_are_not() {
        for (version, contract) in [
            ("0.1.0", Some(Contract::V0_1)),
            ("0.1.7", Some(Contract::V0_1)),
            ("0.2.0", None),
            ("1.1.0", None),
            ("0.1", None),
            ("0.1.0-rc.1", None),
            ("", None),
        ] {
            assert_eq!(Contract::of_version(version), contract, "{version:?}");
        }
        assert!(ACCEPTED.iter().all(|version| Contract::of_version(version).is_some()));
    }
}
