//! The fault guests as files of a running gateway's plugin folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use harness::prelude::*;

/// What the hostile router does when a request has this header, and the result that is counted.
pub const FAULTS: [(&str, &str); 8] = [
    ("x-trap", "trap"),
    ("x-loop", "timeout"),
    ("x-mem", "memory"),
    ("x-deep", "stack"),
    ("x-nan", "invalid"),
    ("x-short", "invalid"),
    ("x-long", "invalid"),
    ("x-huge", "trap"),
];

/// One of the built guests.
///
/// # Panics
/// When they are not built; says how to.
pub fn guest(name: &str) -> Vec<u8> {
    let built =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/target/components").join(format!("{name}.wasm"));
    std::fs::read(&built).unwrap_or_else(|error| {
        panic!("{}: {error}; in the root of the repository run: tests/guests/build", built.display())
    })
}

fn folder(x: &Case) -> PathBuf {
    x.gateway.dir().join("plugins.d")
}

/// Puts a file into the plugin folder, whole at once.
pub fn put(x: &Case, file: &str, bytes: &[u8]) {
    let new = x.gateway.dir().join("new-plugin");
    std::fs::write(&new, bytes).expect("a file in our own directory");
    std::fs::rename(new, folder(x).join(file)).expect("a file of our own can be renamed");
}

/// Takes one out.
pub fn take_out(x: &Case, file: &str) {
    std::fs::remove_file(folder(x).join(file)).expect("a file of our own can be removed");
}

/// The entry of a plugin on the admin page; null when there is none.
pub async fn entry(x: &Case, name: &str) -> Value {
    let page = x.gateway.admin_json("/debug/plugins").await;
    let entries = page["plugins"].as_array().expect("a list of plugins");
    entries.iter().find(|entry| entry["name"] == name).cloned().unwrap_or_default()
}

/// The number of the generation that new requests get.
pub async fn generation(x: &Case) -> u64 {
    x.gateway.admin_json("/debug/plugins").await["generation"].as_u64().expect("a generation has a number")
}

/// `x-sluice-policy` taken apart: the generation, and each plugin as kind, name, first digits of its digest.
pub fn policy(response: &Response) -> (u64, Vec<(String, String, String)>) {
    let line = response.header("x-sluice-policy").unwrap_or_else(|| panic!("no policy: {response:?}"));
    let mut words = line.split(' ');
    let number = words.next().and_then(|word| word.strip_prefix('g')).and_then(|word| word.parse().ok());
    let part = |word: &str| {
        let (kind, plugin) = word.split_once('=')?;
        let (name, digest) = plugin.split_once('@')?;
        (digest.len() == 8).then(|| (kind.to_owned(), name.to_owned(), digest.to_owned()))
    };
    let parts: Option<Vec<_>> = words.map(part).collect();
    let Some(parsed) = number.zip(parts) else { panic!("no policy line: {line:?}") };
    parsed
}

/// All records so far, by request id.
pub fn records(x: &Case) -> HashMap<String, Value> {
    let records = x.gateway.events("request").into_iter();
    records.map(|record| (record["request_id"].as_str().unwrap_or_default().to_owned(), record)).collect()
}

/// What the head says of generation and plugins is what the record says.
#[track_caller]
pub fn one_generation(response: &Response, record: &Value) {
    if response.header("x-sluice-policy").is_none() {
        return;
    }
    let (number, mut head) = policy(response);
    assert_eq!(record["generation"], number, "{record}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let plugins = record["plugins"].as_array().expect("a list of plugins");
    let digits = |value: &Value| text(value).chars().take(8).collect::<String>();
    let mut written: Vec<_> =
        plugins.iter().map(|p| (text(&p["kind"]), text(&p["name"]), digits(&p["digest"]))).collect();
    head.sort();
    written.sort();
    assert_eq!(head, written, "plugins of the head and of the record {record}");
}
