//! The lines of the architecture, held by reading the sources: who may name whom, what is absent where, how
//! large a file may be. ARCHITECTURE.md states them; this fails when one is crossed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the host and the modules they may use. A module that is missing here is a failure.
const EDGES: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("exit", &[]),
    ("config", &["clock"]),
    ("state", &["clock", "config"]),
    ("files", &[]),
    ("plugin", &["clock", "config", "files"]),
    ("policy", &["plugin"]),
    ("tracked", &[]),
    ("turn", &[]),
    ("woken", &[]),
    ("upstream", &["clock", "config", "tracked", "turn"]),
    ("telemetry", &["clock", "config"]),
    ("store", &["clock", "config", "telemetry"]),
    ("traces", &["config", "telemetry", "tracked"]),
    ("generation", &["config", "policy", "state", "upstream"]),
    ("proxy", &["clock", "config", "generation", "policy", "state", "telemetry", "upstream"]),
    (
        "server",
        &[
            "clock",
            "config",
            "generation",
            "plugin",
            "proxy",
            "state",
            "telemetry",
            "tracked",
            "turn",
            "woken",
        ],
    ),
    (
        "gateway",
        &[
            "clock",
            "config",
            "files",
            "generation",
            "plugin",
            "policy",
            "proxy",
            "server",
            "state",
            "store",
            "telemetry",
            "traces",
            "upstream",
        ],
    ),
    ("mock", &["clock", "tracked"]),
    ("rig", &["clock", "config"]),
    ("demo", &["clock", "config", "exit", "gateway", "mock", "rig"]),
    ("drill", &["clock", "config", "exit", "gateway", "mock", "rig", "telemetry"]),
    (
        "cli",
        &[
            "clock",
            "config",
            "demo",
            "drill",
            "exit",
            "gateway",
            "generation",
            "mock",
            "plugin",
            "rig",
            "store",
        ],
    ),
];

/// Crates that only the named modules may name.
const CRATES: &[(&str, &[&str])] = &[
    ("wasmtime", &["plugin"]),
    ("wasmtime_wasi", &["plugin"]),
    ("notify", &["files"]),
    ("hyper", &["cli", "mock", "proxy", "rig", "server", "tracked", "turn", "upstream"]),
    ("h2", &["upstream"]),
    ("hyper_util", &["cli", "mock", "rig", "server", "traces", "upstream"]),
    ("hyper_rustls", &["traces", "upstream"]),
    ("rustls", &["cli", "config", "traces", "upstream"]),
    ("tokio_rustls", &["cli", "server"]),
    ("opentelemetry", &["traces"]),
    ("opentelemetry_otlp", &["traces"]),
    ("opentelemetry_sdk", &["traces"]),
    ("prometheus", &["telemetry"]),
    ("sqlx", &["store"]),
    ("granit_parser", &["config"]),
    ("clap", &["cli", "mock"]),
    ("crossterm", &["cli"]),
];

/// What the pure core must never name.
const NOT_IN_CORE: &[&str] = &[
    "tokio",
    "hyper",
    "wasmtime",
    "tracing",
    "Instant::now",
    "SystemTime::now",
    "std::fs",
    "std::net::Tcp",
    "Mutex",
    "RwLock",
    "std::env",
    "std::thread",
    "println!",
];

/// Longest source file, lines. Tables of test cases may be longer.
const LINES_MAX: usize = 460;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn is_test(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.ends_with("/tests.rs") || text.contains("/tests/") || text.ends_with("/model.rs")
}

/// The file's lines of code: no comments, and nothing behind the unit tests at its end.
fn code(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a source file");
    let lines = text.lines().take_while(|line| !line.starts_with("mod tests {"));
    lines.map(|line| line.split("//").next().unwrap_or("").trim().to_owned()).collect()
}

fn module_of(path: &Path, src: &Path) -> String {
    let inside = path.strip_prefix(src).expect("inside").to_string_lossy().into_owned();
    inside.split('/').next().unwrap_or("").trim_end_matches(".rs").to_owned()
}

/// The modules of this crate that a line names by `crate::NAME`, groups included.
fn named_modules(line: &str) -> Vec<String> {
    line.match_indices("crate::")
        .filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$'))
        .flat_map(|(at, text)| {
            let rest = &line[at + text.len()..];
            match rest.strip_prefix('{') {
                Some(group) => group
                    .split(',')
                    .map(|name| name.split("::").next().unwrap_or("").trim().to_owned())
                    .collect(),
                None => {
                    vec![rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()]
                }
            }
        })
        .filter(|name| !name.is_empty())
        .collect()
}

fn names_crate(line: &str, krate: &str) -> bool {
    line.match_indices(&format!("{krate}::"))
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'))
        || line == format!("use {krate};")
}

#[test]
fn modules_of_the_host_use_only_what_they_may() {
    let src = root().join("host/src");
    let (mut wrong, mut used_edges) = (Vec::new(), BTreeSet::new());
    for path in sources(&src).iter().filter(|path| !is_test(path)) {
        let module = module_of(path, &src);
        if module == "lib" || module == "main" {
            continue;
        }
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{}: module `{module}` is not in the table", path.display()));
            continue;
        };
        for (number, line) in code(path).iter().enumerate() {
            for used in named_modules(line) {
                used_edges.insert((module.clone(), used.clone()));
                let known = EDGES.iter().any(|(name, _)| *name == used);
                if known && used != module && !allowed.contains(&used.as_str()) {
                    wrong.push(format!("{}:{}: `{module}` names `{used}`", path.display(), number + 1));
                }
            }
            for (krate, only) in CRATES {
                if names_crate(line, krate) && !only.contains(&module.as_str()) {
                    wrong.push(format!(
                        "{}:{}: `{module}` names the crate `{krate}`",
                        path.display(),
                        number + 1
                    ));
                }
            }
        }
    }
    for (module, allowed) in EDGES {
        for used in
            allowed.iter().filter(|used| !used_edges.contains(&(module.to_string(), used.to_string())))
        {
            wrong.push(format!("the table lets `{module}` name `{used}`, which it does not"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_core_is_pure() {
    let src = root().join("host/core/src");
    let mut wrong = Vec::new();
    for path in sources(&src).iter().filter(|path| !is_test(path)) {
        for (number, line) in code(path).iter().enumerate() {
            for word in NOT_IN_CORE.iter().filter(|word| line.contains(*word)) {
                wrong.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn files_are_of_one_idea() {
    let dirs = [
        "host",
        "plugins/sdk",
        "plugins/weighted-router",
        "plugins/standard-classifier",
        "plugins/standard-tagger",
        "tests/harness",
        "tests/it",
        "examples",
    ];
    let long: Vec<String> = dirs
        .iter()
        .flat_map(|dir| sources(&root().join(dir)))
        .filter(|path| !is_test(path))
        .filter_map(|path| {
            let lines = fs::read_to_string(&path).expect("a source file").lines().count();
            (lines > LINES_MAX).then(|| format!("{}: {lines} lines, at most {LINES_MAX}", path.display()))
        })
        .collect();
    assert!(long.is_empty(), "\n{}", long.join("\n"));
}

#[test]
fn every_module_says_what_it_decides() {
    let silent: Vec<String> = ["host/src", "host/core/src", "tests/harness", "tests/it"]
        .iter()
        .flat_map(|dir| sources(&root().join(dir)))
        .filter(|path| !is_test(path))
        .filter(|path| !fs::read_to_string(path).expect("a source file").starts_with("//!"))
        .map(|path| path.display().to_string())
        .collect();
    assert!(silent.is_empty(), "files without a head:\n{}", silent.join("\n"));
}

#[test]
fn the_top_level_is_as_laid_out() {
    let expected = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "README.md",
        "clippy.toml",
        "deny.toml",
        "examples",
        "host",
        "plugins",
        "rust-toolchain.toml",
        "rustfmt.toml",
        "tests",
        "wit",
    ];
    let mut found: Vec<String> = fs::read_dir(root())
        .expect("the workspace")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && name != "target")
        .collect();
    found.sort();
    let mut expected = expected.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(found, expected);
}
