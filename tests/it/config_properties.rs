//! Whatever bytes a file holds: no panic, an answer in bounded time, and every mistake at a place that the
//! file has.
#![allow(clippy::expect_used, reason = "a broken input should stop the test")]

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use sluice::config;

use crate::fuzz_seeds::places;

const FULL: &str = include_str!("../../examples/full.yaml");
const TWO: &str = include_str!("../../examples/two-upstreams.yaml");

/// An edit of a good file: cut `length` characters at a share of the text and put `new` there.
fn edited(text: &str, edits: &[(f64, usize, String)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, length, new) in edits {
        let start = (at * chars.len() as f64) as usize;
        let end = (start + length).min(chars.len());
        chars.splice(start..end, new.chars());
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_as_text(bytes in vec(any::<u8>(), 0..400)) {
        places(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_soup_of_what_yaml_is_made_of(tokens in vec(
        prop::sample::select(vec![
            "a", "upstreams", "routes", ":", ": ", " ", "  ", "\n", "\n  ", "\r\n", "\r", "\t", "- ", "-", "[", "]", "{", "}", ",",
            "&a ", "*a", "<<: ", "? ", "| ", "|\n", ">-\n", "'", "\"", "\\", "#", " #", "!x ", "!!str ", "%", "---\n", "...\n", "~",
            "\u{feff}", "é", "\u{1F980}", "\u{85}", "\u{2028}", "\0", "1", "30s", "@", "`", "null",
        ]), 0..60)) {
        places(&tokens.concat());
    }

    #[test]
    fn a_good_file_with_something_wrong(
        file in prop::sample::select(vec![FULL, TWO]),
        edits in vec((0.0..1.0f64, 0usize..40, "[ -~\\n\\t\u{e9}\u{1F980}]{0,6}"), 1..4),
    ) {
        places(&edited(file, &edits));
    }
}

#[test]
fn a_file_of_bytes_that_are_no_text_is_refused_where_they_start() {
    let folder = tempfile::tempdir().expect("a folder");
    for (bytes, line, column) in
        [(&b"\xff"[..], 1, 1), (b"a: 1\nb: \xc3\x28\n", 2, 4), (b"\xef\xbb\xbfa\r\n\xc3\xa9\xff", 2, 2)]
    {
        let path = folder.path().join("f.yaml");
        std::fs::write(&path, bytes).expect("the file is written");
        let errors = config::load_with(&path, &|_| None).expect_err("no text");
        let finding = errors.findings.first().expect("a finding");
        assert_eq!((errors.kind.as_str(), finding.line, finding.column), ("read", line, column));
    }
}

/// A key pasted in the place of any value or item of a good file: the file is refused or not, but what is
/// said never repeats it.
#[test]
fn a_secret_in_the_place_of_any_value_is_never_shown() {
    let env = |name: &str| name.ends_with("KEY").then(|| "k".to_owned());
    let mut refused = 0;
    for (number, line) in FULL.lines().enumerate() {
        let starts = line.match_indices([':', ',', '[', '{']).map(|(at, _)| at + 1);
        for start in
            starts.filter(|start| line[*start..].starts_with(' ') && !line.trim_start().starts_with('#'))
        {
            let end = line[start..].find([',', ']', '}']).map_or(line.len(), |length| start + length);
            let pasted = format!("{} sk-hush-0123456789abcdef {}", &line[..start], &line[end..]);
            let lines = FULL.lines().enumerate();
            let text: Vec<&str> =
                lines.map(|(i, line)| if i == number { pasted.as_str() } else { line }).collect();
            if let Err(errors) = config::parse(&text.join("\n"), Path::new("f.yaml"), &env) {
                refused += 1;
                assert!(!errors.to_string().contains("hush"), "{pasted}\n{errors}");
            }
        }
    }
    assert!(refused > 100, "only {refused} files were refused");
}
