//! Configurations: whatever a file holds, it is read to an end, and every mistake is at a place the file has.

use std::path::Path;

use sluice::config;

/// # Panics
/// When something does not hold.
pub fn check(bytes: &[u8]) {
    places(&String::from_utf8_lossy(bytes));
}

/// Characters of each line, counted apart from the code under test.
fn widths(text: &str) -> Vec<usize> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.split('\n').map(|line| line.chars().count()).collect()
}

/// # Panics
/// When a mistake is told at a place that is not in the text, or in more than one line.
pub fn places(text: &str) {
    let env = |name: &str| name.ends_with("KEY").then(|| "k".to_owned());
    let widths = widths(text);
    let findings = match config::parse(text, Path::new("f.yaml"), &env) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => {
            assert!(!errors.findings.is_empty(), "refused without a word");
            errors.findings
        }
    };
    for finding in findings {
        let width = widths.get(finding.line.wrapping_sub(1)).copied();
        let inside = width.is_some_and(|width| (1..=width + 1).contains(&finding.column));
        assert!(inside, "{finding:?} is not in\n{text}");
        assert!(!finding.text.contains(['\n', '\r']) && !finding.path.contains(['\n', '\r']));
    }
}
