//! What can be said about the bytes of a plugin without compiling them: are they a whole, valid component,
//! which contract was it built for, and does it ask for more than it may have.

use sluice_core::facts::PluginKind;
use wasmparser::{Encoding, Instance, Parser, Payload, Validator, WasmFeatures};
use wasmtime::Engine;

use super::contract::{ACCEPTED, Contract};
use super::engine::{CORE_INSTANCES_MAX, MEMORY_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX};
use super::rejection::Rejection;

const PAGE: u64 = 64 * 1024;

/// Interfaces of WASI 0.2 that a standard library needs to start, print and exit.
const WASI: &[&str] = &[
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
];

/// What a component is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// The contract it was built for.
    pub contract: Contract,
    /// What it can be asked for; at least one.
    pub kinds: Vec<PluginKind>,
    /// What its core modules declare.
    pub needs: Needs,
}

/// What the core modules of a component declare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Largest initial memory, bytes.
    pub memory: u64,
    /// Memories.
    pub memories: u32,
    /// Largest initial table, elements.
    pub elements: u64,
    /// Tables.
    pub tables: u32,
    /// Core modules that are instantiated; those of a component inside count once, however often it is instantiated.
    pub instances: u32,
}

impl Needs {
    /// Whether it fits into `memory` bytes and what the engine has for one instance.
    ///
    /// # Errors
    /// [`Rejection::Resources`] for the first thing that does not fit.
    pub fn within(&self, memory: u64) -> Result<(), Rejection> {
        let checks: [(&'static str, u64, u64); 5] = [
            ("memories", self.memories.into(), 1),
            ("initial memory in bytes", self.memory, memory.min(MEMORY_MAX)),
            ("tables", self.tables.into(), TABLES_MAX.into()),
            ("elements of a table", self.elements, TABLE_ELEMENTS_MAX),
            ("core instances", self.instances.into(), CORE_INSTANCES_MAX.into()),
        ];
        match checks.into_iter().find(|(_, found, max)| found > max) {
            Some((what, found, max)) => Err(Rejection::Resources { what, found: found.to_string(), max }),
            None => Ok(()),
        }
    }
}

/// Inspects the bytes of a plugin file.
///
/// # Errors
/// The first thing that is wrong, in the order size, magic, validity, imports, contract.
pub fn inspect(bytes: &[u8], max: u64) -> Result<Inspected, Rejection> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > max {
        return Err(Rejection::TooLarge { size, max });
    }
    magic(bytes)?;
    Validator::new_with_features(features()).validate_all(bytes).map_err(|error| invalid(&error))?;
    let names = names(bytes)?;
    // What it wants of the contract itself is judged once its version is known: a plugin of a newer contract
    // is told so, and not that the log does not exist.
    let refuse = |of_contract: bool| {
        let mut imports =
            names.imports.iter().filter(|name| name.starts_with("sluice:policy/") == of_contract);
        imports.find(|name| !allowed(name)).map_or(Ok(()), |name| Err(Rejection::Import(name.clone())))
    };
    refuse(false)?;
    let (contract, kinds) = contract(&names.exports)?;
    refuse(true)?;
    Ok(Inspected { contract, kinds, needs: names.needs })
}

fn magic(bytes: &[u8]) -> Result<(), Rejection> {
    if bytes.is_empty() {
        return Err(Rejection::Empty);
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(Rejection::Precompiled);
    }
    if Parser::is_component(bytes) {
        return Ok(());
    }
    if Parser::is_core_wasm(bytes) {
        return Err(Rejection::CoreModule);
    }
    let start: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Err(Rejection::Magic(start.join(" ")))
}

/// What the engine lets through, so that what passes here compiles.
fn features() -> WasmFeatures {
    WasmFeatures::WASM2 | WasmFeatures::EXTENDED_CONST | WasmFeatures::COMPONENT_MODEL
}

fn invalid(error: &wasmparser::BinaryReaderError) -> Rejection {
    Rejection::Parse {
        offset: u64::try_from(error.offset()).unwrap_or(u64::MAX),
        message: error.message().to_owned(),
    }
}

#[derive(Default)]
struct Names {
    imports: Vec<String>,
    exports: Vec<String>,
    needs: Needs,
}

/// Reads the outermost imports and exports, and the memories, tables and core instances of everything inside.
fn names(bytes: &[u8]) -> Result<Names, Rejection> {
    let mut names = Names::default();
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| invalid(&error))? {
            Payload::Version { encoding: Encoding::Component | Encoding::Module, .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    names.imports.push(import.map_err(|error| invalid(&error))?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    names.exports.push(export.map_err(|error| invalid(&error))?.name.name.to_owned());
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory.map_err(|error| invalid(&error))?;
                    names.needs.memories += 1;
                    names.needs.memory = names.needs.memory.max(memory.initial.saturating_mul(PAGE));
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    let table = table.map_err(|error| invalid(&error))?;
                    names.needs.tables += 1;
                    names.needs.elements = names.needs.elements.max(table.ty.initial);
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section {
                    let instance = instance.map_err(|error| invalid(&error))?;
                    names.needs.instances += u32::from(matches!(instance, Instance::Instantiate { .. }));
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

/// Splits `package:name/interface@version`.
fn versioned(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

fn allowed(import: &str) -> bool {
    let (interface, version) = versioned(import);
    match interface {
        // `types` holds no function: it only gives names to records.
        "sluice:policy/log" | "sluice:policy/types" => Contract::of_version(version).is_some(),
        _ => {
            WASI.contains(&interface)
                && version.strip_prefix("0.2.").is_some_and(|patch| patch.parse::<u32>().is_ok())
        }
    }
}

/// The contract and the kinds, from the names of the exports.
fn contract(exports: &[String]) -> Result<(Contract, Vec<PluginKind>), Rejection> {
    let accepted = || ACCEPTED.join(", ");
    let of_policy: Vec<(&str, &str)> = exports
        .iter()
        .map(|export| versioned(export))
        .filter_map(|(interface, version)| Some((interface.strip_prefix("sluice:policy/")?, version)))
        .collect();
    let Some((_, version)) =
        of_policy.iter().find(|(interface, _)| *interface == "plugin").or(of_policy.first())
    else {
        return Err(Rejection::NoContract { accepted: accepted() });
    };
    let Some(contract) = Contract::of_version(version) else {
        return Err(Rejection::Version { found: (*version).to_owned(), accepted: accepted() });
    };
    let has = |name: &str| of_policy.contains(&(name, *version));
    let kinds: Vec<PluginKind> = PluginKind::ALL.into_iter().filter(|kind| has(kind.as_str())).collect();
    if !has("plugin") || kinds.is_empty() {
        let found: Vec<String> =
            of_policy.iter().map(|(interface, version)| format!("{interface}@{version}")).collect();
        return Err(Rejection::Exports { found: found.join(", "), version: contract.version().to_owned() });
    }
    Ok((contract, kinds))
}

#[cfg(test)]
mod tests;
