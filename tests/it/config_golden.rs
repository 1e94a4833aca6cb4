//! Every file of `tests/config` and what is said about it, word for word; and the same for the sidecars of plugins in
//! `tests/config/sidecars`, where `NAME.is` holds what a good `NAME.yaml` means. `NAME.err` holds the class and the
//! lines of a refused `NAME.yaml`, `NAME.warn` the warnings of one that loads (empty: none). A new case
//! is two new files; `SLUICE_GOLDEN=write cargo test -p sluice-tests config_golden` writes the second.
#![allow(clippy::expect_used, clippy::panic, reason = "a broken case should say so and stop the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sluice::config::{self, Finding};

/// Stands in every secret, in the environment and in the files. No message may hold it.
const MARK: &str = "hush";

fn env(name: &str) -> Option<String> {
    let value = match name {
        "KEY" => "hush-key",
        "KEY_LONG" => "hush-0123456789abcdef",
        "KEY_LINE" => "hush-key\n",
        "KEY_TWO_LINES" => "hush-key\n\n",
        "KEY_EMPTY" => "",
        "KEY_ONLY_LINE" => "\n",
        "KEY_SPACED" => " hush-key",
        "KEY_CONTROL" => "hush\u{1}key",
        "KEY_UMLAUT" => "hush-schlüssel",
        _ => return None,
    };
    Some(value.to_owned())
}

fn cases() -> Vec<PathBuf> {
    cases_in("config")
}

fn cases_in(dir: &str) -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir(dir)
        .expect("the folder of cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    cases.sort();
    cases
}

/// What is said about a case, and the file that should hold it.
fn said(case: &Path) -> (PathBuf, String) {
    let lines = |findings: &[Finding]| -> String {
        findings.iter().map(|finding| finding.line_for(case) + "\n").collect()
    };
    match config::load_with(case, &env) {
        Ok(loaded) => (case.with_extension("warn"), lines(&loaded.warnings)),
        Err(errors) => {
            let text = format!("{}\n{errors}\n", errors.kind.as_str());
            assert_eq!(text, format!("{}\n{}", errors.kind.as_str(), lines(&errors.findings)));
            (case.with_extension("err"), text)
        }
    }
}

/// The same for a sidecar.
fn said_of_sidecar(case: &Path) -> (PathBuf, String) {
    match config::sidecar(&fs::read(case).expect("a sidecar"), case) {
        Ok(sidecar) => (case.with_extension("is"), format!("{sidecar:#?}\n")),
        Err(bad) => {
            let (class, on_error) = (bad.errors.kind.as_str(), bad.on_error.as_str());
            (case.with_extension("err"), format!("{class}, {on_error}\n{}\n", bad.errors))
        }
    }
}

#[test]
fn every_mistake_is_said_as_it_was_agreed() {
    as_agreed(cases(), said);
}

#[test]
fn every_mistake_of_a_sidecar_is_said_as_it_was_agreed() {
    let cases = cases_in("config/sidecars");
    assert!(cases.len() >= 12, "the cases were not found");
    as_agreed(cases, said_of_sidecar);
}

fn as_agreed(cases: Vec<PathBuf>, said: impl Fn(&Path) -> (PathBuf, String)) {
    let write = std::env::var_os("SLUICE_GOLDEN").is_some_and(|value| value == "write");
    let mut wrong = Vec::new();
    for case in cases {
        let (file, text) = said(&case);
        assert!(!text.contains(MARK), "{}: a secret is shown:\n{text}", case.display());
        if write {
            fs::write(&file, &text).expect("the golden file is written");
        }
        let golden = fs::read_to_string(&file).unwrap_or_default();
        if !file.exists() || golden != text {
            wrong.push(format!("{}\n--- expected\n{golden}--- found\n{text}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_golden_file_belongs_to_one_case() {
    let cases: BTreeSet<PathBuf> = cases().into_iter().collect();
    assert!(cases.len() >= 30, "the cases were not found");
    for entry in fs::read_dir("config").expect("the folder of cases") {
        let path = entry.expect("an entry").path();
        let is_golden = path.extension().is_some_and(|e| e == "err" || e == "warn");
        assert!(
            !is_golden || cases.contains(&path.with_extension("yaml")),
            "{} belongs to no case",
            path.display()
        );
        assert!(
            !(path.with_extension("err").exists() && path.with_extension("warn").exists()),
            "{} is both refused and loaded",
            path.display()
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |name: &str| {
        let path = folder.path().join(name);
        let errors = config::load_with(&path, &env).expect_err("nothing to load");
        assert_eq!(errors.kind.as_str(), "read", "{name}");
        let text = errors.to_string();
        let line = text.strip_prefix(&format!("{}:1:1: (file): ", path.display()));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert!(refused("missing.yaml").starts_with("cannot be read: "));
    fs::create_dir(folder.path().join("folder.yaml")).expect("a folder");
    assert_eq!(refused("folder.yaml"), "cannot be read: it is a folder");
    let big = "# comment\n".repeat((4 << 20) / 10 + 1);
    fs::write(folder.path().join("big.yaml"), big).expect("a large file");
    assert_eq!(refused("big.yaml"), "is larger than 4194304 bytes");
}

#[test]
fn roots_of_ones_own_are_looked_at_before_they_are_trusted() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("one");
    let pem = certificate.cert.pem();
    let load = |pem: &str| {
        fs::write(folder.path().join("ca.pem"), pem).expect("written");
        let text = "upstreams: { a: { base_url: \"https://h\", ca_file: ca.pem, models: { m: {} } } }\nroutes: { r: { targets: [ a/m ] } }\n";
        config::parse(text, &folder.path().join("sluice.yaml"), &env)
            .map(|loaded| loaded.config.upstreams["a"].ca_file.clone())
    };
    assert_eq!(load(&pem).expect("good roots"), Some(folder.path().join("ca.pem")));
    assert_eq!(load(&pem.repeat(2)).expect("several roots"), Some(folder.path().join("ca.pem")));
    for bad in [
        "",
        "not PEM",
        &pem.replace("-----END", "-----STOP"),
        "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
    ] {
        assert!(load(bad).is_err(), "{bad}");
    }
}
