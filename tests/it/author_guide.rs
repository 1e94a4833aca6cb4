//! The guide of `plugins/README.md`, followed to the letter in an empty folder: its blocks are taken out of it, not
//! copied here. Only its ports are replaced by free ones.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::gateway::binary;
use harness::now;

use crate::author_support::root;

const SECTION: &str = "## From nothing to a router that decides";
/// The promise is five minutes on a machine of one's own; this only ends a guide that hangs.
const SECONDS: &str = "900";

/// A block of the guide: what stands behind its fence, and its lines.
struct Block {
    info: String,
    text: String,
}

impl Block {
    /// The file it is, if it is one.
    fn file(&self) -> Option<&str> {
        self.info.split_once("title=\"").map(|(_, rest)| rest.trim_end_matches('"'))
    }
}

fn blocks(guide: &str) -> Vec<Block> {
    let (_, section) = guide.split_once(SECTION).expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in section.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some(Block { info: info.to_owned(), text: String::new() }),
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "an open fence");
    blocks
}

/// One script of all blocks, each said before it runs.
fn script(blocks: &[Block]) -> String {
    // Whatever happens, what the guide has started ends with it.
    let mut script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    for (at, block) in blocks.iter().enumerate() {
        script += &format!("echo \"== block {at} after ${{SECONDS}}s\"\n");
        match block.file() {
            Some(file) => script += &format!("cat > {file} <<'END OF FILE'\n{}END OF FILE\n", block.text),
            None => script += &block.text,
        }
    }
    script
}

/// Replaces each port of the guide by a free one. Minutes pass before they are listened on, so they are from below
/// the range that systems give away by themselves.
fn on_free_ports(mut text: String) -> String {
    let begin = 10_000 + u16::try_from(std::process::id() % 15_000).expect("a small number");
    let mut free = (begin..begin + 1000).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    for port in ["8080", "9090", "8001", "8002"] {
        let free = free.next().expect("a free port");
        if port == "9090" {
            text = text.replace("sluice plugins ", &format!("sluice plugins --admin 127.0.0.1:{free} "));
        }
        text = text.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{free}"));
    }
    text
}

/// Lines somebody has to write: no blank ones, no tests.
fn own_lines(source: &str) -> usize {
    let (code, _) = source.split_once("#[cfg(test)]").expect("a unit test");
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

fn run(script: &str, dir: &Path) -> (bool, String) {
    let binaries = binary().parent().expect("a folder").to_owned();
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new("timeout")
        .args([SECONDS, "bash", "-c", script])
        .current_dir(dir)
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .stdin(Stdio::null())
        .output()
        .expect("bash runs");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn the_guide_leads_from_an_empty_folder_to_an_own_router_that_decides() {
    let guide = fs::read_to_string(root().join("plugins/README.md")).expect("the guide");
    let blocks = blocks(&guide);
    let source = blocks.iter().find(|block| block.file() == Some("src/lib.rs")).expect("the router");
    let own = own_lines(&source.text);
    assert!(own < 40, "{own} lines of own code");
    let here = tempfile::tempdir().expect("a folder");
    let begun = now();
    let (done, said) = run(&on_free_ports(script(&blocks)), here.path());
    let took = now().duration_since(begun).as_secs();
    assert!(done, "the guide does not work:\n{said}");
    let expected = [
        "test result: ok. 1 passed",
        "ok: short-is-cheap.wasm would run: router 0.1.0, contract 0.1.0",
        "2 cases, 0 failed",
        "128 candidates",
        "x-sluice-upstream: cloud",
        "x-sluice-upstream: local",
        "short-is-cheap.wasm",
    ];
    let mut rest = said.as_str();
    for words in expected {
        rest = rest.split_once(words).unwrap_or_else(|| panic!("no `{words}`, in this order:\n{said}")).1;
    }
    println!("the guide took {took} s, with {own} lines of own code");
}
