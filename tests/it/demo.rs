//! `sluice demo --once` as its users run it: what it promises, in one command.

use std::process::Stdio;
use std::time::Duration;

use harness::gateway::binary;
use tokio::process::Command;

/// Promised is well under a minute on a machine that does nothing else.
const MOST: Duration = Duration::from_secs(120);
const ROWS: usize = 15;

#[tokio::test]
async fn every_row_of_the_demo_comes_out_right() {
    let temp = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(binary());
    command.args(["demo", "--once"]).env("TMPDIR", temp.path()).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(MOST, command.output()).await;
    let output = output.expect("the demo ends in time").expect("the binary can be executed");
    let text = String::from_utf8(output.stdout).expect("the demo writes UTF-8");
    let marks: Vec<String> = text.lines().filter_map(mark).collect();
    let right: Vec<String> = (1..=ROWS).map(|row| format!("✓ {row}")).collect();
    assert_eq!(marks, right, "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains(&format!("All {ROWS} rows came out right")), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "no line of a log beside the table");
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(wide.is_empty(), "lines of more than a hundred columns: {wide:?}");
    assert!(
        !text.contains(['{', '\x1b']),
        "no line of a log in the table, nothing for terminals only: {text}"
    );
    let left: Vec<_> = std::fs::read_dir(temp.path()).expect("the folder is there").collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Mark and number of the line with which a row begins, and every other line that complains.
fn mark(line: &str) -> Option<String> {
    let (mark, rest) = line.trim_start().split_once(' ')?;
    matches!(mark, "✓" | "✗")
        .then(|| format!("{mark} {}", rest.split_whitespace().next().unwrap_or_default()))
}
