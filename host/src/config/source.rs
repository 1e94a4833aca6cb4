//! From a path to text. What goes wrong here is class `read`: a file that is missing, half written or
//! no text at all, as opposed to one with mistakes in it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::finding::{ConfigErrors, ErrorClass, Finding, Pos, WHOLE_FILE};

/// Largest file that is read, bytes. A configuration of thousands of targets is a tenth of it.
const MAX_FILE: u64 = 4 << 20;

pub(super) fn read(path: &Path) -> Result<String, ConfigErrors> {
    let refuse = |finding| ConfigErrors::one(path, ErrorClass::Read, finding);
    let bytes = read_bounded(path, MAX_FILE).map_err(|text| refuse(Finding::of_file(text)))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = end_of(&String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]));
        refuse(Finding::new(at, WHOLE_FILE, "is not UTF-8 from here on"))
    })
}

/// The bytes of a file of at most `limit`, or why not, in words without the path.
pub(super) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let why = |error: std::io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(why)?;
    if file.metadata().map_err(why)?.is_dir() {
        return Err("cannot be read: it is a folder".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(why)?;
    if bytes.len() as u64 > limit {
        return Err(format!("is larger than {limit} bytes"));
    }
    Ok(bytes)
}

/// The place behind the last character of `text`, counting lines as YAML does.
fn end_of(text: &str) -> Pos {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let last = text.rsplit('\n').next().unwrap_or_default();
    Pos { line: text.matches('\n').count() + 1, column: last.chars().count() + 1 }
}
